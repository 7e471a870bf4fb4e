#include "services/worker/replica_manager.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/messages/proto_time.h"
#include "libs/service/log.h"
#include "libs/tracing/context.h"
#include "services/worker/names.h"
#include "services/worker/replica_end.h"
#include "services/worker/shim/cgroup.h"

namespace adaptdl::worker {
namespace {

// What a node that goes away keeps for telling the supervisor of the last ends.
constexpr absl::Duration kTimeToTell = absl::Seconds(2);

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

// Where the folders that come with jobs are.
CodeOptions FoldersOf(const ReplicaManager::Options& options) {
  CodeOptions code = options.code;
  if (code.archives.empty()) code.archives = absl::StrCat(options.state_dir, "/code");
  if (code.folder.empty()) code.folder = absl::StrCat(options.state_dir, "/job-code");
  return code;
}

std::string JobName(const v1::ReplicaReport& report) {
  return absl::StrCat(report.namespace_(), "/", report.job());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReplicaManager>> ReplicaManager::Create(Options options, JobStorage storage,
                                                                       const Clock* clock, Shims* shims,
                                                                       WorkLanes* lanes) {
  absl::StatusOr<ReplicaStore> store = ReplicaStore::Create(absl::StrCat(options.state_dir, "/replicas"));
  if (!store.ok()) return store.status();
  std::unique_ptr<ReplicaManager> manager(
      new ReplicaManager(std::move(options), *std::move(store), std::move(storage), clock, shims, lanes));
  shims->SetListener(manager.get());
  {
    // Nobody waits for the lock yet.
    MutexLock lock(&manager->mutex_);
    manager->Recover();
  }
  manager->WatchCheckpoints();
  manager->SaveLeftovers();
  return manager;
}

ReplicaManager::ReplicaManager(Options options, ReplicaStore store, JobStorage storage, const Clock* clock,
                               Shims* shims, WorkLanes* lanes)
    : options_(std::move(options)),
      storage_(std::move(storage)),
      clock_(clock),
      shims_(shims),
      lanes_(lanes),
      jobs_(options_.job_store == nullptr ? &shared_folder_ : options_.job_store),
      store_(std::move(store)),
      python_(options_.python),
      code_(FoldersOf(options_), options_.code_source, clock_),
      preparer_(options_.node, &storage_, &store_, &python_,
                options_.code_source == nullptr ? nullptr : &code_),
      devices_(options_.devices, options_.other_device_names),
      offer_{.count = devices_.offered(), .problems = {}} {}

void ReplicaManager::Recover() {
  for (const StoredReplica& stored : store_.LoadAll()) {
    const std::string& replica_id = stored.launch.replica_id();
    Entry& entry = replicas_[replica_id] = NewEntry(stored.launch);
    entry.acknowledged = stored.acknowledged;
    const bool is_saved = options_.job_store == nullptr || stored.acknowledged;
    if (stored.exit && is_saved) {
      SetEnded(*stored.exit, entry.report.mutable_replica());
      continue;
    }
    if (stored.running) {
      entry.report.mutable_replica()->set_state(v1::REPLICA_STATE_RUNNING);
      *entry.report.mutable_replica()->mutable_start_time() = messages::ToProto(stored.running->start_time);
    }
    devices_.Restore(replica_id, stored.devices);
    jobs_->Adopt(StoredJobOf(stored.launch), replica_id);
    if (options_.data_cache != nullptr) options_.data_cache->Adopt(replica_id);
    if (stored.exit) {
      entry.end = stored.exit;
      continue;
    }
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
  replica.set_node_id(preparer_.node().node_id);
  replica.set_state(v1::REPLICA_STATE_LAUNCHING);
  return entry;
}

void ReplicaManager::SetSink(Sink sink) {
  MutexLock lock(&mutex_);
  sink_ = std::move(sink);
}

void ReplicaManager::Launch(const v1::LaunchReplica& launch) {
  const std::string& replica_id = launch.replica_id();
  std::vector<std::string> devices;
  {
    MutexLock lock(&mutex_);
    if (const auto it = replicas_.find(replica_id); it != replicas_.end()) {
      Report(it->second.report);
      return;
    }
    Entry entry = NewEntry(launch);
    if (const absl::Status status = CheckLaunch(launch); !status.ok()) {
      // Nothing is kept of what has no valid name; the answer is the only trace.
      log::Warning("launch refused", {{"replica", replica_id}, {"error", std::string(status.message())}});
      entry.report.mutable_replica()->set_state(v1::REPLICA_STATE_LOST);
      entry.report.mutable_replica()->set_end_cause(v1::END_CAUSE_JOB);
      entry.report.mutable_replica()->set_message(std::string(status.message()));
      Report(entry.report);
      return;
    }
    ++stats_.launches;
    Entry& stored = replicas_[replica_id] = std::move(entry);
    log::Info(
        "launching replica",
        {{"replica", replica_id}, {"job", JobName(stored.report)}, {"group", absl::StrCat(launch.group())}});
    absl::StatusOr<std::vector<std::string>> taken =
        retirement_.has_value() ? absl::UnavailableError(retirement_->reason)
                                : devices_.Take(replica_id, launch.template_().resources().gpus());
    if (!taken.ok()) {
      const Cause cause = retirement_.has_value() ? Cause::kPreemption : Cause::kNode;
      EndWithoutProcess(&stored, NotStarted(taken.status(), cause, clock_->Now()));
      return;
    }
    devices = *std::move(taken);
    stored.start = Start::kPreparing;
    stored.start_time = clock_->Steady();
    Report(stored.report);
  }
  lanes_->Post(replica_id, [this, launch, devices] { StartReplica(launch, devices); });
}

void ReplicaManager::StartReplica(const v1::LaunchReplica& launch, const std::vector<std::string>& devices) {
  const std::string& replica_id = launch.replica_id();
  const absl::Time begin = clock_->Now();
  ReplicaPreparer::Outcome outcome = EnterStorage(launch);
  if (outcome.status.ok()) {
    outcome = preparer_.Prepare(launch, devices,
                                {.fetching = [&](bool fetching) { NoteFetching(replica_id, fetching); },
                                 .wanted = [&] { return IsWanted(replica_id); }});
  }
  if (outcome.status.ok()) {
    if (!BeginSpawning(replica_id)) {
      CleanUp(launch, outcome.cgroup);
      return;
    }
    outcome.cause = Cause::kNode;
    outcome.status = shims_->Launch(replica_id, store_.FolderOf(replica_id));
  }
  if (!outcome.status.ok()) {
    FailStart(replica_id, NotStarted(outcome.status, outcome.cause, clock_->Now()));
  }
  Trace(launch, begin, outcome.status);
  EndSpawning(replica_id);
}

void ReplicaManager::Trace(const v1::LaunchReplica& launch, absl::Time begin,
                           const absl::Status& status) const {
  if (options_.tracer == nullptr) return;
  const std::optional<tracing::Context> parent = tracing::Parse(launch.traceparent());
  if (!parent) return;
  options_.tracer->Take({.name = "launch replica",
                         .context = tracing::NewSpan(*parent),
                         .parent_span_id = parent->span_id,
                         .begin = begin,
                         .end = clock_->Now(),
                         .attributes = {{"adaptdl.namespace", launch.namespace_()},
                                        {"adaptdl.job", launch.job()},
                                        {"adaptdl.replica", launch.replica_id()},
                                        {"adaptdl.node", options_.node.node_id}},
                         .error = std::string(status.message())});
}

bool ReplicaManager::BeginSpawning(const std::string& replica_id) {
  MutexLock lock(&mutex_);
  Entry& entry = replicas_.at(replica_id);
  if (HasEnded(entry.report.replica())) return false;
  entry.start = Start::kSpawning;
  return true;
}

void ReplicaManager::EndSpawning(const std::string& replica_id) {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(replica_id);
  if (it == replicas_.end()) return;  // It has ended, and its job is deleted.
  Entry& entry = it->second;
  entry.start = Start::kDone;
  if (!entry.stop.has_value() || HasEnded(entry.report.replica())) return;
  shims_->Stop(replica_id, entry.stop->grace_period, entry.stop->reason);
}

void ReplicaManager::CleanUp(const v1::LaunchReplica& launch, const std::string& cgroup) {
  const std::string& replica_id = launch.replica_id();
  LeaveStorage(replica_id, /*save=*/false).IgnoreError();
  if (!cgroup.empty()) RemoveCgroup(cgroup);
  bool deleted = false;
  ExitRecord record;
  {
    MutexLock lock(&mutex_);
    const auto it = replicas_.find(replica_id);
    const v1::Replica& replica = it->second.report.replica();
    record.lost = replica.state() == v1::REPLICA_STATE_LOST;
    if (record.lost) record.cause = Cause::kStorage;  // It is what hung.
    record.exit_code = replica.exit_code();
    record.message = replica.message();
    record.start_time = record.end_time = clock_->Now();
    it->second.start = Start::kDone;
    deleted = it->second.delete_when_ended;
    if (deleted) replicas_.erase(it);
  }
  if (!deleted) {
    store_.WriteExit(replica_id, record).IgnoreError();
    return;
  }
  store_.Remove(replica_id).IgnoreError();
  // The job's folder was removed before, and was made again here.
  v1::DeleteJobFiles job;
  job.set_namespace_(launch.namespace_());
  job.set_job(launch.job());
  job.set_job_uid(launch.job_uid());
  RemoveFilesOf(job).IgnoreError();
}

void ReplicaManager::FailStart(const std::string& replica_id, const ExitRecord& record) {
  LeaveStorage(replica_id, /*save=*/false).IgnoreError();
  // If this fails too, a restarted worker finds no shim and says "lost", which is near enough.
  store_.WriteExit(replica_id, record).IgnoreError();
  MutexLock lock(&mutex_);
  Entry& entry = replicas_.at(replica_id);
  if (!HasEnded(entry.report.replica())) EndWithoutProcess(&entry, record);
  entry.start = Start::kDone;
  if (!entry.delete_when_ended) return;
  replicas_.erase(replica_id);
  lanes_->Post(replica_id, [this, replica_id] { store_.Remove(replica_id).IgnoreError(); });
}

void ReplicaManager::EndWithoutProcess(Entry* entry, const ExitRecord& record) {
  const std::string replica_id = entry->report.replica().replica_id();
  ReleaseDevices(replica_id);
  SetEnded(record, entry->report.mutable_replica());
  ++stats_.exits[KindOfEnd(record)];
  log::Warning("replica was not started", {{"replica", replica_id}, {"error", record.message}});
  Report(entry->report);
}

void ReplicaManager::Stop(const v1::StopReplica& stop) {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(stop.replica_id());
  if (it == replicas_.end()) {
    v1::ReplicaReport report;
    report.mutable_replica()->set_replica_id(stop.replica_id());
    report.mutable_replica()->set_node_id(preparer_.node().node_id);
    report.mutable_replica()->set_state(v1::REPLICA_STATE_LOST);
    report.mutable_replica()->set_message("the node does not know this replica");
    Report(report);
    return;
  }
  Entry& entry = it->second;
  if (HasEnded(entry.report.replica())) {
    Report(entry.report);
    return;
  }
  log::Info("stopping replica", {{"replica", stop.replica_id()}, {"reason", stop.reason()}});
  StopEntry(stop.replica_id(), &entry, GracePeriodOf(stop, entry.replica_template), stop.reason());
}

void ReplicaManager::StopEntry(const std::string& replica_id, Entry* entry, absl::Duration grace_period,
                               const std::string& reason) {
  switch (entry->start) {
    case Start::kPreparing:
    case Start::kFetching:
      // Whatever hangs, nobody has to wait for it.
      EndWithoutProcess(entry, CalledOff(reason, clock_->Now()));
      break;
    case Start::kSpawning:
      entry->stop = {grace_period, reason};
      break;
    case Start::kDone:
      shims_->Stop(replica_id, grace_period, reason);
  }
}

void ReplicaManager::Retire(absl::Time deadline, const std::string& reason) {
  MutexLock lock(&mutex_);
  retirement_ = {clock_->Steady(), deadline, reason};
}

void ReplicaManager::StopLeftovers() {
  MutexLock lock(&mutex_);
  if (!retirement_.has_value()) return;
  const absl::Time now = clock_->Steady();
  const absl::Duration whole = retirement_->deadline - retirement_->begin;
  const absl::Time first = retirement_->begin + whole / 2;
  // The last ends have to be told as well.
  const absl::Time end = retirement_->deadline - std::min(kTimeToTell, whole / 10);
  for (auto& [replica_id, entry] : replicas_) {
    if (entry.left_over || HasEnded(entry.report.replica())) continue;
    const absl::Duration grace_period = TerminationGracePeriod(entry.replica_template);
    if (now < std::max(first, end - grace_period)) continue;
    entry.left_over = true;
    log::Info("stopping a replica that is still here",
              {{"replica", replica_id}, {"reason", retirement_->reason}});
    StopEntry(replica_id, &entry, std::clamp(end - now, absl::ZeroDuration(), grace_period),
              retirement_->reason);
  }
}

void ReplicaManager::Acknowledge(const std::string& replica_id) {
  {
    MutexLock lock(&mutex_);
    const auto it = replicas_.find(replica_id);
    if (it == replicas_.end() || it->second.acknowledged || !HasEnded(it->second.report.replica())) return;
    it->second.acknowledged = true;
  }
  lanes_->Post(replica_id, [this, replica_id] {
    if (const absl::Status status = store_.MarkAcknowledged(replica_id); !status.ok()) {
      // A restarted worker then reports it once more.
      log::Warning("acknowledgement not stored", {{"replica", replica_id}, {"error", status.ToString()}});
    }
  });
}

absl::Status ReplicaManager::DeleteJob(const v1::DeleteJobFiles& job) {
  if (const absl::Status status = CheckJobNames(job.namespace_(), job.job(), job.job_uid()); !status.ok()) {
    log::Warning("deletion refused", {{"error", std::string(status.message())}});
    return status;
  }
  absl::Status status;
  std::vector<std::string> ended;
  {
    MutexLock lock(&mutex_);
    for (auto& [replica_id, entry] : replicas_) {
      if (!IsOfJob(entry.report, job)) continue;
      const bool has_ended = HasEnded(entry.report.replica());
      if (has_ended && entry.start == Start::kDone) {
        ended.push_back(replica_id);
        continue;
      }
      entry.delete_when_ended = true;
      if (!has_ended) StopEntry(replica_id, &entry, absl::ZeroDuration(), "the job was deleted");
      status.Update(absl::UnavailableError(absl::StrCat("replica ", replica_id, " is still to end")));
    }
  }
  std::erase_if(ended, [&](const std::string& replica_id) {
    const absl::Status gone = store_.Remove(replica_id);
    status.Update(gone);
    return !gone.ok();
  });
  {
    MutexLock lock(&mutex_);
    for (const std::string& replica_id : ended) replicas_.erase(replica_id);
  }
  status.Update(RemoveFilesOf(job));
  log::Info("job's files removed", {{"job", absl::StrCat(job.namespace_(), "/", job.job())},
                                    {"replicas", absl::StrCat(ended.size())},
                                    {"result", status.ToString()}});
  return status;
}

void ReplicaManager::OnRunning(const std::string& replica_id, const RunningRecord& record) {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(replica_id);
  if (it == replicas_.end() || HasEnded(it->second.report.replica())) return;
  v1::Replica& replica = *it->second.report.mutable_replica();
  replica.set_state(v1::REPLICA_STATE_RUNNING);
  *replica.mutable_start_time() = messages::ToProto(record.start_time);
  Report(it->second.report);
}

void ReplicaManager::TakeEndOf(const std::string& replica_id, const ExitRecord& record) {
  bool forget = false;
  {
    MutexLock lock(&mutex_);
    const auto it = replicas_.find(replica_id);
    if (it == replicas_.end() || HasEnded(it->second.report.replica())) return;
    it->second.end.reset();
    TakeEnd(&it->second, record);
    forget = it->second.delete_when_ended;
    if (forget) replicas_.erase(it);
  }
  if (forget) {
    lanes_->Post(replica_id, [this, replica_id] { store_.Remove(replica_id).IgnoreError(); });
  } else if (record.lost || record.cause != Cause::kUnknown) {
    // What the shim did not write: a restarted worker is not to find out again, or not any more.
    lanes_->Post(replica_id,
                 [this, replica_id, record] { store_.WriteExit(replica_id, record).IgnoreError(); });
  }
}

void ReplicaManager::TakeEnd(Entry* entry, const ExitRecord& record) {
  const std::string& replica_id = entry->report.replica().replica_id();
  ReleaseDevices(replica_id);
  SetEnded(record, entry->report.mutable_replica());
  const std::string kind = KindOfEnd(record);
  ++stats_.exits[kind];
  stats_.dropped_log_bytes += record.dropped_log_bytes;
  log::Info("replica ended", {{"replica", replica_id},
                              {"job", JobName(entry->report)},
                              {"kind", kind},
                              {"exit_code", absl::StrCat(record.exit_code)},
                              {"signal", absl::StrCat(record.signal)},
                              {"message", record.message}});
  Report(entry->report);
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
  std::erase_if(reports, [](const v1::ReplicaReport& report) { return !HasEnded(report.replica()); });
  return reports;
}

bool ReplicaManager::LogIsComplete(const std::string& replica_id) const {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(replica_id);
  return it == replicas_.end() || HasEnded(it->second.report.replica());
}

ReplicaStats ReplicaManager::Stats() const {
  MutexLock lock(&mutex_);
  ReplicaStats stats = stats_;
  stats.gpus_offered = devices_.offered();
  stats.gpus_unfit = devices_.unfit();
  for (const auto& [replica_id, entry] : replicas_) ++stats.by_state[entry.report.replica().state()];
  return stats;
}

}  // namespace adaptdl::worker
