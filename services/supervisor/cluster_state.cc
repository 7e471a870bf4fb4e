// The core of the state: reading the store, transactions, and the state machine. The other cluster_*.cc files
// hold what each service does with it.

#include "services/supervisor/cluster_state.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/service/log.h"
#include "services/supervisor/convert.h"

namespace adaptdl::supervisor {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr size_t kKeptTokens = 8;

bool Equal(const JobRecord& a, const JobRecord& b) {
  return a.running_since == b.running_since && a.rescaling_since == b.rescaling_since &&
         MessageDifferencer::Equals(a.status, b.status);
}

// Whether what a waiting job is told differs, and nothing else.
bool OnlyWordsDiffer(JobRecord a, const JobRecord& b) {
  if (b.status.phase() != v1::JOB_PHASE_PENDING) return false;
  a.status.set_message(b.status.message());
  return Equal(a, b);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterState>> ClusterState::Create(const ClusterOptions& options,
                                                                   const ClusterParts& parts) {
  const absl::StatusOr<StoreContents> contents = parts.store->Load();
  if (!contents.ok()) return contents.status();
  std::unique_ptr<ClusterState> state(new ClusterState(options, parts));
  MutexLock lock(&state->mutex_);
  state->Fill(*contents);
  return state;
}

void ClusterState::Fill(const StoreContents& contents) {
  const absl::Time now = Now();
  std::map<std::string, std::shared_ptr<JobEntry>> entries;
  for (const JobRecord& record : contents.jobs) {
    auto entry = std::make_shared<JobEntry>();
    entry->record = record;
    entries[record.uid()] = entry;
    tables_.jobs[record.uid()] = entry;
    tables_.by_sequence[record.sequence] = record.uid();
    tables_.by_name[{record.job->namespace_(), record.job->name()}] = record.uid();
    if (!IsTerminal(record.status.phase())) tables_.active[record.sequence] = record.uid();
  }
  // In order of rank.
  for (const ReplicaRecord& replica : contents.replicas) {
    entries.at(replica.job_uid)->replicas.push_back(std::make_shared<ReplicaRecord>(replica));
  }
  for (const NodeRecord& node : contents.nodes) {
    tables_.nodes[node.node.node_id()] =
        std::make_shared<NodeEntry>(NodeEntry{node, std::make_shared<Lease>(now)});
    last_session_ = std::max(last_session_, node.session_id);
  }
  for (const FileDeletion& deletion : contents.deletions)
    tables_.deletions[deletion.node_id].push_back(deletion);
  for (const v1::NamespaceQuota& quota : contents.quotas) tables_.quotas[quota.namespace_()] = quota;
  tables_.last_sequence = contents.last_sequence;
  tables_.last_event_id = contents.last_event_id;
  // Larger than any version that an allocator may still hold from before.
  tables_.version = absl::ToUnixMicros(now);
}

absl::Status ClusterState::Commit(Transaction* transaction) {
  if (transaction->TakeRoomFreed()) SettleWaiting(transaction);
  const WriteBatch& batch = transaction->Finish();
  const absl::Time begin = absl::Now();
  const absl::Status status = parts_.store->Commit(batch);
  if (Metrics* metrics = metrics_) metrics->ObserveCommit(absl::Now() - begin, status.ok());
  if (!status.ok()) {
    log::Error("a change could not be stored", {{"error", status.ToString()}});
    return status;
  }
  const Changes changes = transaction->Apply(&tables_);
  for (const v1::Event& event : batch.add_events) {
    log::Info(event.message(), {{"job", absl::StrCat(event.namespace_(), "/", event.job())},
                                {"event", event.reason()},
                                {"group", absl::StrCat(event.group())}});
  }
  CarryOut(*transaction->effects());
  parts_.hub->Notify(changes);
  return status;
}

void ClusterState::CarryOut(const Effects& effects) {
  for (const std::string& replica : effects.fenced) {
    parts_.sessions->Forget(replica, absl::AbortedError("this replica's group is over; it must stop"));
  }
  for (const auto& [node, launch] : effects.launches) parts_.launcher->Launch(node, launch);
  for (const auto& [node, stop] : effects.stops) parts_.launcher->Stop(node, stop);
  for (const auto& command : effects.commands) {
    parts_.sessions->Command(command.replica_id, command.command, command.reason);
  }
  for (const auto& [node, replica] : effects.acknowledgements) parts_.launcher->Acknowledge(node, replica);
  for (const auto& [node, files] : effects.deletions) parts_.launcher->DeleteJobFiles(node, files);
  if (Metrics* metrics = metrics_) {
    for (const std::string& cause : effects.restarts) metrics->CountRestart(cause);
  }
}

void ClusterState::Settle(Transaction* transaction, const std::string& uid) const {
  // A job's longest way without an observation in between is STOPPING, PENDING, STARTING.
  for (int i = 0; i < 8 && AdvanceOnce(transaction, uid); ++i) {
  }
}

void ClusterState::SettleWaiting(Transaction* transaction) const {
  std::vector<std::string> waiting;
  for (const JobEntry* job : transaction->ActiveJobs()) {
    const v1::JobStatus& status = job->record.status;
    if (status.phase() == v1::JOB_PHASE_PENDING && !status.desired_allocation().empty()) {
      waiting.push_back(job->record.uid());
    }
  }
  for (const std::string& uid : waiting) Settle(transaction, uid);
}

bool ClusterState::AdvanceOnce(Transaction* transaction, const std::string& uid) const {
  const JobEntry* job = transaction->FindJob(uid);
  if (job == nullptr || IsTerminal(job->record.status.phase())) return false;
  std::vector<jobs::Replica> replicas;
  for (const auto& replica : job->replicas) {
    const NodeEntry* node = transaction->FindNode(replica->replica.node_id());
    replicas.push_back(ToReplica(*replica, node != nullptr && node->phase() == v1::NODE_PHASE_DRAINING));
  }
  const jobs::Job before = ToJob(job->record);
  const jobs::Outcome outcome =
      jobs::Advance(before, replicas, DesiredOf(*transaction, *job), transaction->now(), options_.policy);
  JobRecord record = job->record;
  StoreJob(outcome.job, &record);
  if (jobs::IsTerminal(outcome.job.phase)) record.status.clear_desired_allocation();
  // Nobody knows how long it waits, nor how fast it goes on.
  if (outcome.job.phase == jobs::Phase::kPending) record.status.clear_estimated_completion_time();
  if (!Equal(record, job->record)) {
    JobEntry* edited =
        OnlyWordsDiffer(record, job->record) ? transaction->EditJobInMemory(uid) : transaction->EditJob(uid);
    edited->record = std::move(record);
  }
  if (outcome.launch.has_value()) Launch(transaction, uid, *outcome.launch);
  for (const jobs::StopOrder& stop : outcome.stops) Stop(transaction, uid, stop);
  for (const jobs::Event& event : outcome.events) transaction->AddEvent(uid, event);
  if (outcome.job.phase == jobs::Phase::kStopping && before.phase != jobs::Phase::kStopping) {
    transaction->effects()->restarts.push_back(outcome.job.reason);
  }
  return !jobs::Settled(before, outcome);
}

jobs::Desired ClusterState::DesiredOf(const Transaction& transaction, const JobEntry& job) const {
  const v1::JobStatus& status = job.record.status;
  jobs::Desired desired;
  desired.nodes = {status.desired_allocation().begin(), status.desired_allocation().end()};
  desired.reason = status.allocation_reason();
  desired.unschedulable = job.record.unschedulable;
  for (const std::string& id : desired.nodes) {
    const NodeEntry* node = transaction.FindNode(id);
    if (node != nullptr && node->phase() == v1::NODE_PHASE_READY) continue;
    desired.nodes_ready = false;
    desired.obstacle = absl::StrCat("node ", id, " of its allocation is not ready");
    return desired;
  }
  // Only who is about to be launched needs to know.
  if (status.phase() == v1::JOB_PHASE_PENDING && !desired.nodes.empty()) {
    desired.obstacle = FindObstacle(transaction, job);
    desired.room = desired.obstacle.empty();
  }
  return desired;
}

std::string ClusterState::FindObstacle(const Transaction& transaction, const JobEntry& job) const {
  // Only the wanted nodes count, and replicas are counted before amounts are added: this runs for every job
  // that waits, over all replicas that there are.
  std::map<absl::string_view, Amounts> use;
  const Amounts need(job.record.job->spec().template_().resources());
  for (const std::string& id : job.record.status.desired_allocation()) use[id].Add(need);
  for (const JobEntry* other : transaction.ActiveJobs()) {
    if (other == &job) continue;
    std::map<absl::string_view, int> counts;
    for (const auto& replica : other->replicas) {
      if (!IsLive(replica->replica)) continue;
      const auto it = use.find(replica->replica.node_id());
      if (it != use.end()) ++counts[it->first];
    }
    if (counts.empty()) continue;
    const Amounts held(other->record.job->spec().template_().resources());
    for (const auto& [id, count] : counts) use[id].Add(held, count);
  }
  for (const auto& [id, amounts] : use) {
    const NodeEntry* node = transaction.FindNode(std::string(id));
    const std::string excess = amounts.Excess(Amounts(node->record.node.capacity()));
    if (!excess.empty()) return absl::StrCat("node ", id, " still runs other replicas (", excess, ")");
  }
  return "";
}

void ClusterState::Launch(Transaction* transaction, const std::string& uid,
                          const jobs::LaunchGroup& launch) const {
  JobEntry* job = transaction->EditJob(uid);
  for (const auto& replica : job->replicas)
    transaction->effects()->fenced.push_back(replica->replica.replica_id());
  job->record.tokens[launch.group] = parts_.random_hex(32);
  while (job->record.tokens.size() > kKeptTokens) job->record.tokens.erase(job->record.tokens.begin());
  job->replicas.clear();
  for (size_t rank = 0; rank < launch.nodes.size(); ++rank) {
    auto record = std::make_shared<ReplicaRecord>();
    record->job_uid = uid;
    v1::Replica* replica = &record->replica;
    replica->set_replica_id(
        absl::StrCat(job->record.job->name(), "-", uid.substr(0, 8), "-", launch.group, "-", rank));
    replica->set_group(launch.group);
    replica->set_rank(static_cast<int32_t>(rank));
    replica->set_node_id(launch.nodes[rank]);
    replica->set_state(v1::REPLICA_STATE_LAUNCHING);
    job->replicas.push_back(std::move(record));
  }
  for (size_t rank = 0; rank < launch.nodes.size(); ++rank) {
    transaction->effects()->launches.emplace_back(launch.nodes[rank],
                                                  LaunchCommand(*job, static_cast<int>(rank)));
  }
}

v1::LaunchReplica ClusterState::LaunchCommand(const JobEntry& job, int rank) {
  const v1::Replica& replica = job.replicas[rank]->replica;
  std::set<std::string> nodes;
  for (const auto& member : job.replicas) nodes.insert(member->replica.node_id());
  v1::LaunchReplica launch;
  launch.set_namespace_(job.record.job->namespace_());
  launch.set_job(job.record.job->name());
  launch.set_job_uid(job.record.uid());
  launch.set_replica_id(replica.replica_id());
  launch.set_group(replica.group());
  launch.set_rank(rank);
  launch.set_num_replicas(static_cast<int32_t>(job.replicas.size()));
  launch.set_num_nodes(static_cast<int32_t>(nodes.size()));
  launch.set_num_restarts(job.record.status.restarts());
  launch.set_token(job.record.tokens.at(replica.group()));
  *launch.mutable_template_() = job.record.job->spec().template_();
  return launch;
}

void ClusterState::Stop(Transaction* transaction, const std::string& uid, const jobs::StopOrder& stop) const {
  const JobEntry* job = transaction->FindJob(uid);
  for (size_t rank = 0; rank < job->replicas.size(); ++rank) {
    if (job->replicas[rank]->replica.replica_id() != stop.replica_id) continue;
    transaction->EditReplica(uid, static_cast<int>(rank))->stop_requested = true;
    SendStop(transaction, *job, stop.node, stop.replica_id, stop.reason);
    return;
  }
}

void ClusterState::SendStop(Transaction* transaction, const JobEntry& job, const std::string& node_id,
                            const std::string& replica_id, const std::string& reason) {
  v1::StopReplica stop;
  stop.set_replica_id(replica_id);
  stop.set_reason(reason);
  *stop.mutable_grace_period() = job.record.job->spec().template_().termination_grace_period();
  transaction->effects()->stops.emplace_back(node_id, std::move(stop));
  transaction->effects()->commands.push_back({replica_id, v1::REPLICA_COMMAND_STOP, reason});
}

void ClusterState::Step() {
  ExpireLeases();
  RetryDue();
  Flush();
  PruneRequests();
  UpdateGauges();
}

void ClusterState::RetryDue() {
  MutexLock lock(&mutex_);
  const absl::Time now = Now();
  Transaction transaction(tables_, now);
  for (const auto& [sequence, uid] : tables_.active) {
    const v1::JobStatus& status = tables_.jobs.at(uid)->record.status;
    const bool due = status.has_retry_time() && ToTime(status.retry_time()) <= now;
    // A job in STOPPING whose replicas have all ended moves with the last observation; after a restart of the
    // supervisor that one lies in the past.
    const bool stopping = status.phase() == v1::JOB_PHASE_STOPPING;
    if (due || stopping) Settle(&transaction, uid);
  }
  if (!transaction.empty()) Commit(&transaction).IgnoreError();
}

void ClusterState::PruneRequests() {
  MutexLock lock(&mutex_);
  const absl::Time now = Now();
  if (now < next_prune_) return;
  next_prune_ = now + absl::Minutes(10);
  const absl::Status status = parts_.store->PruneRequests(now - options_.request_lifetime);
  if (!status.ok()) log::Warning("old request ids could not be removed", {{"error", status.ToString()}});
}

void ClusterState::UpdateGauges() {
  Metrics* metrics = metrics_;
  if (metrics == nullptr) return;
  std::map<v1::JobPhase, int> jobs;
  std::map<v1::NodePhase, int> nodes;
  {
    MutexLock lock(&mutex_);
    const absl::Time now = Now();
    if (now < next_gauges_) return;
    next_gauges_ = now + absl::Seconds(1);
    for (const auto& [uid, job] : tables_.jobs) ++jobs[job->record.status.phase()];
    for (const auto& [id, node] : tables_.nodes) ++nodes[node->phase()];
  }
  std::map<std::string, int> jobs_by_name;
  std::map<std::string, int> nodes_by_name;
  for (int i = v1::JOB_PHASE_PENDING; i <= v1::JOB_PHASE_CANCELLED; ++i) {
    const auto phase = static_cast<v1::JobPhase>(i);
    jobs_by_name[v1::JobPhase_Name(phase)] = jobs[phase];
  }
  for (int i = v1::NODE_PHASE_READY; i <= v1::NODE_PHASE_LOST; ++i) {
    const auto phase = static_cast<v1::NodePhase>(i);
    nodes_by_name[v1::NodePhase_Name(phase)] = nodes[phase];
  }
  metrics->SetJobs(jobs_by_name);
  metrics->SetNodes(nodes_by_name);
}

}  // namespace adaptdl::supervisor
