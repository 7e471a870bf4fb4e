// Shims as real processes (adaptdl-shim).
//
//   Launch ─▶ connected ──(event "exited")──────────────▶ gone, OnExited
//                 │ ▲
//     (connection │ │ connect() works)
//          broke) ▼ │
//   Attach ─▶ searching ──(exit.json is there)──────────▶ gone, OnExited
//                 └───────(nobody holds the lock file)──▶ gone, its left-overs killed, OnExited(lost)
//
// One thread waits for all of them. Files are looked at and processes started without the lock. Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_PROCESS_SHIMS_H_
#define ADAPTDL_SERVICES_WORKER_PROCESS_SHIMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "services/worker/shims.h"

namespace adaptdl::worker {

class ProcessShims final : public Shims {
 public:
  struct Options {
    // Path of adaptdl-shim.
    std::string shim_program;
    // Passed on to the shims; see ShimOptions.
    absl::Duration orphan_timeout = absl::Seconds(60);
    int64_t log_file_bytes = int64_t{10} << 20;
    int log_files = 5;
  };

  // `clock` must outlive it.
  static absl::StatusOr<std::unique_ptr<ProcessShims>> Create(Options options, const Clock* clock);
  // Leaves the shims and their replicas running.
  ~ProcessShims() override;

  void SetListener(ShimListener* listener) override;
  absl::Status Launch(const std::string& replica_id, const std::string& folder) override;
  void Attach(const std::string& replica_id, const std::string& folder) override;
  void Stop(const std::string& replica_id, absl::Duration grace_period, const std::string& reason) override;

 private:
  struct Connection {
    std::string folder;
    int fd = -1;  // -1: searching
    std::string received;
    std::string unsent;  // commands that wait for the shim to be reached
  };
  // What the listener is to be told.
  struct Notice {
    std::string replica_id;
    ShimEvent event;
  };

  ProcessShims(Options options, const Clock* clock, int wake_fd);

  void Run();
  void Wake();
  // One round of waiting; returns what happened.
  std::vector<Notice> WaitForNotices();
  void Read(const std::string& replica_id, Connection* connection, std::vector<Notice>* notices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the folder of a replica without a connection shows.
  struct Finding {
    int fd = -1;  // a connection to its shim; -1: none

    std::optional<ExitRecord> exit = std::nullopt;
  };
  Finding Search(const std::string& replica_id, const std::string& folder) const;
  // Looks for all that have no connection.
  void SearchAll(std::vector<Notice>* notices);
  // Those that have ended.
  void Forget(const std::vector<Notice>& notices) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendUnsent(Connection* connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status StartShim(const std::string& folder, int lock_fd, int control_fd) const;

  const Options options_;
  const Clock* const clock_;
  const int wake_fd_;
  ShimListener* listener_ = nullptr;
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// SIGKILL for every process of this machine that carries ADAPTDL_REPLICA_ID=`replica_id` in the environment
// it was started with. Returns their number.
int KillProcessesOfReplica(const std::string& replica_id);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_PROCESS_SHIMS_H_
