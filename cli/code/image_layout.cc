#include "cli/code/image_layout.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

namespace adaptdl::cli {
namespace {

namespace fs = std::filesystem;

// Without a "/" at its end.
std::string Normal(const fs::path& path) {
  std::string text = path.lexically_normal().string();
  if (text.size() > 1 && absl::EndsWith(text, "/")) text.pop_back();
  return text;
}

// Lines of the file, those that go on ("\") as one, without comments.
std::vector<std::string> LogicalLines(absl::string_view dockerfile) {
  std::vector<std::string> lines;
  bool goes_on = false;
  for (absl::string_view line : absl::StrSplit(dockerfile, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(line, "#") || (goes_on && line.empty())) continue;
    const bool more = absl::ConsumeSuffix(&line, "\\");
    if (goes_on) {
      absl::StrAppend(&lines.back(), " ", line);
    } else {
      lines.emplace_back(line);
    }
    goes_on = more;
  }
  return lines;
}

// Of "a b" or ["a", "b"]. Empty: it is neither.
std::vector<std::string> WordsOf(absl::string_view text) {
  std::vector<std::string> words;
  if (!absl::StartsWith(text, "[")) {
    return absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  }
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return {};
  for (const nlohmann::json& word : list) {
    if (!word.is_string()) return {};
    words.push_back(word.get<std::string>());
  }
  return words;
}

// Whether only a build could tell what it means.
bool NeedsBuild(absl::string_view word) {
  return word.find_first_of("$*?[") != absl::string_view::npos || absl::StrContains(word, "<<") ||
         absl::StrContains(word, "://");
}

// What is left of `path` below `folder`; none: it is not there.
std::optional<std::string> Below(absl::string_view path, absl::string_view folder) {
  if (path == folder) return std::string();
  if (folder != "/" && !absl::ConsumePrefix(&path, folder)) return std::nullopt;
  if (!absl::ConsumePrefix(&path, "/")) return std::nullopt;
  return std::string(path);
}

}  // namespace

ImageLayout ImageLayout::Parse(absl::string_view dockerfile) {
  ImageLayout layout;
  // Of stages that later ones may begin with, by their names.
  std::vector<std::pair<std::string, ImageLayout>> stages;
  std::string name;
  for (const std::string& line : LogicalLines(dockerfile)) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(absl::ByAnyChar(" \t"), 1));
    const std::string instruction = absl::AsciiStrToUpper(parts.first);
    if (instruction != "FROM") {
      layout.Take(instruction, absl::StripAsciiWhitespace(parts.second));
      continue;
    }
    if (!name.empty()) stages.emplace_back(name, layout);
    const std::vector<std::string> words = WordsOf(parts.second);
    layout = ImageLayout();
    name.clear();
    for (size_t i = 0; i < words.size(); ++i) {
      for (const auto& [earlier, of_earlier] : stages) {
        if (words[i] == earlier && (i == 0 || absl::StartsWith(words[i - 1], "--"))) layout = of_earlier;
      }
      if (absl::EqualsIgnoreCase(words[i], "as") && i + 1 < words.size()) name = words[i + 1];
    }
  }
  return layout;
}

void ImageLayout::Take(absl::string_view instruction, absl::string_view rest) {
  if (instruction == "COPY" || instruction == "ADD") return TakeCopy(rest);
  if (instruction != "WORKDIR") return;
  const std::vector<std::string> words = WordsOf(rest);
  if (words.size() == 1 && !NeedsBuild(words[0])) workdir_ = InImage(words[0]);
}

void ImageLayout::TakeCopy(absl::string_view rest) {
  while (absl::StartsWith(rest, "--")) {
    // Of another stage or image.
    if (absl::StartsWith(rest, "--from=")) return;
    const size_t end = rest.find_first_of(" \t");
    if (end == absl::string_view::npos) return;
    rest = absl::StripLeadingAsciiWhitespace(rest.substr(end));
  }
  std::vector<std::string> words = WordsOf(rest);
  if (words.size() < 2) return;
  const std::string target = std::move(words.back());
  words.pop_back();
  if (NeedsBuild(target)) return;
  const bool into_folder = words.size() > 1 || absl::EndsWith(target, "/") || target == "." ||
                           absl::EndsWith(target, "/.") || InImage(target) == workdir_;
  for (const std::string& word : words) {
    if (NeedsBuild(word)) continue;
    // All sources are relative to the folder, also those that begin with a slash.
    copies_.push_back({Normal(fs::path(word).relative_path() / ""), InImage(target), into_folder});
    if (copies_.back().source.empty()) copies_.back().source = ".";
  }
}

std::string ImageLayout::InImage(absl::string_view path) const {
  return Normal(fs::path(workdir_) / fs::path(std::string(path)));
}

std::optional<std::string> ImageLayout::Find(absl::string_view path,
                                             const std::function<bool(const std::string&)>& is_there) const {
  const std::string wanted = Normal(fs::path("/") / fs::path(std::string(path)));
  for (auto copy = copies_.rbegin(); copy != copies_.rend(); ++copy) {
    const std::optional<std::string> rest = Below(wanted, copy->target);
    if (!rest.has_value()) continue;
    // A folder's content, or a file under the target's name; else a file in the target, if that is a folder, which an
    // image that is begun with may say.
    const std::string content = Normal(fs::path(copy->source) / *rest);
    const std::string base = fs::path(copy->source).filename().string();
    if ((!rest->empty() || !copy->into_folder || copy->source == ".") && is_there(content)) return content;
    if (*rest == base && is_there(copy->source)) return copy->source;
    if (rest->empty() && copy->into_folder && is_there(copy->source + "/.")) return copy->source;
  }
  return std::nullopt;
}

bool ImageLayout::IsOfImage(absl::string_view path) const {
  const std::string wanted = Normal(fs::path("/") / fs::path(std::string(path)));
  if (workdir_ != "/" && Below(wanted, workdir_).has_value()) return true;
  for (const Copy& copy : copies_) {
    if (copy.target != "/" && Below(wanted, copy.target).has_value()) return true;
  }
  return false;
}

}  // namespace adaptdl::cli
