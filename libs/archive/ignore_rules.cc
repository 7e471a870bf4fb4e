#include "libs/archive/ignore_rules.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace adaptdl::archive {
namespace {

constexpr absl::string_view kBuiltIn = R"(.git
.hg
.svn
__pycache__/
*.py[co]
.ipynb_checkpoints/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.tox/
.venv/
.DS_Store
)";

constexpr absl::string_view kBuiltInName = "built in";
constexpr absl::string_view kAnyFolders = "**";

struct NamedClass {
  absl::string_view name;
  bool (*has)(unsigned char);
};

constexpr NamedClass kClasses[] = {
    {"alnum", absl::ascii_isalnum}, {"alpha", absl::ascii_isalpha}, {"blank", absl::ascii_isblank},
    {"cntrl", absl::ascii_iscntrl}, {"digit", absl::ascii_isdigit}, {"graph", absl::ascii_isgraph},
    {"lower", absl::ascii_islower}, {"print", absl::ascii_isprint}, {"punct", absl::ascii_ispunct},
    {"space", absl::ascii_isspace}, {"upper", absl::ascii_isupper}, {"xdigit", absl::ascii_isxdigit}};

// "[:alpha:]" at the beginning of `rest`: whether `c` is of it. Nothing: there is none there.
std::optional<bool> TakeClass(absl::string_view* rest, char c) {
  for (const NamedClass& known : kClasses) {
    absl::string_view after = *rest;
    if (!absl::ConsumePrefix(&after, "[:") || !absl::ConsumePrefix(&after, known.name) ||
        !absl::ConsumePrefix(&after, ":]")) {
      continue;
    }
    *rest = after;
    return known.has(static_cast<unsigned char>(c));
  }
  return std::nullopt;
}

// One character of a set, which may be escaped. Nothing: the set ends in the middle of it.
std::optional<unsigned char> TakeMember(absl::string_view* rest) {
  if (absl::StartsWith(*rest, "\\")) rest->remove_prefix(1);
  if (rest->empty()) return std::nullopt;
  const auto member = static_cast<unsigned char>(rest->front());
  rest->remove_prefix(1);
  return member;
}

// `rest`: after "[". Whether the set there has `c`; moved behind its "]". Nothing: it has no end.
std::optional<bool> TakeSet(absl::string_view* rest, char c) {
  const bool negated = absl::ConsumePrefix(rest, "!") || absl::ConsumePrefix(rest, "^");
  const auto wanted = static_cast<unsigned char>(c);
  bool found = false;
  // A "]" that comes first is one of the characters.
  for (bool first = true; first || !absl::StartsWith(*rest, "]"); first = false) {
    if (rest->empty()) return std::nullopt;
    if (const std::optional<bool> of_class = TakeClass(rest, c); of_class.has_value()) {
      found = found || *of_class;
      continue;
    }
    const std::optional<unsigned char> low = TakeMember(rest);
    if (!low.has_value()) return std::nullopt;
    unsigned char high = *low;
    if (rest->size() >= 2 && (*rest)[0] == '-' && (*rest)[1] != ']') {
      rest->remove_prefix(1);
      const std::optional<unsigned char> end = TakeMember(rest);
      if (!end.has_value()) return std::nullopt;
      high = *end;
    }
    found = found || (wanted >= *low && wanted <= high);
  }
  rest->remove_prefix(1);
  return found != negated;
}

// Whether what the pattern begins with, which is no "*", matches `c`; moved behind it.
bool TakeOne(absl::string_view* pattern, char c) {
  const char head = pattern->front();
  pattern->remove_prefix(1);
  if (head == '?') return true;
  if (head == '[') return TakeSet(pattern, c).value_or(false);
  if (head != '\\') return head == c;
  if (pattern->empty()) return false;
  const char escaped = pattern->front();
  pattern->remove_prefix(1);
  return escaped == c;
}

// `parts` of a pattern against those of a path. Each entry of the table says whether the pattern up to there matches the
// path up to there, so that many "**" take no longer than one.
bool MatchesParts(const std::vector<std::string>& parts, const std::vector<absl::string_view>& names) {
  std::vector<bool> matched(names.size() + 1, false);
  matched[0] = true;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<bool> next(names.size() + 1, false);
    if (parts[p] == kAnyFolders) {
      // At the end it means all that is in a folder, not the folder.
      const bool last = p + 1 == parts.size();
      bool reached = false;
      for (size_t n = 0; n <= names.size(); ++n) {
        next[n] = reached || (matched[n] && !last);
        reached = reached || matched[n];
      }
    } else {
      for (size_t n = 0; n < names.size(); ++n) next[n + 1] = matched[n] && MatchesName(parts[p], names[n]);
    }
    matched = std::move(next);
  }
  return matched[names.size()];
}

// Spaces at the end are no part of a rule, unless a backslash stands before them.
absl::string_view TrimEnd(absl::string_view line) {
  absl::ConsumeSuffix(&line, "\r");
  while (absl::EndsWith(line, " ") && !absl::EndsWith(line, "\\ ")) line.remove_suffix(1);
  return line;
}

}  // namespace

bool MatchesName(absl::string_view pattern, absl::string_view name) {
  // Where to go on if what follows the last "*" does not match: the "*" takes one character more.
  std::optional<absl::string_view> after_star;
  absl::string_view star_name;
  while (!name.empty()) {
    if (absl::StartsWith(pattern, "*")) {
      while (absl::ConsumePrefix(&pattern, "*")) {
      }
      after_star = pattern;
      star_name = name;
      continue;
    }
    if (!pattern.empty() && TakeOne(&pattern, name.front())) {
      name.remove_prefix(1);
      continue;
    }
    if (!after_star.has_value()) return false;
    pattern = *after_star;
    star_name.remove_prefix(1);
    name = star_name;
  }
  while (absl::ConsumePrefix(&pattern, "*")) {
  }
  return pattern.empty();
}

absl::string_view IgnoreRules::BuiltInText() { return kBuiltIn; }

std::shared_ptr<const IgnoreRules> IgnoreRules::BuiltIn() {
  return Below(nullptr, "", kBuiltIn, kBuiltInName);
}

std::shared_ptr<const IgnoreRules> IgnoreRules::Below(std::shared_ptr<const IgnoreRules> outer,
                                                      absl::string_view folder, absl::string_view text,
                                                      absl::string_view file) {
  std::shared_ptr<IgnoreRules> rules(new IgnoreRules(std::move(outer), folder, file));
  // A mark that some editors put at the beginning of a file.
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    std::optional<Rule> rule = ParseLine(line);
    if (!rule.has_value()) continue;
    rule->line = number;
    rules->rules_.push_back(*std::move(rule));
  }
  return rules;
}

std::optional<IgnoreRules::Rule> IgnoreRules::ParseLine(absl::string_view line) {
  line = TrimEnd(line);
  if (line.empty() || line.front() == '#') return std::nullopt;
  Rule rule;
  rule.text = std::string(line);
  rule.takes_in = absl::ConsumePrefix(&line, "!");
  rule.folders_only = absl::ConsumeSuffix(&line, "/");
  rule.whole_path = absl::StrContains(line, '/');
  absl::ConsumePrefix(&line, "/");
  if (line.empty()) return std::nullopt;
  rule.parts = absl::StrSplit(line, '/');
  return rule;
}

const IgnoreRules::Rule* IgnoreRules::Find(absl::string_view path, bool is_folder) const {
  absl::string_view below = path;
  if (!folder_.empty() && (!absl::ConsumePrefix(&below, folder_) || !absl::ConsumePrefix(&below, "/"))) {
    return nullptr;
  }
  const std::vector<absl::string_view> names = absl::StrSplit(below, '/');
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->folders_only && !is_folder) continue;
    const bool matches =
        rule->whole_path ? MatchesParts(rule->parts, names) : MatchesName(rule->parts.front(), names.back());
    if (matches) return &*rule;
  }
  return nullptr;
}

bool IgnoreRules::Ignores(absl::string_view path, bool is_folder) const {
  for (const IgnoreRules* rules = this; rules != nullptr; rules = rules->outer_.get()) {
    if (const Rule* rule = rules->Find(path, is_folder); rule != nullptr) return !rule->takes_in;
  }
  return false;
}

std::string IgnoreRules::WhyIgnored(absl::string_view path, bool is_folder) const {
  for (const IgnoreRules* rules = this; rules != nullptr; rules = rules->outer_.get()) {
    const Rule* rule = rules->Find(path, is_folder);
    if (rule == nullptr) continue;
    if (rule->takes_in) break;
    if (rules->file_ == kBuiltInName) return absl::StrCat(kBuiltInName, ": ", rule->text);
    return absl::StrCat(rules->folder_, rules->folder_.empty() ? "" : "/", rules->file_, ":", rule->line,
                        ": ", rule->text);
  }
  return "";
}

}  // namespace adaptdl::archive
