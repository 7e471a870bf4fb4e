// A job's share folder in an object store, file by file: <prefix>/share/<path>.
//
//   Save()  uploads files that are new or have changed. What several nodes have of a job comes together; of a file that two of them
//           wrote, the last to be uploaded stays. Nothing is removed there.
//   Fetch() brings files that are not here, or have changed there and not here.
//
// What both last had in common is remembered beside the folder (".stored-share"), over restarts of the worker.
//
// Thread-safe, but for two calls about the same job. Waits for disk and network.

#ifndef ADAPTDL_SERVICES_WORKER_OBJECTS_SHARE_MIRROR_H_
#define ADAPTDL_SERVICES_WORKER_OBJECTS_SHARE_MIRROR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "libs/objectstore/object_store.h"
#include "services/worker/objects/checkpoint_mirror.h"
#include "services/worker/objects/local_files.h"

namespace adaptdl::worker {

class ShareMirror {
 public:
  // `store` outlives it. `folder_name`: of the share folder within the job's.
  ShareMirror(objectstore::ObjectStore* store, std::string folder_name)
      : store_(*store), folder_name_(std::move(folder_name)) {}

  absl::Status Save(const MirroredJob& job, const std::stop_token& stop) const;
  // `progress` is called with each part that came. No replica of the job may run here.
  absl::Status Fetch(const MirroredJob& job, const std::function<void()>& progress,
                     const std::stop_token& stop) const;

 private:
  // A file as it was when both had the same.
  struct Common {
    int64_t size = 0;
    int64_t changed_ns = 0;
    std::string etag;
  };
  using Marker = std::map<std::string, Common>;  // by path

  std::string FolderOf(const MirroredJob& job) const;
  static Marker ReadMarker(const MirroredJob& job);
  static absl::Status WriteMarker(const MirroredJob& job, const Marker& marker);

  // What the store has, by path.
  absl::StatusOr<std::map<std::string, objectstore::ObjectInfo>> List(const MirroredJob& job,
                                                                      const std::stop_token& stop) const;
  absl::StatusOr<std::map<std::string, LocalFile>> ListLocal(const MirroredJob& job) const;
  absl::Status FetchFile(const MirroredJob& job, const std::string& path,
                         const objectstore::ObjectInfo& object, const std::function<void()>& progress,
                         const std::stop_token& stop) const;

  objectstore::ObjectStore& store_;
  const std::string folder_name_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_OBJECTS_SHARE_MIRROR_H_
