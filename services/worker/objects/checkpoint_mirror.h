// A job's checkpoints in an object store, and the newest of them on this node.
//
//   Save()  uploads what is complete and not there yet; files first, then the manifest (snapshot.h). Two stay, older ones go.
//   Fetch() makes the checkpoint folder what the newest checkpoint in the store is, unless it is that already. One that is damaged,
//           or torn, is passed over for the one before it. What this node has and the store has not is gone then: all nodes go on
//           from the same.
//
// What the folder last had in common with the store is remembered beside it (".stored"), over restarts of the worker.
//
//   FetchStart() fetches another job's newest checkpoint, once, into a folder of its own.
//
// Thread-safe, but for two calls about the same job. Waits for disk and network.

#ifndef ADAPTDL_SERVICES_WORKER_OBJECTS_CHECKPOINT_MIRROR_H_
#define ADAPTDL_SERVICES_WORKER_OBJECTS_CHECKPOINT_MIRROR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/objectstore/object_store.h"
#include "services/worker/objects/checkpoint_folder.h"
#include "services/worker/objects/local_files.h"
#include "services/worker/objects/snapshot.h"

namespace adaptdl::worker {

// Where a job's files are, here and there.
struct MirroredJob {
  // Of the job on this node: the worker's own, and within it the job's.
  std::string folder;
  // Within the bucket, without a slash at its end.
  std::string prefix;
  std::optional<FileOwner> owner = std::nullopt;
};

class CheckpointMirror {
 public:
  // `store` outlives it. `folder_name`: of the checkpoints within the job's folder.
  CheckpointMirror(objectstore::ObjectStore* store, std::string folder_name)
      : store_(*store), folder_name_(std::move(folder_name)) {}

  // `group`: that of the newest replica here, for what does not say which group has written it. `at_rest`: no replica runs.
  absl::Status Save(const MirroredJob& job, int64_t group, bool at_rest, const std::stop_token& stop) const;

  // `progress` is called with each part that came. No replica of the job may run here.
  absl::Status Fetch(const MirroredJob& job, const std::function<void()>& progress,
                     const std::stop_token& stop) const;

  // Into the folder `name` of the job's, unless that is there, from where another job's checkpoints are. NOT_FOUND: there is none.
  absl::Status FetchStart(const MirroredJob& job, const std::string& source_prefix, const std::string& name,
                          const std::function<void()>& progress, const std::stop_token& stop) const;

 private:
  struct Marker {
    std::optional<SnapshotId> id;
    std::string fingerprint;
  };

  std::string FolderOf(const MirroredJob& job) const;
  static Marker ReadMarker(const MirroredJob& job);
  static absl::Status WriteMarker(const MirroredJob& job, const SnapshotId& id,
                                  const std::string& fingerprint);

  // Of those in the store, the oldest first.
  absl::StatusOr<std::vector<SnapshotId>> ListSnapshots(const MirroredJob& job,
                                                        const std::stop_token& stop) const;
  absl::Status Upload(const MirroredJob& job, const SnapshotId& id, const std::vector<LocalFile>& files,
                      const std::stop_token& stop) const;
  absl::StatusOr<SnapshotFile> UploadFile(const MirroredJob& job, const SnapshotId& id, const LocalFile& file,
                                          const std::stop_token& stop) const;
  // Removes all but the newest ones, and what torn uploads of older ones have left.
  absl::Status RemoveOld(const MirroredJob& job, const std::stop_token& stop) const;
  // Fetches the newest one that is whole into the job's ".fetching". None: there is none, or the newest one is here.
  absl::StatusOr<std::optional<SnapshotId>> FetchNewest(
      const MirroredJob& job, const std::function<bool(const SnapshotId& newest)>& is_here,
      const std::function<void()>& progress, const std::stop_token& stop) const;
  absl::Status FetchSnapshot(const MirroredJob& job, const SnapshotId& id,
                             const std::function<void()>& progress, const std::stop_token& stop) const;
  absl::Status FetchFile(const std::string& key, const SnapshotFile& file, const std::string& folder,
                         const std::optional<FileOwner>& owner, const std::function<void()>& progress,
                         const std::stop_token& stop) const;
  // Puts what was fetched into the place of the job's folder.
  absl::Status Exchange(const MirroredJob& job, const SnapshotId& id) const;

  objectstore::ObjectStore& store_;
  const std::string folder_name_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_OBJECTS_CHECKPOINT_MIRROR_H_
