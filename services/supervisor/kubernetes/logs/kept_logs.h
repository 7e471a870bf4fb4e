// The output of replicas whose pods may be gone, on disk: a file for each replica in a folder for each job,
//
//   FOLDER/JOB_UID/REPLICA.log      {"beginning_is_missing": false, "error": ""}
//                                   2026-01-02T03:04:05.123456789Z text
//
// of a bounded size for all of a job and for all jobs, beyond which the oldest go. It is history: what a dying machine
// loses of it costs nothing else, and so nothing waits for the disk to be sure.
//
// Thread-safe. All calls but Has() and bytes() use the disk. Names that could lead elsewhere are refused.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_KEPT_LOGS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_KEPT_LOGS_H_

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {

struct KeptLog {
  // In the form of a kubelet, with times.
  std::string text = {};
  bool beginning_is_missing = false;
  // Why its end is. Empty: it is not.
  std::string error = {};
};

// The same, to be read from the file.
struct KeptLogFile {
  std::ifstream text;
  bool beginning_is_missing = false;
  std::string error = {};
};

struct KeptLogsOptions {
  // Bounds; a file counts as a block of the disk at least.
  int64_t job_bytes = int64_t{64} << 20;
  int64_t all_bytes = int64_t{1} << 30;
};

class KeptLogs {
 public:
  // Makes the folder, which only its owner can read, and finds what is there.
  static absl::StatusOr<std::unique_ptr<KeptLogs>> Create(const std::string& folder,
                                                          KeptLogsOptions options = {});

  // Takes the place of what was kept of the replica before.
  absl::Status Put(const std::string& job_uid, const std::string& replica_id, const KeptLog& log);
  // NOT_FOUND: nothing is kept of it.
  absl::StatusOr<KeptLogFile> Open(const std::string& job_uid, const std::string& replica_id) const;
  bool Has(const std::string& job_uid, const std::string& replica_id) const;
  // Deletes all of jobs that are gone.
  void Sweep(const std::function<bool(const std::string& job_uid)>& job_is_there);

  // Of all jobs.
  int64_t bytes() const;

 private:
  struct File {
    int64_t bytes = 0;
    // Of those that were put, by turn.
    int64_t turn = 0;
  };
  struct Job {
    // By replica, and the replicas by turn.
    std::map<std::string, File> files;
    std::map<int64_t, std::string> turns;
    int64_t bytes = 0;
  };

  KeptLogs(std::string folder, KeptLogsOptions options) : folder_(std::move(folder)), options_(options) {}

  std::string PathOf(const std::string& job_uid, const std::string& replica_id) const;
  absl::Status Scan();
  void Note(const std::string& job_uid, const std::string& replica_id, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const std::string& job_uid, const std::string& replica_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Delete(const std::string& job_uid, const std::string& replica_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Deletes the oldest until the bounds are kept.
  void Shrink(const std::string& job_uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string folder_;
  const KeptLogsOptions options_;
  mutable Mutex mutex_;
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_turn_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_KEPT_LOGS_H_
