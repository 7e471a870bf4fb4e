#include "services/worker/objects/checkpoint_folder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/objectstore/digest.h"
#include "nlohmann/json.hpp"

namespace adaptdl::worker {
namespace {

constexpr char kLibraryPrefix[] = "checkpoint-";
constexpr char kLibraryManifest[] = "MANIFEST";
// Of the library's manifest, which names some files.
constexpr int64_t kMaxLibraryManifestBytes = int64_t{16} << 20;

// "checkpoint-7/...": 7.
std::optional<int64_t> VersionOfPath(absl::string_view path) {
  int64_t version = 0;
  const size_t slash = path.find('/');
  if (slash == absl::string_view::npos || !absl::ConsumePrefix(&path, kLibraryPrefix)) return std::nullopt;
  const absl::string_view number = path.substr(0, path.find('/'));
  if (!absl::SimpleAtoi(number, &version) || version < 0) return std::nullopt;
  return version;
}

// The group that a manifest of the library says has written it. None: it is no such manifest.
std::optional<int64_t> GroupOf(const std::string& folder, const LocalFile& manifest) {
  const absl::StatusOr<UniqueFd> file = OpenFile(folder, manifest.path);
  if (!file.ok() || manifest.size > kMaxLibraryManifestBytes) return std::nullopt;
  const absl::StatusOr<std::string> text = SourceOf(*file)(0, manifest.size);
  if (!text.ok()) return std::nullopt;
  const nlohmann::json json = nlohmann::json::parse(text->substr(0, text->find('\n')), nullptr, false);
  if (!json.is_object() || !json.contains("group") || !json["group"].is_number_integer()) return std::nullopt;
  return json["group"].get<int64_t>();
}

}  // namespace

absl::StatusOr<std::optional<LocalCheckpoint>> FindCheckpoint(const std::string& folder, bool at_rest) {
  absl::StatusOr<std::vector<LocalFile>> files = ListFiles(folder);
  if (!files.ok()) return files.status();
  std::map<int64_t, std::vector<LocalFile>> versions;
  for (const LocalFile& file : *files) {
    if (const std::optional<int64_t> version = VersionOfPath(file.path)) versions[*version].push_back(file);
  }
  for (auto it = versions.rbegin(); it != versions.rend(); ++it) {
    const std::string name = absl::StrCat(kLibraryPrefix, it->first, "/", kLibraryManifest);
    const auto manifest = std::find_if(it->second.begin(), it->second.end(),
                                       [&](const LocalFile& file) { return file.path == name; });
    if (manifest == it->second.end()) continue;
    const std::optional<int64_t> group = GroupOf(folder, *manifest);
    if (!group.has_value() || *group < 0) continue;
    return std::optional<LocalCheckpoint>({SnapshotId{*group, it->first}, std::move(it->second)});
  }
  if (!at_rest || files->empty()) return std::optional<LocalCheckpoint>();
  return std::optional<LocalCheckpoint>({std::nullopt, *std::move(files)});
}

absl::StatusOr<std::string> FingerprintOf(const std::string& folder) {
  const absl::StatusOr<std::vector<LocalFile>> files = ListFiles(folder);
  if (!files.ok()) return files.status();
  objectstore::Sha256 sum;
  for (const LocalFile& file : *files)
    sum.Update(absl::StrCat(file.path, "\n", file.size, " ", file.changed_ns, "\n"));
  return sum.Hex();
}

}  // namespace adaptdl::worker
