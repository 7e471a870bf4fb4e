#include "services/worker/objects/snapshot.h"

#include <exception>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "libs/objectstore/digest.h"
#include "libs/objectstore/object_store.h"
#include "nlohmann/json.hpp"

namespace adaptdl::worker {
namespace {

constexpr int kDigits = 20;
constexpr size_t kMaxManifestFiles = 100'000;

std::string ChecksumLine(absl::string_view body) {
  objectstore::Sha256 sum;
  sum.Update(body);
  return absl::StrCat("\nsha256 ", sum.Hex(), "\n");
}

}  // namespace

std::string SnapshotName(const SnapshotId& id) {
  return absl::StrFormat("%0*d-%0*d", kDigits, id.group, kDigits, id.version);
}

std::optional<SnapshotId> ParseSnapshotName(absl::string_view name) {
  SnapshotId id;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(name, absl::MaxSplits('-', 1));
  if (!absl::SimpleAtoi(parts.first, &id.group) || !absl::SimpleAtoi(parts.second, &id.version) ||
      id.group < 0 || id.version < 0 || SnapshotName(id) != name) {
    return std::nullopt;
  }
  return id;
}

std::string ManifestOf(const std::vector<SnapshotFile>& files) {
  nlohmann::json list = nlohmann::json::array();
  for (const SnapshotFile& file : files)
    list.push_back({{"path", file.path}, {"size", file.size}, {"sha256", file.sha256}});
  const std::string body = nlohmann::json{{"format", 1}, {"files", list}}.dump();
  return absl::StrCat(body, ChecksumLine(body));
}

absl::StatusOr<std::vector<SnapshotFile>> ParseManifest(absl::string_view text) {
  const size_t end = text.find('\n');
  if (end == absl::string_view::npos || text.substr(end) != ChecksumLine(text.substr(0, end)))
    return absl::DataLossError("the checkpoint's manifest is damaged");
  std::vector<SnapshotFile> files;
  std::set<std::string> paths;
  try {
    const nlohmann::json manifest = nlohmann::json::parse(text.substr(0, end));
    if (manifest.at("format") != 1) return absl::DataLossError("the checkpoint is of a newer format");
    for (const nlohmann::json& file : manifest.at("files")) {
      files.push_back({.path = file.at("path"), .size = file.at("size"), .sha256 = file.at("sha256")});
      const SnapshotFile& added = files.back();
      if (!objectstore::CheckKey(added.path).ok() || added.size < 0 || !paths.insert(added.path).second ||
          files.size() > kMaxManifestFiles) {
        return absl::DataLossError("the checkpoint's manifest names what is no file of it");
      }
    }
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("the checkpoint's manifest is damaged: ", error.what()));
  }
  return files;
}

}  // namespace adaptdl::worker
