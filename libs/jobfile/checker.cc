#include "libs/jobfile/checker.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "libs/base/nearest.h"
#include "libs/base/utf8.h"

namespace adaptdl::jobfile {
namespace {

enum class Look { kText, kInteger, kNumber, kBoolean };

// What an unquoted scalar is to a YAML reader.
Look LookOf(const Node& node) {
  if (node.quoted) return Look::kText;
  for (const absl::string_view word : {"true", "false", "yes", "no", "on", "off"}) {
    if (absl::EqualsIgnoreCase(node.text, word)) return Look::kBoolean;
  }
  absl::string_view digits = node.text;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (digits.empty()) return Look::kText;
  if (std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit)) return Look::kInteger;
  // What strtod would take beyond numbers (nan, infinity, hexadecimal) is text to us, except YAML's own
  // forms.
  double ignored = 0;
  const bool digit_first = absl::ascii_isdigit(digits[0]) || digits[0] == '.';
  if (digit_first && absl::SimpleAtod(digits, &ignored)) return Look::kNumber;
  if (absl::EqualsIgnoreCase(digits, ".inf") || absl::EqualsIgnoreCase(digits, ".nan")) return Look::kNumber;
  return Look::kText;
}

absl::string_view NameOf(Type type) {
  switch (type) {
    case Type::kText:
      return "a text";
    case Type::kInteger:
      return "a whole number";
    case Type::kNumber:
      return "a number";
    case Type::kBoolean:
      return "true or false";
    case Type::kQuantity:
      return "a quantity";
    case Type::kList:
      return "a list";
    case Type::kMap:
      return "a map of fields";
  }
  return "";
}

std::string Describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "empty";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map of fields";
    case Node::Kind::kScalar:
      break;
  }
  switch (LookOf(node)) {
    case Look::kText:
      return Quoted(node.text);
    case Look::kInteger:
    case Look::kNumber:
      return absl::StrCat("the number ", node.text);
    case Look::kBoolean:
      return absl::StrCat("the truth value ", node.text);
  }
  return "";
}

bool HasType(const Node& node, Type type) {
  if (type == Type::kList) return node.kind == Node::Kind::kList;
  if (type == Type::kMap) return node.kind == Node::Kind::kMap;
  if (node.kind != Node::Kind::kScalar) return false;
  const Look look = LookOf(node);
  switch (type) {
    case Type::kText:
      return look == Look::kText;
    case Type::kInteger:
      return look == Look::kInteger;
    case Type::kNumber:
      return look == Look::kInteger || look == Look::kNumber;
    case Type::kBoolean:
      return look == Look::kBoolean &&
             (absl::EqualsIgnoreCase(node.text, "true") || absl::EqualsIgnoreCase(node.text, "false"));
    case Type::kQuantity:
      return look != Look::kBoolean;
    default:
      return false;
  }
}

void AddUnknownField(const Field& field, const std::string& path, absl::Span<const KnownField> known,
                     Problems* problems) {
  std::vector<absl::string_view> names;
  for (const KnownField& candidate : known) names.push_back(candidate.name);
  const absl::string_view nearest = Nearest(field.name, names);
  std::string text = absl::StrCat(Join(path, field.name), " is not a known field");
  if (field.name == "<<") {
    absl::StrAppend(&text, "; YAML's merge keys are not supported: write the fields out");
  } else if (!nearest.empty()) {
    absl::StrAppend(&text, "; did you mean ", Join(path, nearest), "?");
  }
  problems->Add(field.line, text);
}

}  // namespace

void Problems::Add(int line, absl::string_view text) { errors_.push_back({line, std::string(text)}); }

void Problems::Warn(int line, absl::string_view text) { warnings_.push_back({line, std::string(text)}); }

std::vector<std::string> Problems::Render(std::vector<Problem> problems) const {
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& a, const Problem& b) { return a.line < b.line; });
  std::vector<std::string> lines;
  for (const Problem& problem : problems) {
    lines.push_back(absl::StrCat(file_name_, ":", problem.line, ": ", problem.text));
  }
  return lines;
}

absl::Status Problems::ToStatus() const {
  if (errors_.empty()) return absl::OkStatus();
  constexpr size_t kMostShown = 50;
  std::vector<std::string> lines = Render(errors_);
  const size_t hidden = lines.size() > kMostShown ? lines.size() - kMostShown : 0;
  lines.resize(lines.size() - hidden);
  if (hidden > 0) lines.push_back(absl::StrCat(file_name_, ": and ", hidden, " more problems"));
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

std::vector<std::string> Problems::Warnings() const { return Render(warnings_); }

std::string Join(absl::string_view path, absl::string_view name) {
  const std::string printable = absl::Utf8SafeCEscape(CutUtf8(name, 100));
  return path.empty() ? printable : absl::StrCat(path, ".", printable);
}

std::string Quoted(absl::string_view text) {
  constexpr size_t kLongest = 80;
  if (text.size() <= kLongest) return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\"");
  return absl::StrCat("\"", absl::Utf8SafeCEscape(CutUtf8(text, kLongest)), "...\"");
}

bool CheckType(const Node& node, Type type, const std::string& path, Problems* problems) {
  if (HasType(node, type)) return true;
  std::string text = absl::StrCat(path, " must be ", NameOf(type), ", not ", Describe(node));
  if (type == Type::kText && node.kind == Node::Kind::kScalar) {
    absl::StrAppend(&text, "; put it in quotes: \"", absl::Utf8SafeCEscape(node.text), "\"");
  }
  problems->Add(node.line, text);
  return false;
}

void CheckFields(const Node& map, const std::string& path, absl::Span<const KnownField> known,
                 Problems* problems) {
  std::set<absl::string_view> seen;
  for (const Field& field : map.fields) {
    if (!seen.insert(field.name).second) {
      problems->Add(field.line, absl::StrCat(Join(path, field.name), " is given twice; keep one"));
      continue;
    }
    const auto* match = std::find_if(known.begin(), known.end(), [&](const KnownField& candidate) {
      return candidate.name == field.name;
    });
    if (match == known.end()) {
      AddUnknownField(field, path, known, problems);
      continue;
    }
    if (field.value.kind == Node::Kind::kNull) continue;
    if (!CheckType(field.value, match->type, Join(path, field.name), problems)) continue;
    if (!match->ignored.empty()) {
      problems->Warn(field.line, absl::StrCat(Join(path, field.name), " has no effect: ", match->ignored));
    }
  }
}

const Node* Get(const Node* map, absl::string_view name, Type type) {
  if (map == nullptr) return nullptr;
  const Node* node = map->Find(name);
  return node != nullptr && HasType(*node, type) ? node : nullptr;
}

bool ReadInteger(const Node& node, const std::string& path, int64_t low, int64_t high, int64_t* value,
                 Problems* problems) {
  if (absl::SimpleAtoi(node.text, value) && *value >= low && *value <= high) return true;
  problems->Add(node.line,
                absl::StrCat(path, " must lie between ", low, " and ", high, ", not ", Quoted(node.text)));
  return false;
}

bool ReadNumber(const Node& node, const std::string& path, double low, double high, double* value,
                Problems* problems) {
  // ".inf" and ".nan" are numbers of YAML that no bound lets through.
  if (absl::SimpleAtod(node.text, value) && *value >= low && *value <= high) return true;
  problems->Add(node.line,
                absl::StrCat(path, " must lie between ", low, " and ", high, ", not ", Quoted(node.text)));
  return false;
}

}  // namespace adaptdl::jobfile
