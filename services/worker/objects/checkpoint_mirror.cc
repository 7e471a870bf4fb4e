#include "services/worker/objects/checkpoint_mirror.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/file.h"
#include "libs/objectstore/digest.h"
#include "libs/service/log.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

using objectstore::ObjectInfo;
using objectstore::ObjectStore;

constexpr size_t kKept = 2;
constexpr char kFetching[] = ".fetching";
constexpr char kReplaced[] = ".replaced";
constexpr char kMarkerFile[] = ".stored";
// A checkpoint may be removed while it is fetched, as there are newer ones.
constexpr int kFetchRounds = 3;

std::string ManifestKey(const MirroredJob& job, const SnapshotId& id) {
  return absl::StrCat(job.prefix, "/manifests/", SnapshotName(id));
}

std::string FilesPrefix(const MirroredJob& job, const SnapshotId& id) {
  return absl::StrCat(job.prefix, "/files/", SnapshotName(id), "/");
}

std::string FetchingFolder(const MirroredJob& job) { return absl::StrCat(job.folder, "/", kFetching); }

// Whether another checkpoint may do where this one can't be had.
bool IsOfThisOne(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
         absl::IsOutOfRange(status);
}

absl::Status RemoveFolder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("remove ", path)) : absl::OkStatus();
}

}  // namespace

std::string CheckpointMirror::FolderOf(const MirroredJob& job) const {
  return absl::StrCat(job.folder, "/", folder_name_);
}

CheckpointMirror::Marker CheckpointMirror::ReadMarker(const MirroredJob& job) {
  const absl::StatusOr<std::string> text = ReadWholeFile(absl::StrCat(job.folder, "/", kMarkerFile), 4096);
  if (!text.ok()) return {};
  const std::pair<std::string, std::string> parts = absl::StrSplit(*text, absl::MaxSplits('\n', 1));
  return {ParseSnapshotName(parts.first), std::string(absl::StripSuffix(parts.second, "\n"))};
}

absl::Status CheckpointMirror::WriteMarker(const MirroredJob& job, const SnapshotId& id,
                                           const std::string& fingerprint) {
  return WriteFileAtomically(absl::StrCat(job.folder, "/", kMarkerFile),
                             absl::StrCat(SnapshotName(id), "\n", fingerprint, "\n"), 0600);
}

absl::StatusOr<std::vector<SnapshotId>> CheckpointMirror::ListSnapshots(const MirroredJob& job,
                                                                        const std::stop_token& stop) const {
  const std::string prefix = absl::StrCat(job.prefix, "/manifests/");
  std::vector<SnapshotId> found;
  const absl::Status status = store_.List(
      prefix,
      [&](const ObjectInfo& object) {
        const std::optional<SnapshotId> id = ParseSnapshotName(absl::StripPrefix(object.key, prefix));
        if (id.has_value()) found.push_back(*id);
        return absl::OkStatus();
      },
      stop);
  if (!status.ok()) return status;
  std::sort(found.begin(), found.end());
  return found;
}

absl::Status CheckpointMirror::Save(const MirroredJob& job, int64_t group, bool at_rest,
                                    const std::stop_token& stop) const {
  const Marker marker = ReadMarker(job);
  // Before the look for checkpoints: one that comes in between is not taken for one that was saved.
  const absl::StatusOr<std::string> fingerprint = FingerprintOf(FolderOf(job));
  if (!fingerprint.ok()) return fingerprint.status();
  if (*fingerprint == marker.fingerprint) return absl::OkStatus();
  const absl::StatusOr<std::optional<LocalCheckpoint>> local = FindCheckpoint(FolderOf(job), at_rest);
  if (!local.ok()) return local.status();
  if (!local->has_value()) return absl::OkStatus();
  std::optional<SnapshotId> id = (*local)->id;
  if (id.has_value() && marker.id.has_value() && *id <= *marker.id) return absl::OkStatus();

  const absl::StatusOr<std::vector<SnapshotId>> there = ListSnapshots(job, stop);
  if (!there.ok()) return there.status();
  const std::optional<SnapshotId> newest = there->empty() ? std::nullopt : std::optional(there->back());
  if (!id.has_value()) id = {group, newest.has_value() && newest->group == group ? newest->version + 1 : 1};
  // Another node has gone on since.
  if (newest.has_value() && *newest > *id) return absl::OkStatus();
  if (newest != id) {
    if (const absl::Status status = Upload(job, *id, (*local)->files, stop); !status.ok()) return status;
  }
  if (const absl::Status status = WriteMarker(job, *id, *fingerprint); !status.ok()) return status;
  if (const absl::Status status = RemoveOld(job, stop); !status.ok()) {
    // The next one removes it.
    log::Warning("old checkpoints stay in the store", {{"folder", job.prefix}, {"error", status.ToString()}});
  }
  return absl::OkStatus();
}

absl::Status CheckpointMirror::Upload(const MirroredJob& job, const SnapshotId& id,
                                      const std::vector<LocalFile>& files,
                                      const std::stop_token& stop) const {
  std::vector<SnapshotFile> uploaded;
  for (const LocalFile& file : files) {
    absl::StatusOr<SnapshotFile> done = UploadFile(job, id, file, stop);
    if (!done.ok()) return done.status();
    uploaded.push_back(*std::move(done));
  }
  return objectstore::WriteObject(store_, ManifestKey(job, id), ManifestOf(uploaded), stop);
}

absl::StatusOr<SnapshotFile> CheckpointMirror::UploadFile(const MirroredJob& job, const SnapshotId& id,
                                                          const LocalFile& file,
                                                          const std::stop_token& stop) const {
  const absl::StatusOr<UniqueFd> fd = OpenFile(FolderOf(job), file.path);
  if (!fd.ok()) return fd.status();
  objectstore::Sha256 sum;
  int64_t summed = 0;
  const ObjectStore::Source read = SourceOf(*fd);
  const auto source = [&](int64_t offset, int64_t length) {
    absl::StatusOr<std::string> bytes = read(offset, length);
    if (bytes.ok() && offset == summed) {
      sum.Update(*bytes);
      summed += static_cast<int64_t>(bytes->size());
    }
    return bytes;
  };
  const absl::Status status =
      store_.Put(absl::StrCat(FilesPrefix(job, id), file.path), file.size, source, stop);
  if (!status.ok()) return status;
  return SnapshotFile{.path = file.path, .size = file.size, .sha256 = sum.Hex()};
}

absl::Status CheckpointMirror::RemoveOld(const MirroredJob& job, const std::stop_token& stop) const {
  const absl::StatusOr<std::vector<SnapshotId>> there = ListSnapshots(job, stop);
  if (!there.ok()) return there.status();
  const size_t gone = there->size() > kKept ? there->size() - kKept : 0;
  const std::set<SnapshotId> kept(there->begin() + static_cast<std::ptrdiff_t>(gone), there->end());
  std::vector<std::string> manifests;
  for (size_t i = 0; i < gone; ++i) manifests.push_back(ManifestKey(job, (*there)[i]));
  // Nobody begins with one whose files go next.
  absl::Status status = manifests.empty() ? absl::OkStatus() : store_.Delete(manifests, stop);
  std::set<SnapshotId> left;
  const std::string prefix = absl::StrCat(job.prefix, "/files/");
  if (status.ok()) {
    status = store_.List(
        prefix,
        [&](const ObjectInfo& object) {
          const absl::string_view rest = absl::StripPrefix(object.key, prefix);
          const std::optional<SnapshotId> id = ParseSnapshotName(rest.substr(0, rest.find('/')));
          // A newer one is on its way.
          if (id.has_value() && !kept.contains(*id) && !kept.empty() && *id < *kept.rbegin())
            left.insert(*id);
          return absl::OkStatus();
        },
        stop);
  }
  for (const SnapshotId& id : left) {
    if (status.ok()) status = objectstore::DeletePrefix(store_, FilesPrefix(job, id), stop);
  }
  return status;
}

absl::Status CheckpointMirror::Fetch(const MirroredJob& job, const std::function<void()>& progress,
                                     const std::stop_token& stop) const {
  const auto is_here = [&](const SnapshotId& newest) {
    const Marker marker = ReadMarker(job);
    const absl::StatusOr<std::string> fingerprint = FingerprintOf(FolderOf(job));
    return marker.id == newest && fingerprint.ok() && *fingerprint == marker.fingerprint;
  };
  const absl::StatusOr<std::optional<SnapshotId>> fetched = FetchNewest(job, is_here, progress, stop);
  if (!fetched.ok()) return fetched.status();
  return fetched->has_value() ? Exchange(job, **fetched) : absl::OkStatus();
}

absl::Status CheckpointMirror::FetchStart(const MirroredJob& job, const std::string& source_prefix,
                                          const std::string& name, const std::function<void()>& progress,
                                          const std::stop_token& stop) const {
  const std::string folder = absl::StrCat(job.folder, "/", name);
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder, error))) return absl::OkStatus();
  const MirroredJob source{.folder = job.folder, .prefix = source_prefix, .owner = job.owner};
  const absl::StatusOr<std::optional<SnapshotId>> fetched = FetchNewest(
      source, [](const SnapshotId& /*newest*/) { return false; }, progress, stop);
  if (!fetched.ok()) return fetched.status();
  if (!fetched->has_value())
    return absl::NotFoundError(absl::StrCat("there is no checkpoint in ", source_prefix));
  fs::rename(FetchingFolder(job), folder, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("make ", folder)) : absl::OkStatus();
}

absl::StatusOr<std::optional<SnapshotId>> CheckpointMirror::FetchNewest(
    const MirroredJob& job, const std::function<bool(const SnapshotId& newest)>& is_here,
    const std::function<void()>& progress, const std::stop_token& stop) const {
  absl::Status status;
  for (int round = 0; round < kFetchRounds; ++round) {
    const absl::StatusOr<std::vector<SnapshotId>> there = ListSnapshots(job, stop);
    if (!there.ok()) return there.status();
    if (there->empty() || is_here(there->back())) return std::optional<SnapshotId>();
    for (auto id = there->rbegin(); id != there->rend(); ++id) {
      status = FetchSnapshot(job, *id, progress, stop);
      if (status.ok()) return std::optional<SnapshotId>(*id);
      if (!IsOfThisOne(status)) return status;
      log::Warning("checkpoint in the store is passed over",
                   {{"folder", job.prefix}, {"checkpoint", SnapshotName(*id)}, {"error", status.ToString()}});
    }
  }
  return absl::DataLossError(absl::StrCat("no checkpoint in the store is whole, remove ", job.prefix,
                                          "/ there to begin anew; the oldest: ", status.message()));
}

absl::Status CheckpointMirror::FetchSnapshot(const MirroredJob& job, const SnapshotId& id,
                                             const std::function<void()>& progress,
                                             const std::stop_token& stop) const {
  const absl::StatusOr<ObjectInfo> object = store_.Head(ManifestKey(job, id), stop);
  if (!object.ok()) return object.status();
  const absl::StatusOr<std::string> text = objectstore::ReadObject(store_, *object, kMaxManifestBytes, stop);
  if (!text.ok()) return text.status();
  const absl::StatusOr<std::vector<SnapshotFile>> files = ParseManifest(*text);
  if (!files.ok()) return files.status();
  int64_t bytes = 0;
  for (const SnapshotFile& file : *files) bytes += file.size;
  absl::Status status = CheckRoom(job.folder, bytes);
  const std::string fetched = FetchingFolder(job);
  status.Update(RemoveFolder(fetched));
  std::error_code error;
  fs::create_directories(fetched, error);
  for (const SnapshotFile& file : *files) {
    if (!status.ok()) break;
    status =
        FetchFile(absl::StrCat(FilesPrefix(job, id), file.path), file, fetched, job.owner, progress, stop);
  }
  if (status.ok()) status = GiveFolders(fetched, job.owner);
  if (status.ok()) {
    log::Info("checkpoint fetched",
              {{"folder", job.prefix}, {"checkpoint", SnapshotName(id)}, {"bytes", absl::StrCat(bytes)}});
    return status;
  }
  RemoveFolder(fetched).IgnoreError();
  return status;
}

absl::Status CheckpointMirror::FetchFile(const std::string& key, const SnapshotFile& file,
                                         const std::string& folder, const std::optional<FileOwner>& owner,
                                         const std::function<void()>& progress,
                                         const std::stop_token& stop) const {
  const absl::StatusOr<ObjectInfo> object = store_.Head(key, stop);
  if (!object.ok()) return object.status();
  if (object->size != file.size) {
    return absl::DataLossError(absl::StrCat("\"", key, "\" has ", object->size, " bytes, and not ", file.size,
                                            " as its manifest says"));
  }
  absl::StatusOr<FileWriter> writer = FileWriter::Create(absl::StrCat(folder, "/", file.path));
  if (!writer.ok()) return writer.status();
  objectstore::Sha256 sum;
  const absl::Status status = store_.Get(
      *object, 0,
      [&](absl::string_view part) {
        sum.Update(part);
        progress();
        return writer->Append(part);
      },
      stop);
  if (!status.ok()) return status;
  if (sum.Hex() != file.sha256)
    return absl::DataLossError(
        absl::StrCat("\"", key, "\" is damaged: its checksum is not that of its manifest"));
  return writer->Finish(owner);
}

absl::Status CheckpointMirror::Exchange(const MirroredJob& job, const SnapshotId& id) const {
  const std::string folder = FolderOf(job);
  const std::string replaced = absl::StrCat(job.folder, "/", kReplaced);
  absl::Status status = RemoveFolder(replaced);
  if (!status.ok()) return status;
  std::error_code error;
  // Whoever is cut off in between begins again: nothing says then that the folder is what the store has.
  fs::remove(absl::StrCat(job.folder, "/", kMarkerFile), error);
  if (fs::exists(fs::symlink_status(folder, error))) fs::rename(folder, replaced, error);
  if (!error) fs::rename(FetchingFolder(job), folder, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("replace ", folder));
  RemoveFolder(replaced).IgnoreError();
  const absl::StatusOr<std::string> fingerprint = FingerprintOf(folder);
  if (!fingerprint.ok()) return fingerprint.status();
  return WriteMarker(job, id, *fingerprint);
}

}  // namespace adaptdl::worker
