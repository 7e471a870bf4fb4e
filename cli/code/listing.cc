#include "cli/code/listing.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "cli/format.h"

namespace adaptdl::cli {
namespace {

using archive::FolderContents;
using archive::FolderEntry;

// Columns of a size: "1023.9GiB".
constexpr int kSizeWidth = 9;

int64_t FilesOf(const FolderContents& contents) {
  return std::count_if(contents.entries.begin(), contents.entries.end(),
                       [](const FolderEntry& entry) { return entry.kind != FolderEntry::Kind::kFolder; });
}

std::string SizeText(int64_t bytes) { return absl::StrCat(FormatBytes(bytes), "B"); }

void AppendLeftOut(const FolderContents& contents, std::string* out) {
  if (contents.left_out.empty()) return;
  // Those of one rule together, by the first of them.
  std::vector<std::pair<absl::string_view, std::vector<const archive::LeftOut*>>> rules;
  for (const archive::LeftOut& entry : contents.left_out) {
    auto rule = std::find_if(rules.begin(), rules.end(),
                             [&](const auto& known) { return known.first == entry.rule; });
    if (rule == rules.end()) rule = rules.insert(rules.end(), {entry.rule, {}});
    rule->second.push_back(&entry);
  }
  absl::StrAppend(out, "left out\n");
  for (const auto& [rule, entries] : rules) {
    absl::StrAppend(out, "  by ", Printable(rule), "\n");
    constexpr size_t kShown = 5;
    for (size_t i = 0; i < std::min(entries.size(), kShown); ++i) {
      absl::StrAppend(out, "    ", Printable(entries[i]->path), entries[i]->is_folder ? "/" : "", "\n");
    }
    if (entries.size() > kShown) absl::StrAppend(out, "    and ", entries.size() - kShown, " more\n");
  }
}

// The entry that is this path or a folder above it. Null: none is.
const archive::LeftOut* FindLeftOut(const FolderContents& contents, const std::string& path) {
  for (const archive::LeftOut& entry : contents.left_out) {
    if (path == entry.path || (entry.is_folder && absl::StartsWith(path, absl::StrCat(entry.path, "/"))))
      return &entry;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> MissedByCommand(const FolderContents& contents, const v1::ReplicaTemplate& replica) {
  std::vector<std::string> words(replica.command().begin(), replica.command().end());
  words.insert(words.end(), replica.args().begin(), replica.args().end());
  std::vector<std::string> lines;
  for (size_t i = 0; i < words.size(); ++i) {
    // A program without a slash is looked up in PATH.
    if (words[i].empty() || (i == 0 && !absl::StrContains(words[i], '/'))) continue;
    const std::filesystem::path path = std::filesystem::path(replica.working_directory()) / words[i];
    const archive::LeftOut* found = FindLeftOut(contents, path.lexically_normal().string());
    if (found == nullptr) continue;
    lines.push_back(Printable(absl::StrCat(words[i], ", which the command names, is left out by ",
                                           found->rule, "; \"!", found->path, found->is_folder ? "/" : "",
                                           "\" in .adaptdlignore takes it along")));
  }
  return lines;
}

std::string AmountText(const FolderContents& contents) {
  const int64_t files = FilesOf(contents);
  return absl::StrCat(files, files == 1 ? " file, " : " files, ", SizeText(contents.bytes));
}

std::string ListingText(const std::string& folder, const FolderContents& contents) {
  std::string out = absl::StrCat(Printable(folder), ": ", AmountText(contents), "\n");
  for (const FolderEntry& entry : contents.entries) {
    if (entry.kind == FolderEntry::Kind::kFolder) continue;
    const bool link = entry.kind == FolderEntry::Kind::kLink;
    absl::StrAppend(
        &out,
        absl::StrFormat("%*s  %s", kSizeWidth, link ? "link" : SizeText(entry.size), Printable(entry.path)),
        link ? absl::StrCat(" -> ", Printable(entry.target)) : "", "\n");
  }
  AppendLeftOut(contents, &out);
  return out;
}

Json ListingJson(const std::string& folder, const FolderContents& contents) {
  Json files = Json::array();
  for (const FolderEntry& entry : contents.entries) {
    if (entry.kind == FolderEntry::Kind::kFolder) continue;
    Json file = {{"path", entry.path}, {"bytes", entry.size}};
    if (entry.kind == FolderEntry::Kind::kLink) file["target"] = entry.target;
    files.push_back(std::move(file));
  }
  Json left_out = Json::array();
  for (const archive::LeftOut& entry : contents.left_out) {
    left_out.push_back({{"path", entry.path}, {"rule", entry.rule}});
  }
  return {{"folder", folder}, {"bytes", contents.bytes}, {"files", files}, {"leftOut", left_out}};
}

}  // namespace adaptdl::cli
