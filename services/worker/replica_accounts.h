// The accounts that replicas run as, so that a job can't read another's files, environment and memory, nor
// signal it.
//
// A worker with root's rights gives every job a user and a group of its own out of a range of numbers that
// nobody else uses. All nodes must give a job the same one, since they share its files; so the storage that
// they share says who has which:
//
//   <storage-dir>/.users/<number>                symbolic link with the job's folder as its text: taken
//   <storage-dir>/<namespace>/<job>-<uid>/user   symbolic link with the number as its text: the job's user
//
// Links are made in one step, and by one node only, also over NFS. Neither is ever followed. Both folders
// belong to the worker, so no job can change them.
//
// Thread-safe. Several nodes may do the same at the same time.

#ifndef ADAPTDL_SERVICES_WORKER_REPLICA_ACCOUNTS_H_
#define ADAPTDL_SERVICES_WORKER_REPLICA_ACCOUNTS_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::worker {

struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
  // Of the account in the machine's list of users; "adaptdl-<uid>" and empty for one that is not in it.
  std::string name;
  std::string home;
};

struct AccountOptions {
  // "per-job", "self" (the worker's own), or the name of an account. Empty: "per-job" if the worker can do
  // that, else "self".
  std::string user;
  // Range of "per-job".
  uid_t first = 200'000;
  uid_t last = 265'535;
};

// "200000-265535". INVALID_ARGUMENT: it is no range, or holds root.
absl::Status ParseUidRange(const std::string& text, AccountOptions* options);

// Whether this process may give files and processes to other users.
bool CanChangeUsers();

class ReplicaAccounts {
 public:
  // All replicas run as the worker's own user.
  ReplicaAccounts() = default;

  // `storage_folder`: absolute, and there. FAILED_PRECONDITION says what is in the way of the accounts that
  // were asked for, and what to do.
  static absl::StatusOr<ReplicaAccounts> Create(const AccountOptions& options,
                                                const std::string& storage_folder);

  bool own() const { return kind_ == Kind::kSelf; }
  bool per_job() const { return kind_ == Kind::kPerJob; }

  // The account of the job, which is chosen now if the job has none yet. `job_folder`: as JobFolderName()
  // gives it; it exists within the storage folder. None: the worker's own. RESOURCE_EXHAUSTED: all are taken.
  absl::StatusOr<std::optional<Account>> Find(const std::string& job_folder) const;

  // The number that the job has, to be given to Release() when its folder is gone. None: it has none of its
  // own.
  std::optional<uid_t> Known(const std::string& job_folder) const;
  void Release(const std::string& job_folder, uid_t uid) const;

 private:
  enum class Kind { kSelf, kNamed, kPerJob };

  absl::Status CheckStorage() const;
  absl::StatusOr<uid_t> Claim(const std::string& job_folder) const;
  std::string ClaimPath(uid_t uid) const;
  std::string UserPath(const std::string& job_folder) const;

  Kind kind_ = Kind::kSelf;
  AccountOptions options_;
  std::string storage_;
  Account named_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_REPLICA_ACCOUNTS_H_
