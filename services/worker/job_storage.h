// The folders of jobs in the storage that all nodes share:
// <storage-dir>/<namespace>/<job>-<uid>/{checkpoint,share}, and start: the checkpoint of another job that it begins with.
// <storage-dir>/<namespace>/.python holds the number of the namespace's group, where it needs one.
//
// Those belong to the account that the job runs as, and nobody else may look into them; what is above
// them belongs to the worker.
//
// Names must have been checked (names.h). Thread-safe. Several nodes may do the same at the same time.

#ifndef ADAPTDL_SERVICES_WORKER_JOB_STORAGE_H_
#define ADAPTDL_SERVICES_WORKER_JOB_STORAGE_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/node_service.pb.h"
#include "services/worker/replica_accounts.h"

namespace adaptdl::worker {

class JobStorage {
 public:
  // `folder`: <storage-dir>, an absolute path; made if need be.
  static absl::StatusOr<JobStorage> Create(const std::string& folder, const AccountOptions& accounts);

  const std::string& folder() const { return folder_; }
  const ReplicaAccounts& accounts() const { return accounts_; }
  std::string CheckpointPath(const v1::LaunchReplica& launch) const;
  std::string SharePath(const v1::LaunchReplica& launch) const;
  // What the job begins with. Empty: nothing, or it has checkpoints of its own.
  absl::StatusOr<std::string> StartOf(const v1::LaunchReplica& launch) const;

  // Makes the job's folders, if they are not there. The account that the job runs as; none: the worker's own.
  absl::StatusOr<std::optional<Account>> Prepare(const v1::LaunchReplica& launch) const;

  // A group of the namespace's own, the same on all nodes and for good. None: jobs have no users of their own. The
  // namespace's folder is there.
  absl::StatusOr<std::optional<gid_t>> NamespaceGroup(const std::string& job_namespace) const;

  // Whether the storage works for the job now: writes, syncs, reads and removes a file in its folder, and
  // looks into the checkpoints'. May wait for as long as the storage does.
  absl::Status Probe(const v1::ReplicaReport& replica) const;

  // Removes the job's folder with everything in it, but nothing that a symbolic link in it points to.
  // FAILED_PRECONDITION when the namespace's or job's own folder is a symbolic link.
  absl::Status Remove(const v1::DeleteJobFiles& job) const;

 private:
  JobStorage(std::string folder, ReplicaAccounts accounts)
      : folder_(std::move(folder)), accounts_(std::move(accounts)) {}

  std::string folder_;
  ReplicaAccounts accounts_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_JOB_STORAGE_H_
