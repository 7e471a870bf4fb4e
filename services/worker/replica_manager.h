// The replicas of this node: what was asked for, what runs, what ended. Knows no supervisor and no processes:
// it gets commands by calls, reaches processes through Shims, and hands every change to a sink.
//
//   Launch ──▶ LAUNCHING ──▶ RUNNING ──▶ EXITED ──(Acknowledge)──▶ kept for its log only
//                  └─────────────┴─────▶ LOST  ──────┘
//
// A launch that fails before there is a process ends in LOST if the node is to blame (no free GPU, disk
// full), in EXITED with code 126 if the job is (a relative working directory).
//
// Each end says whose fault it was, as far as the node can tell (docs/job-life.md). When a process fails, the
// storage is tried before that is reported: what it had from there may have been errors.
//
// What the supervisor is told, heartbeats and all that comes with them, never waits for a disk: commands and
// questions touch nothing but memory, and what they ask of disks and processes is done on WorkLanes, one lane
// for each replica, without the lock.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_REPLICA_MANAGER_H_
#define ADAPTDL_SERVICES_WORKER_REPLICA_MANAGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/tracing/tracer.h"
#include "services/worker/devices.h"
#include "services/worker/job_storage.h"
#include "services/worker/objects/data_cache.h"
#include "services/worker/objects/job_store.h"
#include "services/worker/objects/shared_folder_store.h"
#include "services/worker/python_environments.h"
#include "services/worker/replica_preparer.h"
#include "services/worker/replica_store.h"
#include "services/worker/shims.h"
#include "services/worker/work_lanes.h"

namespace adaptdl::worker {

// Counts since the worker's start, and of what is there now.
struct ReplicaStats {
  std::map<v1::ReplicaState, int> by_state;
  int64_t launches = 0;
  // By kind (KindOfEnd()).
  std::map<std::string, int64_t> exits;
  int64_t dropped_log_bytes = 0;
  // GPUs that the node offers, and that are not fit for replicas.
  int gpus_offered = 0;
  int gpus_unfit = 0;
};

// What the node offers of its GPUs.
struct GpuOffer {
  // Those that are fit, or that a replica holds.
  int count = 0;
  // What is wrong with the others, for people.
  std::vector<std::string> problems;

  bool operator==(const GpuOffer&) const = default;
};

class ReplicaManager final : public ShimListener {
 public:
  struct Options {
    // Absolute; holds replicas/.
    std::string state_dir;
    NodeSetting node;
    // GPUs to give out, as CUDA_VISIBLE_DEVICES names them.
    std::vector<std::string> devices;
    // What records of an earlier worker may call them (DeviceTable).
    DeviceTable::Names other_device_names = {};
    // The virtual environments that jobs ask for.
    PythonOptions python = {};
    // The folders that come with jobs; empty ones: in the state folder. The source outlives the manager. Null: jobs can't
    // bring any.
    CodeOptions code = {};
    CodeSource* code_source = nullptr;
    // Where jobs' files are while no replica uses them; it outlives the manager. Null: all nodes share the storage's folder.
    JobStore* job_store = nullptr;
    // Data sets that jobs ask for; it outlives the manager. Null: there are none on this node.
    DataCache* data_cache = nullptr;
    // Gets a span for each launch that is part of a trace; null: there are none.
    std::shared_ptr<tracing::Tracer> tracer = nullptr;
    // How long it may take to prepare a replica's folders before the node says that it can't, and to see
    // after a failure whether the storage works before it says that it does not.
    absl::Duration start_patience = absl::Minutes(1);
    absl::Duration probe_patience = absl::Seconds(5);
  };
  // Gets every change, and repeated reports when they were asked for. Called with a lock held: it must not
  // call back.
  using Sink = std::function<void(const v1::ReplicaReport&)>;
  // Gets what the node offers from now on, before the report of what has changed it. Called like a Sink.
  using OfferSink = std::function<void(const GpuOffer&)>;

  // Finds what an earlier worker left and attaches to it. `clock`, `shims` and `lanes` must outlive it, and
  // `shims` must have stopped calling it, and `lanes` have nothing left to do, before it goes.
  static absl::StatusOr<std::unique_ptr<ReplicaManager>> Create(Options options, JobStorage storage,
                                                                const Clock* clock, Shims* shims,
                                                                WorkLanes* lanes);

  void SetSink(Sink sink);
  void SetOfferSink(OfferSink sink);

  // From now on `devices` are given to no replica, but stay with those that have them, and all others are
  // fit. `problems`: what is wrong, for people.
  void SetUnfitGpus(std::set<std::string> devices, std::vector<std::string> problems);

  // Commands; all idempotent.
  void Launch(const v1::LaunchReplica& launch);
  void Stop(const v1::StopReplica& stop);
  void Acknowledge(const std::string& replica_id);
  // Forgets the job's replicas and removes their logs; running ones are killed first. Then removes the job's
  // folder. Waits for disks. OK: nothing of the job is left; after an error, call it again later.
  // UNAVAILABLE: replicas are still to end.
  absl::Status DeleteJob(const v1::DeleteJobFiles& job);
  // The node goes away at `deadline` (steady): launches nothing any more. What runs goes on: it is the
  // supervisor that moves jobs elsewhere. Call StopLeftovers() now and then from here on.
  void Retire(absl::Time deadline, const std::string& reason);
  // Stops those that nobody has moved and whose grace period is all that is left until the deadline. In the
  // first half of the time nobody is stopped, however long that period is.
  void StopLeftovers();

  // Gives up waiting for a storage that hangs: replicas whose folders could not be prepared for
  // `start_patience`, or whose job's folder not be fetched, for longer than that may take, and tries of the storage that take `probe_patience`. To be called now and then.
  void GiveUpOnStorage();

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
  // Whether it has ended, or is not known.
  bool LogIsComplete(const std::string& replica_id) const;

  // Removes logs of acknowledged replicas until at most `max_replicas` of these are left, all logs together
  // have at most `max_bytes`, and those of each job at most `max_job_bytes`. What goes is of the job that has
  // the most of what is too much, its oldest first: a job that writes much, or fails often, costs no other
  // one its logs. Returns the bytes that are left. Waits for disks; one call at a time, DeleteJob() included.
  int64_t PruneLogs(int max_replicas, int64_t max_bytes, int64_t max_job_bytes);

  // Removes virtual environments that no replica uses, as PythonEnvironments::Trim() does. One call at a time.
  void TrimPython();
  // The same of the folders that come with jobs, and of their archives.
  void TrimCode();

  ReplicaStats Stats() const;

  void OnRunning(const std::string& replica_id, const RunningRecord& record) override;
  void OnExited(const std::string& replica_id, const ExitRecord& record) override;

 private:
  // How far the start of a replica is.
  enum class Start {
    kPreparing,  // its folders; it can still be called off
    kFetching,   // the one that comes with the job, over the network; likewise
    kSpawning,   // its shim; a stop waits until that is there
    kDone,       // or never begun
  };
  struct Entry {
    v1::ReplicaReport report;
    v1::ReplicaTemplate replica_template;
    bool acknowledged = false;
    // The job is deleted: forget the replica as soon as it has ended.
    bool delete_when_ended = false;
    Start start = Start::kDone;
    // Since when it is prepared.
    absl::Time start_time = absl::InfiniteFuture();
    // What came while its shim was started.
    struct PendingStop {
      absl::Duration grace_period;
      std::string reason;
    };
    std::optional<PendingStop> stop;
    // Whether the node has stopped it since it goes away itself.
    bool left_over = false;
    // Whether its process has ended, and what it has left is on its way to the store.
    bool is_saving = false;
    // How it has ended, while the storage is tried, and since when.
    std::optional<ExitRecord> end;
    absl::Time end_since = absl::InfiniteFuture();
  };

  ReplicaManager(Options options, ReplicaStore store, JobStorage storage, const Clock* clock, Shims* shims,
                 WorkLanes* lanes);

  void Recover() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry NewEntry(const v1::LaunchReplica& launch) const;

  // On the replica's lane: from the order to the shim.
  void StartReplica(const v1::LaunchReplica& launch, const std::vector<std::string>& devices);
  // The launch began then, and ended now, so.
  void Trace(const v1::LaunchReplica& launch, absl::Time begin, const absl::Status& status) const;
  // The folder that comes with the job is being waited for, or not any more.
  void NoteFetching(const std::string& replica_id, bool fetching);
  bool IsWanted(const std::string& replica_id) const;
  // The end of a replica that has been prepared for too long. None: it has not.
  std::optional<ExitRecord> EndOfPatience(const Entry& entry, const Moment& now) const;
  // Where its job's files are: they are brought here before it starts, and taken there when it has ended.
  JobStore::Job StoredJobOf(const v1::LaunchReplica& launch) const;
  ReplicaPreparer::Outcome EnterStorage(const v1::LaunchReplica& launch);
  // What the job begins with, from another job, unless it has checkpoints of its own.
  ReplicaPreparer::Outcome FetchStart(const v1::LaunchReplica& launch, const JobStore::Job& job);
  // The job itself is why it can't start.
  ReplicaPreparer::Outcome NotStartable(const v1::LaunchReplica& launch, const absl::Status& why);
  ReplicaPreparer::Outcome FetchData(const v1::LaunchReplica& launch, const std::optional<Account>& account);
  absl::Status LeaveStorage(const std::string& replica_id, bool save);
  // It is prepared, and that gets on.
  void NoteProgress(const std::string& replica_id);
  // Tells of checkpoints that can't be saved as long as their replicas run.
  void WatchCheckpoints();
  // Takes the ends of processes that nobody was here to see.
  void SaveLeftovers();
  // Its process has ended, and whatever it has left is where it belongs.
  void SettleEnd(const std::string& replica_id, const ExitRecord& told);
  // Whether the replica is still wanted; from then on it can't be called off.
  bool BeginSpawning(const std::string& replica_id);
  void EndSpawning(const std::string& replica_id);
  // From the storage and from this node.
  absl::Status RemoveFilesOf(const v1::DeleteJobFiles& job);
  // Puts away what was prepared for a replica that was called off meanwhile.
  void CleanUp(const v1::LaunchReplica& launch, const std::string& cgroup);
  // On the replica's lane: it has no process, and gets none.
  void FailStart(const std::string& replica_id, const ExitRecord& record);
  // On the replica's lane: its process has failed.
  void TryStorage(const std::string& replica_id, const v1::ReplicaReport& report);
  // The end of a process, and whose fault it was, is known.
  void TakeEndOf(const std::string& replica_id, const ExitRecord& record);

  // Ends a replica that has no process.
  void EndWithoutProcess(Entry* entry, const ExitRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StopEntry(const std::string& replica_id, Entry* entry, absl::Duration grace_period,
                 const std::string& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeEnd(Entry* entry, const ExitRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Report(const v1::ReplicaReport& report) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The replica has ended: others may have its GPUs, if they are fit.
  void ReleaseDevices(const std::string& replica_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the sink what the node offers now, if that is new.
  void Offer(std::vector<std::string> problems) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const JobStorage storage_;
  const Clock* const clock_;
  Shims* const shims_;
  WorkLanes* const lanes_;
  SharedFolderStore shared_folder_;
  JobStore* const jobs_;
  // Used on lanes, and by whoever may wait; never with the lock held.
  ReplicaStore store_;
  PythonEnvironments python_;
  JobCode code_;
  const ReplicaPreparer preparer_;

  mutable Mutex mutex_;
  DeviceTable devices_ ABSL_GUARDED_BY(mutex_);
  Sink sink_ ABSL_GUARDED_BY(mutex_);
  OfferSink offer_sink_ ABSL_GUARDED_BY(mutex_);
  // What the sink was told, or would be.
  GpuOffer offer_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Entry> replicas_ ABSL_GUARDED_BY(mutex_);
  ReplicaStats stats_ ABSL_GUARDED_BY(mutex_);
  // That the node goes away: since when it is known, when it does, and why.
  struct Retirement {
    absl::Time begin;
    absl::Time deadline;
    std::string reason;
  };
  std::optional<Retirement> retirement_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_REPLICA_MANAGER_H_
