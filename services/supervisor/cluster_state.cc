// The core of the state: reading the store, transactions, and the state machine. The other cluster_*.cc files
// hold what each service does with it.

#include "services/supervisor/cluster_state.h"

#include <algorithm>
#include <exception>
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
#include "libs/jobs/planning.h"
#include "libs/service/log.h"
#include "services/supervisor/convert.h"
#include "services/supervisor/rendezvous.h"

namespace adaptdl::supervisor {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr size_t kKeptTokens = 8;
constexpr int kSilentAfterPeriods = 3;
// How long a job is left alone of which the state machine has thrown, and how many such in one step.
constexpr absl::Duration kSetAside = absl::Minutes(1);
constexpr int kMostAttempts = 8;
// A busy machine may hold a healthy replica up for a while.
constexpr absl::Duration kShortestSilence = absl::Seconds(5);

bool Equal(const JobRecord& a, const JobRecord& b) {
  return a.retry_time == b.retry_time && a.running_since == b.running_since &&
         a.rescaling_since == b.rescaling_since && a.plans == b.plans && a.rescale_note == b.rescale_note &&
         a.newcomer_failures == b.newcomer_failures && a.faults == b.faults &&
         MessageDifferencer::Equals(a.status, b.status);
}

// Whether what a waiting job is told differs, and nothing else.
bool OnlyWordsDiffer(JobRecord a, const JobRecord& b) {
  if (b.status.phase() != v1::JOB_PHASE_PENDING) return false;
  a.status.set_message(b.status.message());
  return Equal(a, b);
}

absl::Duration AtLeastZero(const google::protobuf::Duration& duration) {
  return std::max(ToDuration(duration), absl::ZeroDuration());
}

void AddPulse(const ReplicaSessions::Pulse& pulse, jobs::Replica* replica) {
  replica->heard = pulse.heard;
  replica->waiting = AtLeastZero(pulse.activity.waiting());
  replica->idle = AtLeastZero(pulse.activity.idle());
  replica->patience = AtLeastZero(pulse.activity.patience());
  if (!pulse.activity.has_standing()) return;
  const v1::Standing& standing = pulse.activity.standing();
  replica->standing =
      jobs::Standing{standing.group(), standing.collective(), standing.step(),
                     standing.has_peer() ? standing.peer() : -1, AtLeastZero(standing.stalled())};
}

std::shared_ptr<const ReplicaRecord> LostNewcomer(const std::string& uid, const jobs::Entered& entered,
                                                  int rank) {
  auto record = std::make_shared<ReplicaRecord>();
  record->job_uid = uid;
  record->launch_group = entered.job.group;
  record->launch_rank = rank;
  record->loss = jobs::LossCause::kVanished;
  record->judged = true;
  record->replica.set_replica_id(entered.members[rank]);
  record->replica.set_node_id(entered.job.allocation[rank]);
  record->replica.set_state(v1::REPLICA_STATE_LOST);
  return record;
}

// The group that the replica is started for: the newest plan that it is in, or else the current one.
GroupSize SizeOfGroup(const JobEntry& job, const std::string& replica_id) {
  std::set<std::string> nodes;
  int replicas = 0;
  for (const auto& member : job.replicas) {
    if (member->replica.group() != job.record.status.group()) continue;
    nodes.insert(member->replica.node_id());
    ++replicas;
  }
  for (const jobs::Plan& plan : job.record.plans) {
    if (jobs::RankIn(plan, replica_id) < 0) continue;
    const std::vector<std::string> planned = jobs::NodesOf(plan.members);
    nodes = {planned.begin(), planned.end()};
    replicas = static_cast<int>(planned.size());
  }
  return {replicas, static_cast<int>(nodes.size())};
}

ClusterOptions WithSilence(ClusterOptions options) {
  options.policy.silence = std::max(kSilentAfterPeriods * options.replica_heartbeat_period, kShortestSilence);
  return options;
}

}  // namespace

ClusterState::ClusterState(const ClusterOptions& options, const ClusterParts& parts)
    : options_(WithSilence(options)), parts_(parts) {}

absl::StatusOr<std::unique_ptr<ClusterState>> ClusterState::Create(const ClusterOptions& options,
                                                                   const ClusterParts& parts) {
  const absl::StatusOr<StoreContents> contents = parts.store->Load();
  if (!contents.ok()) return contents.status();
  std::unique_ptr<ClusterState> state(new ClusterState(options, parts));
  MutexLock lock(&state->mutex_);
  state->Fill(*contents);
  if (const absl::Status status = state->TellOfDamage(*contents); !status.ok()) return status;
  return state;
}

absl::Status ClusterState::Verdict(const absl::Status& status) const {
  if (status.ok() || parts_.lease == nullptr || parts_.lease->Valid()) return status;
  return absl::UnavailableError(
      absl::StrCat("this supervisor may not lead any more; try again (", status.message(), ")"));
}

void ClusterState::PublishAll() {
  ReadIndex::Update update;
  update.version = tables_.version;
  for (const auto& [uid, job] : tables_.jobs) update.jobs.push_back(job);
  (void)tables_.use.TakeChanged();
  for (const auto& [id, node] : tables_.nodes) {
    const NodeUse::Use* use = tables_.use.Find(id);
    update.nodes.push_back({node, use == nullptr ? NodeUse::Use() : *use});
  }
  update.has_quotas = true;
  update.quotas = tables_.quotas;
  index_.Publish(std::move(update));
}

void ClusterState::Publish(const Changes& changes) {
  ReadIndex::Update update;
  update.version = tables_.version;
  for (const auto& [uid, change] : changes.jobs) update.jobs.push_back(tables_.jobs.at(uid));
  for (const auto& [uid, job] : changes.deleted) update.gone_jobs.push_back(uid);
  std::set<std::string> nodes = tables_.use.TakeChanged();
  nodes.insert(changes.nodes.begin(), changes.nodes.end());
  for (const std::string& id : nodes) {
    const auto node = tables_.nodes.find(id);
    if (node == tables_.nodes.end()) {
      update.gone_nodes.push_back(id);
    } else {
      const NodeUse::Use* use = tables_.use.Find(id);
      update.nodes.push_back({node->second, use == nullptr ? NodeUse::Use() : *use});
    }
  }
  update.has_quotas = changes.quotas;
  if (changes.quotas) update.quotas = tables_.quotas;
  index_.Publish(std::move(update));
}

absl::Status ClusterState::Commit(Transaction* transaction) {
  if (transaction->TakeRoomFreed()) {
    for (const std::string& uid : transaction->JobsWaitingForRoom()) Settle(transaction, uid);
  }
  const WriteBatch& batch = transaction->Finish();
  if (transaction->texts_mended() > 0) {
    invariants()->Broken("text", "a text that was to be stored is no UTF-8, or far too long; it was mended");
  }
  const absl::Time begin = SteadyNow();
  const absl::Status status = parts_.store->Commit(batch);
  if (Metrics* metrics = metrics_) metrics->ObserveCommit(SteadyNow() - begin, status.ok());
  if (!status.ok()) {
    log::Error("a change could not be stored", {{"error", status.ToString()}});
    return status;
  }
  Changes changes = transaction->Apply(&tables_);
  for (const v1::Event& event : batch.add_events) {
    log::Info(event.message(), {{"job", absl::StrCat(event.namespace_(), "/", event.job())},
                                {"event", event.reason()},
                                {"group", absl::StrCat(event.group())}});
  }
  for (const std::string& replica : transaction->effects()->fenced) entered_.erase(replica);
  if (!batch.empty()) parts_.durability->Committed();
  // Only now: whoever reads it waits until it is durable, as long as the store was told of before.
  Publish(changes);
  parts_.durability->WhenDurable(
      [this, effects = std::move(*transaction->effects()), changes = std::move(changes)] {
        CarryOut(effects);
        parts_.hub->Notify(changes);
      });
  return status;
}

absl::StatusOr<std::optional<RequestRecord>> ClusterState::FindAnswer(const RequestKey& key,
                                                                      absl::Time now) const {
  using Found = absl::StatusOr<std::optional<RequestRecord>>;
  const auto fresh = [&](const Found& found) {
    return found.ok() && found->has_value() && now - (*found)->time < options_.request_lifetime;
  };
  Found found = parts_.store->FindRequest(key.caller, key.name_space, key.request_id);
  if (!found.ok()) return found;
  if (fresh(found) && !(*found)->key.content.empty()) {
    const RequestKey& known = (*found)->key;
    if (known.method == key.method && known.content == key.content) return found;
    return absl::InvalidArgumentError(absl::StrCat("request_id: \"", key.request_id, "\" was used for ",
                                                   known.method == key.method ? "another content of " : "",
                                                   known.method, "; choose a new one for every call"));
  }
  // A call that an older version has answered.
  if (!fresh(found)) found = parts_.store->FindRequest("", "", key.request_id);
  if (!found.ok()) return found;
  const bool ours = fresh(found) && (*found)->key.content.empty() && (*found)->key.method == key.method;
  return ours ? found : std::optional<RequestRecord>();
}

void ClusterState::CarryOut(const Effects& effects) const {
  for (const std::string& replica : effects.fenced) {
    parts_.sessions->Forget(replica, absl::AbortedError("this replica's group is over; it must stop"));
  }
  for (const auto& [node, launch] : effects.launches) parts_.launcher->Launch(node, launch);
  for (const auto& [node, stop] : effects.stops) parts_.launcher->Stop(node, stop);
  for (const auto& command : effects.commands) {
    parts_.sessions->Command(command.replica_id, command.command, command.reason, command.plan);
  }
  for (const auto& [node, replica] : effects.acknowledgements) parts_.launcher->Acknowledge(node, replica);
  for (const auto& [node, files] : effects.deletions) parts_.launcher->DeleteJobFiles(node, files);
  if (Metrics* metrics = metrics_) {
    for (const std::string& cause : effects.restarts) metrics->CountRestart(cause);
    for (const auto& [phase, duration] : effects.rescale_phases) metrics->ObserveRescale(phase, duration);
  }
}

void ClusterState::Settle(Transaction* transaction, const std::string& uid) const {
  const auto aside = set_aside_.find(uid);
  if (aside != set_aside_.end() && transaction->now() < aside->second) return;
  try {
    // A job's longest way without an observation in between is STOPPING, PENDING, STARTING.
    for (int i = 0; i < 8 && AdvanceOnce(transaction, uid); ++i) {
    }
  } catch (const std::exception& error) {
    invariants()->Broken("state machine", absl::StrCat("job ", uid, ", left alone for ",
                                                       absl::FormatDuration(kSetAside), ": ", error.what()));
    set_aside_[uid] = transaction->now() + kSetAside;
    throw;  // Half a change is not to be stored.
  }
}

bool ClusterState::AdvanceOnce(Transaction* transaction, const std::string& uid) const {
  const JobEntry* job = transaction->FindJob(uid);
  if (job == nullptr || IsTerminal(job->record.status.phase())) return false;
  const jobs::Job before = ToJob(job->record);
  std::vector<jobs::Replica> replicas;
  const auto broken = broken_.find(uid);
  const bool watched = broken != broken_.end() || waiting_.count(uid) > 0;
  for (const auto& replica : job->replicas) {
    const NodeEntry* node = transaction->FindNode(replica->replica.node_id());
    replicas.push_back(ToReplica(*replica, node != nullptr && node->phase() == v1::NODE_PHASE_DRAINING));
    replicas.back().cause = jobs::WhoseFault(replicas.back().cause, before);
    if (watched) AddPulse(parts_.sessions->LastPulse(replica->replica.replica_id()), &replicas.back());
    if (broken == broken_.end()) continue;
    const auto report = broken->second.find(replica->replica.replica_id());
    if (report == broken->second.end()) continue;
    replicas.back().broken_group = report->second.group;
    replicas.back().broken_since = report->second.since;
  }
  const jobs::Outcome outcome =
      jobs::Advance(before, replicas, DesiredOf(*transaction, *job), transaction->now(), options_.policy);
  JobRecord record = job->record;
  StoreJob(outcome.job, transaction->moment(), &record);
  if (jobs::IsTerminal(outcome.job.phase)) record.status.clear_desired_allocation();
  // Nobody knows how long it waits, nor how fast it goes on.
  if (outcome.job.phase == jobs::Phase::kPending) record.status.clear_estimated_completion_time();
  if (!Equal(record, job->record)) {
    JobEntry* edited =
        OnlyWordsDiffer(record, job->record) ? transaction->EditJobInMemory(uid) : transaction->EditJob(uid);
    edited->record = std::move(record);
  }
  if (outcome.launch.has_value()) Launch(transaction, uid, *outcome.launch);
  if (!(outcome.job.plans == before.plans)) MintTokens(transaction->EditJob(uid));
  for (const jobs::LaunchNewcomer& launch : outcome.newcomers) LaunchNewcomer(transaction, uid, launch);
  for (const std::string& id : outcome.judged) {
    const int index = FindMember(transaction->FindJob(uid)->replicas, id);
    if (index >= 0) transaction->EditReplica(uid, index)->judged = true;
  }
  if (outcome.apart.has_value()) KeepApart(transaction, *outcome.apart);
  if (outcome.offer) Offer(transaction, uid);
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
  for (const auto& [pair, apart] : apart_) {
    const bool both = !apart.over && std::count(desired.nodes.begin(), desired.nodes.end(), pair.first) > 0 &&
                      std::count(desired.nodes.begin(), desired.nodes.end(), pair.second) > 0;
    if (!both) continue;
    desired.nodes_ready = false;
    desired.obstacle = absl::StrCat("nodes ", pair.first, " and ", pair.second,
                                    " of its allocation did not reach each other lately");
    return desired;
  }
  // Only who is about to be launched needs to know.
  if (status.phase() == v1::JOB_PHASE_PENDING && !desired.nodes.empty()) {
    desired.obstacle = FindObstacle(transaction, job);
    desired.room = desired.obstacle.empty();
  }
  // A job that changes over may need newcomers for the nodes that it has: who was told to leave them leaves.
  const auto& now = status.allocation();
  const bool grows =
      status.phase() == v1::JOB_PHASE_RUNNING && !jobs::SameNodes(desired.nodes, {now.begin(), now.end()});
  if (grows || status.phase() == v1::JOB_PHASE_RESCALING) {
    desired.free = FreeSlots(transaction, job);
  }
  return desired;
}

std::map<std::string, int> ClusterState::FreeSlots(const Transaction& transaction,
                                                   const JobEntry& job) const {
  const Amounts need(job.record.job->spec().template_().resources());
  std::map<std::string, int> free;
  for (const std::string& id : job.record.status.desired_allocation()) {
    if (free.count(id) > 0) continue;
    Amounts held = transaction.UseOf(id).held;
    const Amounts capacity(transaction.FindNode(id)->record.node.capacity());
    int& count = free[id];
    for (held.Add(need); count < job.record.status.desired_allocation_size() && held.Excess(capacity).empty();
         held.Add(need)) {
      ++count;
    }
  }
  return free;
}

std::string ClusterState::FindObstacle(const Transaction& transaction, const JobEntry& job) const {
  const JobShare share = ShareOf(job);
  for (const auto& [id, count] : share.wanted) {
    Amounts use = transaction.UseOf(id).held;
    const auto own = share.live.find(id);
    use.Add(share.need, count - (own == share.live.end() ? 0 : own->second));
    const std::string excess = use.Excess(Amounts(transaction.FindNode(id)->record.node.capacity()));
    if (!excess.empty()) return absl::StrCat("node ", id, " still runs other replicas (", excess, ")");
  }
  const std::string& first = job.record.status.desired_allocation(0);
  if (!http_url_.empty() && ChoosePort(transaction, first) == 0) {
    return absl::StrCat("node ", first, " has offered no free port for rank 0 yet");
  }
  return "";
}

void ClusterState::Launch(Transaction* transaction, const std::string& uid,
                          const jobs::LaunchGroup& launch) const {
  JobEntry* job = transaction->EditJob(uid);
  for (const auto& replica : job->replicas)
    transaction->effects()->fenced.push_back(replica->replica.replica_id());
  MintTokens(job);
  job->replicas.clear();
  for (size_t rank = 0; rank < launch.nodes.size(); ++rank) {
    auto record = std::make_shared<ReplicaRecord>();
    record->job_uid = uid;
    record->launch_group = launch.group;
    record->launch_rank = static_cast<int>(rank);
    v1::Replica* replica = &record->replica;
    replica->set_replica_id(
        absl::StrCat(job->record.job->name(), "-", uid.substr(0, 8), "-", launch.group, "-", rank));
    replica->set_group(launch.group);
    replica->set_rank(static_cast<int32_t>(rank));
    replica->set_node_id(launch.nodes[rank]);
    replica->set_state(v1::REPLICA_STATE_LAUNCHING);
    if (rank == 0 && !http_url_.empty()) record->master_port = ChoosePort(*transaction, launch.nodes[0]);
    job->replicas.push_back(std::move(record));
  }
  if (launch.nodes.empty()) return;
  const GroupSize size = SizeOfGroup(*job, job->replicas[0]->replica.replica_id());
  for (size_t rank = 0; rank < launch.nodes.size(); ++rank) {
    transaction->effects()->launches.emplace_back(launch.nodes[rank],
                                                  LaunchCommand(*job, static_cast<int>(rank), size));
  }
}

void ClusterState::LaunchNewcomer(Transaction* transaction, const std::string& uid,
                                  const jobs::LaunchNewcomer& launch) const {
  JobEntry* job = transaction->EditJob(uid);
  auto record = std::make_shared<ReplicaRecord>();
  record->job_uid = uid;
  record->launch_group = launch.group;
  record->launch_rank = launch.rank;
  record->replica.set_replica_id(launch.replica_id);
  record->replica.set_group(launch.group);
  record->replica.set_rank(static_cast<int32_t>(launch.rank));
  record->replica.set_node_id(launch.node);
  record->replica.set_state(v1::REPLICA_STATE_LAUNCHING);
  job->replicas.push_back(std::move(record));
  transaction->effects()->launches.emplace_back(
      launch.node, LaunchCommand(*job, static_cast<int>(job->replicas.size()) - 1));
}

// Gives the job's group and its plans their secrets, and forgets old ones that nobody can hold any more.
void ClusterState::MintTokens(JobEntry* job) const {
  std::map<int64_t, std::string>& tokens = job->record.tokens;
  const auto mint = [&](int64_t group) {
    std::string& token = tokens[group];
    if (token.empty()) token = parts_.random_hex(32);
  };
  mint(job->record.status.group());
  for (const jobs::Plan& plan : job->record.plans) mint(plan.group);
  int64_t oldest = job->record.status.group();
  for (const auto& replica : job->replicas) {
    if (IsLive(replica->replica)) oldest = std::min(oldest, replica->launch_group);
  }
  while (tokens.size() > kKeptTokens && tokens.begin()->first < oldest) tokens.erase(tokens.begin());
}

void ClusterState::Offer(Transaction* transaction, const std::string& uid) const {
  const JobEntry& job = *transaction->FindJob(uid);
  const jobs::Plan& plan = job.record.plans.back();
  for (const auto& replica : job.replicas) {
    const bool member = replica->replica.group() == job.record.status.group();
    if (!member || !IsLive(replica->replica) || replica->stop_requested) continue;
    const std::string& id = replica->replica.replica_id();
    transaction->effects()->commands.push_back(
        {id, v1::REPLICA_COMMAND_RESCALE, job.record.status.message(), DescribePlan(job, id)});
  }
  if (plan.ready_after > absl::ZeroDuration()) {
    transaction->effects()->rescale_phases.emplace_back("ready", plan.ready_after);
  }
}

v1::GroupPlan ClusterState::DescribePlan(const JobEntry& job, const std::string& replica_id) const {
  GroupMembers members = MembersOf(job.replicas, job.record.status.group());
  int64_t group = job.record.status.group();
  v1::GroupPlan result;
  for (const jobs::Plan& plan : job.record.plans) {
    if (!plan.offered) continue;
    group = plan.group;
    members = MembersOf(job.replicas, plan);
    result.set_broken(plan.broken);
  }
  FillFormed(job, members, group, replica_id, result.mutable_formed());
  return result;
}

// Gives the members their new groups and ranks, and forgets those that have ended.
void ClusterState::Enter(Transaction* transaction, const std::string& uid,
                         const jobs::Entered& entered) const {
  JobEntry* job = transaction->EditJob(uid);
  StoreJob(entered.job, transaction->moment(), &job->record);
  GroupMembers replicas;
  for (size_t rank = 0; rank < entered.members.size(); ++rank) {
    int index = FindMember(job->replicas, entered.members[rank]);
    if (index < 0) {
      // It ended as a newcomer, and the replicas have tried to go on with it nevertheless.
      index = static_cast<int>(job->replicas.size());
      job->replicas.push_back(LostNewcomer(uid, entered, static_cast<int>(rank)));
    }
    v1::Replica* replica = &transaction->EditReplica(uid, index)->replica;
    replica->set_group(entered.job.group);
    replica->set_rank(static_cast<int32_t>(rank));
    replicas.push_back(job->replicas[index]);
  }
  for (const auto& other : job->replicas) {
    const std::string& id = other->replica.replica_id();
    if (!IsLive(other->replica) || FindMember(replicas, id) >= 0) continue;
    replicas.push_back(other);
    if (other->replica.group() < entered.job.group) transaction->effects()->fenced.push_back(id);
  }
  job->replicas = std::move(replicas);
  for (const jobs::Event& event : entered.events) transaction->AddEvent(uid, event);
}

int ClusterState::ChoosePort(const Transaction& transaction, const std::string& node_id) const {
  const auto offered = free_ports_.find(node_id);
  if (offered == free_ports_.end()) return 0;
  std::set<int> used;
  for (const JobEntry* job : transaction.ActiveJobs()) {
    for (const auto& replica : job->replicas) {
      if (replica->master_port > 0 && IsLive(replica->replica) && replica->replica.node_id() == node_id) {
        used.insert(replica->master_port);
      }
    }
  }
  for (const int port : offered->second) {
    if (used.count(port) == 0) return port;
  }
  return 0;
}

v1::LaunchReplica ClusterState::LaunchCommand(const JobEntry& job, int index) const {
  return LaunchCommand(job, index, SizeOfGroup(job, job.replicas[index]->replica.replica_id()));
}

v1::LaunchReplica ClusterState::LaunchCommand(const JobEntry& job, int index, const GroupSize& size) const {
  const ReplicaRecord& record = *job.replicas[index];
  const v1::Replica& replica = record.replica;
  v1::LaunchReplica launch;
  launch.set_namespace_(job.record.job->namespace_());
  launch.set_job(job.record.job->name());
  launch.set_job_uid(job.record.uid());
  launch.set_replica_id(replica.replica_id());
  launch.set_group(record.launch_group);
  launch.set_rank(record.launch_rank);
  launch.set_num_replicas(size.replicas);
  launch.set_num_nodes(size.nodes);
  launch.set_num_restarts(job.record.status.restarts());
  launch.set_token(job.record.tokens.at(record.launch_group));
  *launch.mutable_template_() = job.record.job->spec().template_();
  // Newcomers are told by those who train where to go.
  const bool member = record.launch_group == job.record.status.group();
  if (member && !http_url_.empty()) {
    launch.mutable_adaptdl_http()->set_supervisor_url(
        absl::StrCat(http_url_, "/", UrlSecret(launch.token()), "/", launch.rank()));
    launch.mutable_adaptdl_http()->set_master_port(job.replicas[0]->master_port);
  }
  return launch;
}

void ClusterState::Stop(Transaction* transaction, const std::string& uid, const jobs::StopOrder& stop) const {
  const JobEntry* job = transaction->FindJob(uid);
  const int index = FindMember(job->replicas, stop.replica_id);
  if (index < 0) return;
  transaction->EditReplica(uid, index)->stop_requested = true;
  SendStop(transaction, *job, stop.node, stop.replica_id, stop.reason, stop.at_once);
}

void ClusterState::SendStop(Transaction* transaction, const JobEntry& job, const std::string& node_id,
                            const std::string& replica_id, const std::string& reason, bool at_once) {
  v1::StopReplica stop;
  stop.set_replica_id(replica_id);
  stop.set_reason(reason);
  *stop.mutable_grace_period() =
      at_once ? google::protobuf::Duration() : job.record.job->spec().template_().termination_grace_period();
  transaction->effects()->stops.emplace_back(node_id, std::move(stop));
  transaction->effects()->commands.push_back({replica_id, v1::REPLICA_COMMAND_STOP, reason});
}

void ClusterState::Step() {
  const auto guarded = [this](void (ClusterState::*part)()) {
    const auto body = [&] {
      (this->*part)();
      return absl::OkStatus();
    };
    return invariants()->Guard("step", body).ok();
  };
  guarded(&ClusterState::ExpireLeases);
  guarded(&ClusterState::EndQuarantines);
  guarded(&ClusterState::ForgetApart);
  // A job that broke it is set aside, and left out of the next attempt.
  for (int i = 0; i < kMostAttempts && !guarded(&ClusterState::RetryDue); ++i) {
  }
  guarded(&ClusterState::Flush);
  guarded(&ClusterState::TellHeldReports);
  guarded(&ClusterState::PruneRequests);
  guarded(&ClusterState::Expire);
  guarded(&ClusterState::TellDeletionsAgain);
  guarded(&ClusterState::UpdateGauges);
}

void ClusterState::RetryDue() {
  MutexLock lock(&mutex_);
  const Moment now = Now();
  Transaction transaction(tables_, now);
  for (auto it = broken_.begin(); it != broken_.end();) {
    const auto job = tables_.jobs.find(it->first);
    const bool over = job == tables_.jobs.end() || IsTerminal(job->second->record.status.phase());
    it = over ? broken_.erase(it) : std::next(it);
  }
  waiting_ = parts_.sessions->TakeWaiting();
  if (std::exchange(ports_offered_, false)) transaction.FreeRoom();
  if (transaction.TakeRoomFreed()) {
    for (const std::string& uid : transaction.JobsWaitingForRoom()) Settle(&transaction, uid);
  }
  for (const auto& [sequence, uid] : tables_.active) {
    const v1::JobStatus& status = tables_.jobs.at(uid)->record.status;
    const absl::Time retry_time = tables_.jobs.at(uid)->record.retry_time;
    const bool due = retry_time != absl::InfinitePast() && retry_time <= now;
    // A job in STOPPING whose replicas have all ended moves with the last observation; after a restart of the
    // supervisor that one lies in the past.
    const bool stopping = status.phase() == v1::JOB_PHASE_STOPPING;
    // It may have waited long enough for room, or for members to say that their group is broken.
    const bool changing = status.phase() == v1::JOB_PHASE_RESCALING || broken_.count(uid) > 0;
    const absl::Time starting_since = tables_.jobs.at(uid)->record.starting_since;
    const bool late =
        status.phase() == v1::JOB_PHASE_STARTING && starting_since + options_.policy.start_deadline <= now;
    if (due || stopping || changing || late || waiting_.count(uid) > 0 || set_aside_.count(uid) > 0) {
      Settle(&transaction, uid);
    }
  }
  if (!transaction.empty()) Commit(&transaction).IgnoreError();
  std::erase_if(set_aside_, [&](const auto& job) { return job.second <= now; });
}

void ClusterState::UpdateGauges() {
  Metrics* metrics = metrics_;
  if (metrics == nullptr) return;
  metrics->SetLeaderTerm(term());
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
  for (int i = v1::JOB_PHASE_PENDING; i <= v1::JOB_PHASE_RESCALING; ++i) {
    const auto phase = static_cast<v1::JobPhase>(i);
    jobs_by_name[v1::JobPhase_Name(phase)] = jobs[phase];
  }
  for (int i = v1::NODE_PHASE_READY; i <= v1::NODE_PHASE_QUARANTINED; ++i) {
    const auto phase = static_cast<v1::NodePhase>(i);
    nodes_by_name[v1::NodePhase_Name(phase)] = nodes[phase];
  }
  metrics->SetJobs(jobs_by_name);
  metrics->SetNodes(nodes_by_name);
}

}  // namespace adaptdl::supervisor
