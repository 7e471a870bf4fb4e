#include "services/worker/replica_manager.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/service/log.h"
#include "services/worker/names.h"
#include "services/worker/shim/cgroup.h"

namespace adaptdl::worker {
namespace {

constexpr int kExitStopped = 143;
constexpr int kExitPeerLost = 75;

void SetTimestamp(absl::Time time, google::protobuf::Timestamp* timestamp) {
  const timespec value = absl::ToTimespec(time);
  timestamp->set_seconds(value.tv_sec);
  timestamp->set_nanos(static_cast<int32_t>(value.tv_nsec));
}

bool Ended(const v1::Replica& replica) {
  return replica.state() == v1::REPLICA_STATE_EXITED || replica.state() == v1::REPLICA_STATE_LOST;
}

std::string KindOfExit(const ExitRecord& record) {
  if (record.lost) return "lost";
  if (record.signal == SIGTERM || (record.signal == 0 && record.exit_code == kExitStopped)) return "stopped";
  if (record.signal != 0) return "killed";
  if (record.exit_code == kExitPeerLost) return "peer_lost";
  return record.exit_code == 0 ? "succeeded" : "failed";
}

absl::Duration GracePeriodOf(const v1::StopReplica& stop, const v1::ReplicaTemplate& replica_template) {
  if (!stop.has_grace_period()) return TerminationGracePeriod(replica_template);
  v1::ReplicaTemplate asked;
  *asked.mutable_termination_grace_period() = stop.grace_period();
  return TerminationGracePeriod(asked);
}

bool IsOfJob(const v1::ReplicaReport& report, const v1::DeleteJobFiles& job) {
  return report.namespace_() == job.namespace_() && report.job() == job.job() &&
         report.job_uid() == job.job_uid();
}

std::string JobName(const v1::ReplicaReport& report) {
  return absl::StrCat(report.namespace_(), "/", report.job());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReplicaManager>> ReplicaManager::Create(Options options, JobStorage storage,
                                                                       const Clock* clock, Shims* shims) {
  absl::StatusOr<ReplicaStore> store = ReplicaStore::Create(absl::StrCat(options.state_dir, "/replicas"));
  if (!store.ok()) return store.status();
  std::unique_ptr<ReplicaManager> manager(
      new ReplicaManager(std::move(options), *std::move(store), std::move(storage), clock, shims));
  shims->SetListener(manager.get());
  MutexLock lock(&manager->mutex_);
  manager->Recover();
  return manager;
}

ReplicaManager::ReplicaManager(Options options, ReplicaStore store, JobStorage storage, const Clock* clock,
                               Shims* shims)
    : options_(std::move(options)),
      storage_(std::move(storage)),
      clock_(clock),
      shims_(shims),
      store_(std::move(store)),
      devices_(options_.devices) {}

void ReplicaManager::Recover() {
  for (const StoredReplica& stored : store_.LoadAll()) {
    const std::string& replica_id = stored.launch.replica_id();
    Entry& entry = replicas_[replica_id] = NewEntry(stored.launch);
    entry.acknowledged = stored.acknowledged;
    if (stored.exit) {
      SetEnded(&entry, *stored.exit);
      continue;
    }
    if (stored.running) {
      entry.report.mutable_replica()->set_state(v1::REPLICA_STATE_RUNNING);
      SetTimestamp(stored.running->start_time, entry.report.mutable_replica()->mutable_start_time());
    }
    devices_.Restore(replica_id, stored.devices);
    shims_->Attach(replica_id, store_.FolderOf(replica_id));
    log::Info("replica found, attaching to its shim",
              {{"replica", replica_id}, {"job", JobName(entry.report)}});
  }
}

ReplicaManager::Entry ReplicaManager::NewEntry(const v1::LaunchReplica& launch) const {
  Entry entry;
  entry.replica_template = launch.template_();
  entry.report.set_namespace_(launch.namespace_());
  entry.report.set_job(launch.job());
  entry.report.set_job_uid(launch.job_uid());
  v1::Replica& replica = *entry.report.mutable_replica();
  replica.set_replica_id(launch.replica_id());
  replica.set_group(launch.group());
  replica.set_rank(launch.rank());
  replica.set_node_id(options_.node_id);
  replica.set_state(v1::REPLICA_STATE_LAUNCHING);
  return entry;
}

void ReplicaManager::SetSink(Sink sink) {
  MutexLock lock(&mutex_);
  sink_ = std::move(sink);
}

void ReplicaManager::Launch(const v1::LaunchReplica& launch) {
  MutexLock lock(&mutex_);
  if (const auto it = replicas_.find(launch.replica_id()); it != replicas_.end()) {
    Report(it->second.report);
    return;
  }
  Entry entry = NewEntry(launch);
  if (const absl::Status status = CheckLaunch(launch); !status.ok()) {
    // Nothing is kept of what has no valid name; the answer is the only trace.
    log::Warning("launch refused",
                 {{"replica", launch.replica_id()}, {"error", std::string(status.message())}});
    entry.report.mutable_replica()->set_state(v1::REPLICA_STATE_LOST);
    entry.report.mutable_replica()->set_message(std::string(status.message()));
    Report(entry.report);
    return;
  }
  ++stats_.launches;
  Entry& stored = replicas_[launch.replica_id()] = std::move(entry);
  log::Info("launching replica", {{"replica", launch.replica_id()},
                                  {"job", JobName(stored.report)},
                                  {"group", absl::StrCat(launch.group())}});
  if (const absl::Status status = StartShim(launch); !status.ok()) {
    EndWithoutProcess(&stored, status);
    return;
  }
  Report(stored.report);
}

absl::Status ReplicaManager::StartShim(const v1::LaunchReplica& launch) {
  if (ending_) return absl::UnavailableError("the node goes away");
  absl::StatusOr<std::vector<std::string>> devices =
      devices_.Take(launch.replica_id(), launch.template_().resources().gpus());
  if (!devices.ok()) return devices.status();
  const absl::StatusOr<std::optional<Account>> account = storage_.Prepare(launch);
  if (!account.ok()) return account.status();
  ReplicaPlace place{.checkpoint_path = storage_.CheckpointPath(launch),
                     .share_path = storage_.SharePath(launch),
                     .node_id = options_.node_id,
                     .replica_host = options_.replica_host,
                     .supervisor_address = options_.supervisor_address,
                     .supervisor_ca = options_.supervisor_ca,
                     .supervisor_tls_name = options_.supervisor_tls_name,
                     .devices = *devices,
                     .account = *account,
                     .max_processes = options_.max_processes};
  absl::StatusOr<ProcessSpec> process = MakeProcessSpec(launch, place, options_.inherited_environment);
  if (!process.ok()) {
    // The folder has to be there for its exit record.
    if (absl::Status status = store_.Add(launch, {}, ProcessSpec{}); !status.ok()) return status;
    return process.status();
  }
  absl::StatusOr<std::string> cgroup = PrepareCgroup(launch);
  if (!cgroup.ok()) return cgroup.status();
  process->cgroup = *std::move(cgroup);
  if (absl::Status status = store_.Add(launch, *devices, *process); !status.ok()) return status;
  return shims_->Launch(launch.replica_id(), store_.FolderOf(launch.replica_id()));
}

absl::StatusOr<std::string> ReplicaManager::PrepareCgroup(const v1::LaunchReplica& launch) const {
  if (options_.cgroup_base.empty()) return std::string();
  const v1::Resources& resources = launch.template_().resources();
  return MakeCgroup(options_.cgroup_base, launch.replica_id(),
                    {.cpu_millis = resources.cpu_millis(),
                     .memory_bytes = resources.memory_bytes(),
                     .max_processes = options_.max_processes});
}

void ReplicaManager::EndWithoutProcess(Entry* entry, const absl::Status& reason) {
  ExitRecord record;
  record.lost = !absl::IsInvalidArgument(reason);
  record.exit_code = record.lost ? 0 : kExitCannotExecute;
  record.message = std::string(reason.message());
  record.start_time = record.end_time = clock_->Now();
  const std::string replica_id = entry->report.replica().replica_id();
  // If this fails too, a restarted worker finds no shim and says "lost", which is near enough.
  store_.WriteExit(replica_id, record).IgnoreError();
  devices_.Release(replica_id);
  SetEnded(entry, record);
  ++stats_.exits[KindOfExit(record)];
  log::Warning("replica could not be started", {{"replica", replica_id}, {"error", record.message}});
  Report(entry->report);
}

void ReplicaManager::SetEnded(Entry* entry, const ExitRecord& record) {
  v1::Replica& replica = *entry->report.mutable_replica();
  replica.set_state(record.lost ? v1::REPLICA_STATE_LOST : v1::REPLICA_STATE_EXITED);
  replica.set_exit_code(record.exit_code);
  replica.set_signal(record.signal);
  replica.set_message(record.message);
  if (record.start_time > absl::UnixEpoch()) SetTimestamp(record.start_time, replica.mutable_start_time());
  SetTimestamp(record.end_time, replica.mutable_end_time());
}

void ReplicaManager::Stop(const v1::StopReplica& stop) {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(stop.replica_id());
  if (it == replicas_.end()) {
    v1::ReplicaReport report;
    report.mutable_replica()->set_replica_id(stop.replica_id());
    report.mutable_replica()->set_node_id(options_.node_id);
    report.mutable_replica()->set_state(v1::REPLICA_STATE_LOST);
    report.mutable_replica()->set_message("the node does not know this replica");
    Report(report);
    return;
  }
  const Entry& entry = it->second;
  if (Ended(entry.report.replica())) {
    Report(entry.report);
    return;
  }
  log::Info("stopping replica", {{"replica", stop.replica_id()}, {"reason", stop.reason()}});
  shims_->Stop(stop.replica_id(), GracePeriodOf(stop, entry.replica_template), stop.reason());
}

void ReplicaManager::StopAll(const std::string& reason) {
  MutexLock lock(&mutex_);
  ending_ = true;
  for (const auto& [replica_id, entry] : replicas_) {
    if (Ended(entry.report.replica())) continue;
    shims_->Stop(replica_id, TerminationGracePeriod(entry.replica_template), reason);
  }
}

void ReplicaManager::Acknowledge(const std::string& replica_id) {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(replica_id);
  if (it == replicas_.end() || it->second.acknowledged || !Ended(it->second.report.replica())) return;
  it->second.acknowledged = true;
  if (const absl::Status status = store_.MarkAcknowledged(replica_id); !status.ok()) {
    // A restarted worker then reports it once more.
    log::Warning("acknowledgement not stored", {{"replica", replica_id}, {"error", status.ToString()}});
  }
}

void ReplicaManager::DeleteJob(const v1::DeleteJobFiles& job) {
  if (const absl::Status status = CheckJobNames(job.namespace_(), job.job(), job.job_uid()); !status.ok()) {
    log::Warning("deletion refused", {{"error", std::string(status.message())}});
    return;
  }
  std::vector<std::string> ended;
  {
    MutexLock lock(&mutex_);
    for (auto& [replica_id, entry] : replicas_) {
      if (!IsOfJob(entry.report, job)) continue;
      if (Ended(entry.report.replica())) {
        ended.push_back(replica_id);
      } else {
        entry.delete_when_ended = true;
        shims_->Stop(replica_id, absl::ZeroDuration(), "the job was deleted");
      }
    }
    for (const std::string& replica_id : ended) {
      store_.Remove(replica_id).IgnoreError();
      replicas_.erase(replica_id);
    }
  }
  const absl::Status status = storage_.Remove(job);
  log::Info("job's files removed", {{"job", absl::StrCat(job.namespace_(), "/", job.job())},
                                    {"replicas", absl::StrCat(ended.size())},
                                    {"result", status.ToString()}});
}

void ReplicaManager::OnRunning(const std::string& replica_id, const RunningRecord& record) {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(replica_id);
  if (it == replicas_.end() || Ended(it->second.report.replica())) return;
  v1::Replica& replica = *it->second.report.mutable_replica();
  replica.set_state(v1::REPLICA_STATE_RUNNING);
  SetTimestamp(record.start_time, replica.mutable_start_time());
  Report(it->second.report);
}

void ReplicaManager::OnExited(const std::string& replica_id, const ExitRecord& record) {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(replica_id);
  if (it == replicas_.end() || Ended(it->second.report.replica())) return;
  // A lost replica left no record: write one, so that a restarted worker need not search again.
  if (record.lost) store_.WriteExit(replica_id, record).IgnoreError();
  devices_.Release(replica_id);
  SetEnded(&it->second, record);
  const std::string kind = KindOfExit(record);
  ++stats_.exits[kind];
  stats_.dropped_log_bytes += record.dropped_log_bytes;
  log::Info("replica ended", {{"replica", replica_id},
                              {"job", JobName(it->second.report)},
                              {"kind", kind},
                              {"exit_code", absl::StrCat(record.exit_code)},
                              {"signal", absl::StrCat(record.signal)},
                              {"message", record.message}});
  Report(it->second.report);
  if (!it->second.delete_when_ended) return;
  store_.Remove(replica_id).IgnoreError();
  replicas_.erase(it);
}

void ReplicaManager::Report(const v1::ReplicaReport& report) const {
  if (sink_) sink_(report);
}

std::vector<v1::ReplicaReport> ReplicaManager::Inventory() const {
  MutexLock lock(&mutex_);
  std::vector<v1::ReplicaReport> reports;
  for (const auto& [replica_id, entry] : replicas_) {
    if (!entry.acknowledged) reports.push_back(entry.report);
  }
  return reports;
}

std::vector<v1::ReplicaReport> ReplicaManager::Unacknowledged() const {
  std::vector<v1::ReplicaReport> reports = Inventory();
  std::erase_if(reports, [](const v1::ReplicaReport& report) { return !Ended(report.replica()); });
  return reports;
}

absl::StatusOr<ReplicaManager::LogPlace> ReplicaManager::FindLog(const std::string& replica_id) const {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(replica_id);
  if (it == replicas_.end()) {
    return absl::NotFoundError(absl::StrCat("node \"", options_.node_id, "\" has no log of replica \"",
                                            replica_id, "\": it never ran here, or its log was removed"));
  }
  const v1::Replica& replica = it->second.report.replica();
  return LogPlace{.folder = store_.FolderOf(replica_id), .group = replica.group(), .rank = replica.rank()};
}

bool ReplicaManager::HasEnded(const std::string& replica_id) const {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(replica_id);
  return it == replicas_.end() || Ended(it->second.report.replica());
}

namespace {

// Logs of one job on this node.
struct JobLogs {
  int64_t bytes = 0;
  // Acknowledged replicas by the time of their end, and the bytes of each.
  std::set<std::pair<int64_t, std::string>> ended;
};

// The job whose oldest log is to go: it has something to give, and the most of what is too much. Null: none.
JobLogs* MostOf(std::map<std::string, JobLogs>* jobs, bool count_bytes) {
  JobLogs* most = nullptr;
  for (auto& [uid, logs] : *jobs) {
    if (logs.ended.empty()) continue;
    const bool more =
        most == nullptr || (count_bytes ? logs.bytes > most->bytes : logs.ended.size() > most->ended.size());
    if (more) most = &logs;
  }
  return most;
}

}  // namespace

int64_t ReplicaManager::PruneLogs(int max_replicas, int64_t max_bytes, int64_t max_job_bytes) {
  MutexLock lock(&mutex_);
  std::map<std::string, int64_t> sizes;
  std::map<std::string, JobLogs> jobs;
  int64_t total = 0;
  int ended = 0;
  for (const auto& [replica_id, entry] : replicas_) {
    const int64_t bytes = sizes[replica_id] = store_.LogBytes(replica_id);
    JobLogs& logs = jobs[entry.report.job_uid()];
    logs.bytes += bytes;
    total += bytes;
    if (!entry.acknowledged) continue;
    logs.ended.emplace(entry.report.replica().end_time().seconds(), replica_id);
    ++ended;
  }
  const auto remove_oldest = [&](JobLogs* logs) {
    const std::string replica_id = logs->ended.begin()->second;
    store_.Remove(replica_id).IgnoreError();
    replicas_.erase(replica_id);
    logs->ended.erase(logs->ended.begin());
    logs->bytes -= sizes[replica_id];
    total -= sizes[replica_id];
    --ended;
  };
  for (auto& [uid, logs] : jobs) {
    while (logs.bytes > max_job_bytes && !logs.ended.empty()) remove_oldest(&logs);
  }
  while (ended > max_replicas) remove_oldest(MostOf(&jobs, /*count_bytes=*/false));
  while (total > max_bytes && ended > 0) remove_oldest(MostOf(&jobs, /*count_bytes=*/true));
  return total;
}

ReplicaStats ReplicaManager::Stats() const {
  MutexLock lock(&mutex_);
  ReplicaStats stats = stats_;
  for (const auto& [replica_id, entry] : replicas_) ++stats.by_state[entry.report.replica().state()];
  return stats;
}

}  // namespace adaptdl::worker
