// The folders of jobs in the storage that all nodes share:
// <storage-dir>/<namespace>/<job>-<uid>/{checkpoint,share}.
//
// Names must have been checked (names.h). Thread-safe. Several nodes may do the same at the same time.

#ifndef ADAPTDL_SERVICES_WORKER_JOB_STORAGE_H_
#define ADAPTDL_SERVICES_WORKER_JOB_STORAGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/node_service.pb.h"

namespace adaptdl::worker {

class JobStorage {
 public:
  // `folder`: <storage-dir>, an absolute path; made if need be.
  static absl::StatusOr<JobStorage> Create(const std::string& folder);

  const std::string& folder() const { return folder_; }
  std::string CheckpointPath(const v1::LaunchReplica& launch) const;
  std::string SharePath(const v1::LaunchReplica& launch) const;

  // Makes the job's folders, if they are not there.
  absl::Status Prepare(const v1::LaunchReplica& launch) const;

  // Removes the job's folder with everything in it, but nothing that a symbolic link in it points to.
  // FAILED_PRECONDITION when the namespace's or job's own folder is a symbolic link.
  absl::Status Remove(const v1::DeleteJobFiles& job) const;

 private:
  explicit JobStorage(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_JOB_STORAGE_H_
