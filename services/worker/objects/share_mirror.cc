#include "services/worker/objects/share_mirror.h"

#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/file.h"
#include "nlohmann/json.hpp"

namespace adaptdl::worker {
namespace {

constexpr char kShareMarkerFile[] = ".stored-share";
constexpr char kShareFetched[] = ".fetching-share";
constexpr int64_t kMaxMarkerBytes = int64_t{64} << 20;

std::string SharePrefix(const MirroredJob& job) { return absl::StrCat(job.prefix, "/share/"); }

}  // namespace

std::string ShareMirror::FolderOf(const MirroredJob& job) const {
  return absl::StrCat(job.folder, "/", folder_name_);
}

ShareMirror::Marker ShareMirror::ReadMarker(const MirroredJob& job) {
  const absl::StatusOr<std::string> text =
      ReadWholeFile(absl::StrCat(job.folder, "/", kShareMarkerFile), kMaxMarkerBytes);
  Marker marker;
  if (!text.ok()) return marker;
  try {
    const nlohmann::json json = nlohmann::json::parse(*text);
    for (const auto& [path, file] : json.items())
      marker[path] = {file.at("size"), file.at("changed_ns"), file.at("etag")};
  } catch (const std::exception&) {
    return {};  // all is compared anew
  }
  return marker;
}

absl::Status ShareMirror::WriteMarker(const MirroredJob& job, const Marker& marker) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [path, file] : marker)
    json[path] = {{"size", file.size}, {"changed_ns", file.changed_ns}, {"etag", file.etag}};
  return WriteFileAtomically(absl::StrCat(job.folder, "/", kShareMarkerFile), json.dump(), 0600);
}

absl::StatusOr<std::map<std::string, objectstore::ObjectInfo>> ShareMirror::List(
    const MirroredJob& job, const std::stop_token& stop) const {
  std::map<std::string, objectstore::ObjectInfo> found;
  const absl::Status status = store_.List(
      SharePrefix(job),
      [&](const objectstore::ObjectInfo& object) {
        const std::string path(absl::StripPrefix(object.key, SharePrefix(job)));
        if (objectstore::CheckKey(path).ok()) found[path] = object;
        return absl::OkStatus();
      },
      stop);
  if (!status.ok()) return status;
  return found;
}

absl::StatusOr<std::map<std::string, LocalFile>> ShareMirror::ListLocal(const MirroredJob& job) const {
  const absl::StatusOr<std::vector<LocalFile>> files = ListFiles(FolderOf(job));
  if (!files.ok()) return files.status();
  std::map<std::string, LocalFile> by_path;
  for (const LocalFile& file : *files) by_path[file.path] = file;
  return by_path;
}

absl::Status ShareMirror::Save(const MirroredJob& job, const std::stop_token& stop) const {
  const absl::StatusOr<std::map<std::string, LocalFile>> files = ListLocal(job);
  if (!files.ok()) return files.status();
  Marker marker = ReadMarker(job);
  std::map<std::string, LocalFile> uploaded;
  absl::Status status;
  for (const auto& [path, file] : *files) {
    const auto known = marker.find(path);
    if (known != marker.end() && known->second.size == file.size &&
        known->second.changed_ns == file.changed_ns)
      continue;
    const absl::StatusOr<UniqueFd> fd = OpenFile(FolderOf(job), path);
    status = fd.ok() ? store_.Put(SharePrefix(job) + path, file.size, SourceOf(*fd), stop) : fd.status();
    if (!status.ok()) break;
    uploaded[path] = file;
  }
  if (uploaded.empty()) return status;
  const absl::StatusOr<std::map<std::string, objectstore::ObjectInfo>> there = List(job, stop);
  if (!there.ok()) return status.ok() ? there.status() : status;
  for (const auto& [path, file] : uploaded) {
    const auto object = there->find(path);
    if (object != there->end()) marker[path] = {file.size, file.changed_ns, object->second.etag};
  }
  status.Update(WriteMarker(job, marker));
  return status;
}

absl::Status ShareMirror::Fetch(const MirroredJob& job, const std::function<void()>& progress,
                                const std::stop_token& stop) const {
  const absl::StatusOr<std::map<std::string, objectstore::ObjectInfo>> there = List(job, stop);
  if (!there.ok()) return there.status();
  absl::StatusOr<std::map<std::string, LocalFile>> files = ListLocal(job);
  if (!files.ok()) return files.status();
  Marker marker = ReadMarker(job);
  std::map<std::string, objectstore::ObjectInfo> wanted;
  int64_t bytes = 0;
  for (const auto& [path, object] : *there) {
    const auto known = marker.find(path);
    const auto local = files->find(path);
    const bool same_there = known != marker.end() && known->second.etag == object.etag;
    const bool changed_here =
        local != files->end() && (known == marker.end() || known->second.size != local->second.size ||
                                  known->second.changed_ns != local->second.changed_ns);
    if (changed_here || (same_there && local != files->end())) continue;
    wanted[path] = object;
    bytes += object.size;
  }
  if (wanted.empty()) return absl::OkStatus();
  absl::Status status = CheckRoom(job.folder, bytes);
  for (const auto& [path, object] : wanted) {
    if (!status.ok()) break;
    status = FetchFile(job, path, object, progress, stop);
  }
  if (!status.ok()) return status;
  if (files = ListLocal(job); !files.ok()) return files.status();
  for (const auto& [path, object] : wanted) {
    const auto local = files->find(path);
    if (local != files->end()) marker[path] = {local->second.size, local->second.changed_ns, object.etag};
  }
  return WriteMarker(job, marker);
}

absl::Status ShareMirror::FetchFile(const MirroredJob& job, const std::string& path,
                                    const objectstore::ObjectInfo& object,
                                    const std::function<void()>& progress,
                                    const std::stop_token& stop) const {
  // In a folder of our own first: it is whole, or not there.
  const std::string fetched = absl::StrCat(job.folder, "/", kShareFetched);
  std::error_code error;
  std::filesystem::remove_all(fetched, error);
  absl::StatusOr<FileWriter> writer = FileWriter::Create(fetched);
  if (!writer.ok()) return writer.status();
  absl::Status status = store_.Get(
      object, 0,
      [&](absl::string_view part) {
        progress();
        return writer->Append(part);
      },
      stop);
  if (status.ok()) status = writer->Finish(job.owner);
  if (status.ok()) status = MoveInto(fetched, FolderOf(job), path, job.owner);
  std::filesystem::remove(fetched, error);
  return status;
}

}  // namespace adaptdl::worker
