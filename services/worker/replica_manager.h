// The replicas of this node: what was asked for, what runs, what ended. Knows no supervisor and no processes:
// it gets commands by calls, reaches processes through Shims, and hands every change to a sink.
//
//   Launch ──▶ LAUNCHING ──▶ RUNNING ──▶ EXITED ──(Acknowledge)──▶ kept for its log only
//                  └─────────────┴─────▶ LOST  ──────┘
//
// A launch that fails before there is a process ends in LOST if the node is to blame (no free GPU, disk
// full), in EXITED with code 126 if the job is (a relative working directory).
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_REPLICA_MANAGER_H_
#define ADAPTDL_SERVICES_WORKER_REPLICA_MANAGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "services/worker/devices.h"
#include "services/worker/job_storage.h"
#include "services/worker/replica_process.h"
#include "services/worker/replica_store.h"
#include "services/worker/shims.h"

namespace adaptdl::worker {

// Counts since the worker's start, and of what is there now.
struct ReplicaStats {
  std::map<v1::ReplicaState, int> by_state;
  int64_t launches = 0;
  // By kind: "succeeded", "stopped" (143 or SIGTERM), "peer_lost" (75), "failed", "killed" (a signal),
  // "lost".
  std::map<std::string, int64_t> exits;
  int64_t dropped_log_bytes = 0;
};

class ReplicaManager final : public ShimListener {
 public:
  struct Options {
    // Absolute; holds replicas/.
    std::string state_dir;
    std::string node_id;
    std::string replica_host;
    std::string supervisor_address;
    // See ReplicaPlace.
    std::string supervisor_ca = {};
    std::string supervisor_tls_name = {};
    // GPUs to give out, as CUDA_VISIBLE_DEVICES names them.
    std::vector<std::string> devices;
    // What replicas get of the worker's own environment.
    Environment inherited_environment;
    // Most processes and threads that a job may have on this node, where it has an account or a control group
    // of its own. 0: no bound.
    int64_t max_processes = 0;
    // Where the replicas' control groups are made (shim/cgroup.h). Empty: there are none.
    std::string cgroup_base = "";
  };
  // Gets every change, and repeated reports when they were asked for. Called with a lock held: it must not
  // call back.
  using Sink = std::function<void(const v1::ReplicaReport&)>;

  // Finds what an earlier worker left and attaches to it. `clock` and `shims` must outlive it, and `shims`
  // must have stopped calling it before it goes.
  static absl::StatusOr<std::unique_ptr<ReplicaManager>> Create(Options options, JobStorage storage,
                                                                const Clock* clock, Shims* shims);

  void SetSink(Sink sink);

  // Commands; all idempotent.
  void Launch(const v1::LaunchReplica& launch);
  void Stop(const v1::StopReplica& stop);
  void Acknowledge(const std::string& replica_id);
  // Forgets the job's replicas and removes their logs; running ones are killed first. Then removes the job's
  // folder. May take long.
  void DeleteJob(const v1::DeleteJobFiles& job);
  // Stops everything that runs, each with its own grace period, and launches nothing any more.
  void StopAll(const std::string& reason);

  // All replicas that run, and those that ended and were not acknowledged.
  std::vector<v1::ReplicaReport> Inventory() const;
  // Those that ended and were not acknowledged.
  std::vector<v1::ReplicaReport> Unacknowledged() const;

  // Where to find a replica's log. NOT_FOUND: this node does not know it.
  struct LogPlace {
    std::string folder;
    int64_t group = 0;
    int32_t rank = 0;
  };
  absl::StatusOr<LogPlace> FindLog(const std::string& replica_id) const;
  // Whether its log is complete.
  bool HasEnded(const std::string& replica_id) const;

  // Removes logs of acknowledged replicas until at most `max_replicas` of these are left, all logs together
  // have at most `max_bytes`, and those of each job at most `max_job_bytes`. What goes is of the job that has
  // the most of what is too much, its oldest first: a job that writes much, or fails often, costs no other
  // one its logs. Returns the bytes that are left.
  int64_t PruneLogs(int max_replicas, int64_t max_bytes, int64_t max_job_bytes);

  ReplicaStats Stats() const;

  void OnRunning(const std::string& replica_id, const RunningRecord& record) override;
  void OnExited(const std::string& replica_id, const ExitRecord& record) override;

 private:
  struct Entry {
    v1::ReplicaReport report;
    v1::ReplicaTemplate replica_template;
    bool acknowledged = false;
    // The job is deleted: forget the replica as soon as it has ended.
    bool delete_when_ended = false;
  };

  ReplicaManager(Options options, ReplicaStore store, JobStorage storage, const Clock* clock, Shims* shims);

  void Recover() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry NewEntry(const v1::LaunchReplica& launch) const;
  absl::Status StartShim(const v1::LaunchReplica& launch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends a replica that has no process.
  void EndWithoutProcess(Entry* entry, const absl::Status& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetEnded(Entry* entry, const ExitRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Report(const v1::ReplicaReport& report) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::string> PrepareCgroup(const v1::LaunchReplica& launch) const;

  const Options options_;
  const JobStorage storage_;
  const Clock* const clock_;
  Shims* const shims_;

  mutable Mutex mutex_;
  ReplicaStore store_ ABSL_GUARDED_BY(mutex_);
  DeviceTable devices_ ABSL_GUARDED_BY(mutex_);
  Sink sink_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Entry> replicas_ ABSL_GUARDED_BY(mutex_);
  ReplicaStats stats_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_REPLICA_MANAGER_H_
