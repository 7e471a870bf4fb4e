// Nodes: their registration, their leases, and what they say of their replicas.

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/utf8.h"
#include "libs/jobs/node_health.h"
#include "libs/jobs/verdict.h"
#include "libs/rpc/retry_info.h"
#include "libs/service/log.h"
#include "services/supervisor/cluster_state.h"
#include "services/supervisor/convert.h"
#include "services/supervisor/rendezvous.h"
#include "services/supervisor/validation.h"

namespace adaptdl::supervisor {
namespace {

constexpr int kLostAfterPeriods = 3;
constexpr size_t kMaxMessage = 1000;
// The newest version of the protocol that this supervisor speaks, and the oldest.
constexpr int kNewestProtocol = 2;
constexpr int kOldestProtocol = 1;
constexpr size_t kMaxFreePorts = 1024;
constexpr size_t kMostPairsApart = 8;

absl::Status NoSuchNode(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("node \"", id, "\" does not exist; list the nodes there are"));
}

// A new registration makes the node ready, with one exception: an administrator's drain goes on until the
// node is lost or removed, whatever its worker does meanwhile.
//
// Nor does a node leave its quarantine by registering again, which its worker does whenever it has lost us.
void SetPhaseAtRegistration(const NodeEntry* before, absl::Time now, v1::NodeStatus* status) {
  if (before != nullptr && before->phase() != v1::NODE_PHASE_DRAINING && before->quarantine_end > now) {
    status->set_phase(v1::NODE_PHASE_QUARANTINED);
    *status->mutable_quarantine_end_time() = before->record.node.status().quarantine_end_time();
    status->set_message(before->record.node.status().message());
    return;
  }
  const bool drained = before != nullptr && before->phase() == v1::NODE_PHASE_DRAINING &&
                       !before->record.node.status().has_preemption_time();
  status->set_phase(drained ? v1::NODE_PHASE_DRAINING : v1::NODE_PHASE_READY);
  if (drained) status->set_message(before->record.node.status().message());
}

// The node goes away. Returns why.
std::string NoteLeaving(const v1::PreemptionNotice& notice, absl::Time now, v1::NodeStatus* status) {
  const std::string reason = notice.reason().empty() ? "preempted" : ToUtf8(notice.reason(), kMaxMessage);
  status->clear_quarantine_end_time();
  status->set_phase(v1::NODE_PHASE_DRAINING);
  status->set_message(absl::StrCat("goes away: ", reason));
  *status->mutable_preemption_time() = notice.has_deadline() ? notice.deadline() : ToProto(now);
  return reason;
}

void StopUnknown(Transaction* transaction, const std::string& node_id, const std::string& replica_id) {
  v1::StopReplica stop;
  stop.set_replica_id(replica_id);
  stop.set_reason("this replica belongs to no current group");
  transaction->effects()->stops.emplace_back(node_id, std::move(stop));
}

// Whether the job's group starts and has members that do not run yet: until they do, nothing follows from
// those that do.
bool AwaitsMembers(const JobEntry& job) {
  if (job.record.status.phase() != v1::JOB_PHASE_STARTING) return false;
  return std::any_of(job.replicas.begin(), job.replicas.end(), [&](const auto& replica) {
    return replica->replica.group() == job.record.status.group() &&
           replica->replica.state() == v1::REPLICA_STATE_LAUNCHING;
  });
}

// Jobs with a replica that may be on the node, and the indices of these.
std::map<std::string, std::vector<int>> LiveOn(const Transaction& transaction, const std::string& node_id) {
  std::map<std::string, std::vector<int>> jobs;
  for (const JobEntry* job : transaction.ActiveJobs()) {
    for (size_t rank = 0; rank < job->replicas.size(); ++rank) {
      const v1::Replica& replica = job->replicas[rank]->replica;
      if (replica.node_id() == node_id && IsLive(replica))
        jobs[job->record.uid()].push_back(static_cast<int>(rank));
    }
  }
  return jobs;
}

// The node as people see it.
v1::Node Describe(const NodeEntry& entry, const NodeUse::Use& use, const Moment& now) {
  v1::Node node = entry.record.node;
  *node.mutable_status()->mutable_last_heartbeat() = ToProto(now.ToWall(entry.lease->heard()));
  if (use.replicas > 0) {
    node.mutable_status()->set_replicas(static_cast<int32_t>(use.replicas));
    *node.mutable_status()->mutable_allocated() = use.held.ToProto();
  }
  return node;
}

}  // namespace

absl::StatusOr<v1::RegisterNodeResponse> ClusterState::RegisterNode(const v1::RegisterNodeRequest& request,
                                                                    const std::string& caller) {
  absl::Status status = ValidateRequestId(request.request_id());
  status.Update(ValidateNode(request.node()));
  if (!status.ok()) return status;
  const std::string& id = request.node().node_id();
  {
    // A sign of life, also if it can't be stored now: the disk may be full.
    MutexLock lock(&mutex_);
    const absl::Time now = Now();
    const auto known = tables_.nodes.find(id);
    if (known != tables_.nodes.end()) known->second->lease->Renew(now);
    if (!registrations_.Take(id, now)) {
      return rpc::WithRetryDelay(
          absl::ResourceExhaustedError(
              absl::StrCat("node.node_id: \"", id, "\" registers too often; wait before the next time")),
          registrations_.Wait(id, now));
    }
  }
  const int protocol = std::clamp(request.protocol_version(), kOldestProtocol, kNewestProtocol);
  const auto change = [&](Transaction* transaction)
                          ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<v1::RegisterNodeResponse> {
    const NodeEntry* before = transaction->FindNode(id);
    last_session_ = std::max(last_session_ + 1, absl::ToUnixMicros(transaction->wall()));
    NodeEntry entry;
    entry.record.node = request.node();
    entry.record.session_id = last_session_;
    entry.lease = std::make_shared<Lease>(transaction->now(), protocol);
    v1::NodeStatus* node_status = entry.record.node.mutable_status();
    node_status->Clear();
    SetPhaseAtRegistration(before, transaction->now(), node_status);
    if (request.has_preemption_notice())
      NoteLeaving(request.preemption_notice(), transaction->wall(), node_status);
    if (before != nullptr) {
      entry.quarantine_end = before->quarantine_end;
      *node_status->mutable_unreachable_nodes() = before->record.node.status().unreachable_nodes();
    }
    *node_status->mutable_register_time() =
        before != nullptr ? before->record.node.status().register_time() : ToProto(transaction->wall());
    transaction->AddNode(std::move(entry));
    transaction->FreeRoom();
    v1::RegisterNodeResponse response;
    response.set_session_id(last_session_);
    *response.mutable_heartbeat_period() = ToProto(options_.heartbeat_period);
    return response;
  };
  absl::StatusOr<v1::RegisterNodeResponse> response =
      Once<v1::RegisterNodeResponse>(KeyOf(caller, "", request), change);
  if (response.ok()) {
    response->set_term(term());
    response->set_protocol_version(protocol);
    parts_.launcher->EndSession(id, response->session_id(),
                                absl::AbortedError(absl::StrCat("node \"", id, "\" has registered again")));
    log::Info("node registered", {{"node", id}, {"worker", request.node().worker_address()}});
  }
  return response;
}

absl::StatusOr<std::shared_ptr<Lease>> ClusterState::FindSession(const std::string& node_id,
                                                                 int64_t session_id) const {
  MutexLock lock(&mutex_);
  const auto it = tables_.nodes.find(node_id);
  if (it == tables_.nodes.end()) {
    return absl::AbortedError(absl::StrCat("node \"", node_id, "\" is not known; register it again"));
  }
  if (it->second->record.session_id != session_id) {
    return absl::AbortedError(
        absl::StrCat("session ", session_id, " of node \"", node_id, "\" was superseded; register again"));
  }
  if (it->second->phase() == v1::NODE_PHASE_LOST) {
    return absl::AbortedError(absl::StrCat("node \"", node_id, "\" was lost meanwhile; register again"));
  }
  return it->second->lease;
}

absl::Status ClusterState::ReconcileNode(const v1::NodeHello& hello) {
  const std::string& id = hello.node_id();
  const absl::StatusOr<std::shared_ptr<Lease>> lease = FindSession(id, hello.session_id());
  if (!lease.ok()) return lease.status();
  (*lease)->Renew(Now());
  (*lease)->set_confirms_deletions(hello.confirms_deletions());
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  SetFreePorts(id, hello.free_ports());
  if (!http_url_.empty()) transaction.FreeRoom();
  std::set<std::string> reported;
  for (const v1::ReplicaReport& report : hello.replicas()) {
    reported.insert(report.replica().replica_id());
    Observe(&transaction, id, report);
  }
  for (const auto& [uid, ranks] : LiveOn(transaction, id)) {
    for (const int rank : ranks) {
      const JobEntry* job = transaction.FindJob(uid);
      const ReplicaRecord record = *job->replicas[rank];
      const std::string& replica = record.replica.replica_id();
      if (reported.count(replica) > 0) {
        // What we said when the node was away did not arrive.
        if (record.stop_requested) SendStop(&transaction, *job, id, replica, job->record.status.message());
      } else if (record.replica.state() == v1::REPLICA_STATE_LAUNCHING && !record.stop_requested) {
        transaction.effects()->launches.emplace_back(id, LaunchCommand(*job, rank));
      } else {
        LoseReplica(&transaction, uid, rank, jobs::LossCause::kVanished,
                    "its node does not know it any more");
      }
    }
    Settle(&transaction, uid);
  }
  TellDeletions(&transaction, id);
  return Commit(&transaction);
}

absl::Status ClusterState::OfferPorts(const std::string& node_id, const v1::FreePorts& free) {
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  SetFreePorts(node_id, free.ports());
  // Jobs may wait for one; those of a node that offers ports all the time wait for the next step.
  if (http_url_.empty()) return absl::OkStatus();
  if (reports_.Take(node_id, transaction.now())) {
    transaction.FreeRoom();
  } else {
    ports_offered_ = true;
  }
  return Commit(&transaction);
}

void ClusterState::SetFreePorts(const std::string& node_id,
                                const google::protobuf::RepeatedField<int32_t>& ports) {
  if (tables_.nodes.count(node_id) == 0) return;
  std::vector<int>& known = free_ports_[node_id];
  known.clear();
  for (const int port : ports) {
    if (port > 0 && port < 65536 && known.size() < kMaxFreePorts) known.push_back(port);
  }
}

absl::Status ClusterState::ObserveReplica(const std::string& node_id, const v1::ReplicaReport& report) {
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  Observe(&transaction, node_id, report);
  return Commit(&transaction);
}

void ClusterState::Observe(Transaction* transaction, const std::string& node_id,
                           const v1::ReplicaReport& report) {
  const v1::Replica& seen = report.replica();
  const std::string& uid = report.job_uid();
  const JobEntry* job = transaction->FindJob(uid);
  const int rank = job == nullptr ? -1 : FindMember(job->replicas, seen.replica_id());
  const bool ours =
      rank >= 0 && job->replicas[rank]->replica.node_id() == node_id && IsLive(job->replicas[rank]->replica);
  const bool over = ours && IsTerminal(job->record.status.phase());
  if (!ours || (over && IsLive(seen))) {
    if (IsLive(seen)) {
      StopUnknown(transaction, node_id, seen.replica_id());
    } else {
      transaction->effects()->acknowledgements.emplace_back(node_id, seen.replica_id());
    }
    return;
  }
  const ReplicaRecord known = *job->replicas[rank];
  if (IsLive(seen)) {
    if (seen.state() == known.replica.state() || seen.state() == v1::REPLICA_STATE_LAUNCHING) return;
    v1::Replica* replica = &transaction->EditReplica(uid, rank)->replica;
    replica->set_state(v1::REPLICA_STATE_RUNNING);
    *replica->mutable_start_time() = seen.has_start_time() ? seen.start_time() : ToProto(transaction->wall());
    if (!AwaitsMembers(*transaction->FindJob(uid))) Settle(transaction, uid);
    return;
  }
  // Whoever sees the job end also sees how far it came.
  if (const auto progress = parts_.sessions->LatestProgress(uid)) StoreProgress(transaction, uid, *progress);
  const NodeEntry* node = transaction->FindNode(node_id);
  const bool leaving = node != nullptr && node->phase() == v1::NODE_PHASE_DRAINING;
  const std::string message = ToUtf8(seen.message(), kMaxMessage);
  if (seen.state() == v1::REPLICA_STATE_LOST) {
    const bool never_ran = known.replica.state() == v1::REPLICA_STATE_LAUNCHING && !known.stop_requested;
    LoseReplica(transaction, uid, rank, never_ran ? jobs::LossCause::kNotStarted : jobs::LossCause::kVanished,
                message);
    ReplicaRecord* record = transaction->EditReplica(uid, rank);
    record->node_leaving = leaving;
    record->replica.set_end_cause(seen.end_cause());
    JudgeNode(transaction, uid, *transaction->FindJob(uid)->replicas[rank]);
  } else {
    ReplicaRecord* record = transaction->EditReplica(uid, rank);
    record->node_leaving = leaving;
    record->replica.set_state(v1::REPLICA_STATE_EXITED);
    record->replica.set_end_cause(seen.end_cause());
    record->replica.set_exit_code(seen.exit_code());
    record->replica.set_signal(seen.signal());
    record->replica.set_message(message);
    if (seen.has_start_time()) *record->replica.mutable_start_time() = seen.start_time();
    *record->replica.mutable_end_time() =
        seen.has_end_time() ? seen.end_time() : ToProto(transaction->wall());
    transaction->effects()->fenced.push_back(seen.replica_id());
    transaction->FreeRoom();
    JudgeNode(transaction, uid, *record);
  }
  transaction->effects()->acknowledgements.emplace_back(node_id, seen.replica_id());
  Settle(transaction, uid);
}

void ClusterState::LoseReplica(Transaction* transaction, const std::string& uid, int rank,
                               jobs::LossCause cause, const std::string& message) {
  ReplicaRecord* record = transaction->EditReplica(uid, rank);
  record->loss = cause;
  record->replica.set_state(v1::REPLICA_STATE_LOST);
  record->replica.set_message(message);
  *record->replica.mutable_end_time() = ToProto(transaction->wall());
  transaction->effects()->fenced.push_back(record->replica.replica_id());
  transaction->FreeRoom();
}

absl::Status ClusterState::NoticePreemption(const std::string& node_id, const v1::PreemptionNotice& notice) {
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  const NodeEntry* before = transaction.FindNode(node_id);
  if (before == nullptr) return NoSuchNode(node_id);
  if (before->phase() == v1::NODE_PHASE_DRAINING && before->record.node.status().has_preemption_time()) {
    return absl::OkStatus();  // It has said so before.
  }
  const std::string reason =
      NoteLeaving(notice, transaction.wall(), transaction.EditNode(node_id)->record.node.mutable_status());
  for (const auto& [uid, ranks] : LiveOn(transaction, node_id)) {
    Report(&transaction, uid,
           {true, "NodeLeaving", absl::StrCat("node ", node_id, " goes away: ", reason), node_id, ""});
    // What the allocator decides may come too late: have a checkpoint at once.
    for (const auto& replica : transaction.FindJob(uid)->replicas) {
      if (replica->stop_requested || !IsLive(replica->replica)) continue;
      transaction.effects()->commands.push_back({replica->replica.replica_id(),
                                                 v1::REPLICA_COMMAND_CHECKPOINT,
                                                 absl::StrCat("node ", node_id, " goes away")});
    }
  }
  return Commit(&transaction);
}

bool ClusterState::OthersReady(const Transaction& transaction, const std::string& id) const {
  for (const auto& [other, entry] : tables_.nodes) {
    const NodeEntry* node = other == id ? nullptr : transaction.FindNode(other);
    if (node != nullptr && node->phase() == v1::NODE_PHASE_READY) return true;
  }
  return false;
}

void ClusterState::JudgeNode(Transaction* transaction, const std::string& uid, const ReplicaRecord& replica) {
  const jobs::QuarantinePolicy& policy = options_.quarantine;
  const jobs::Sign sign = policy.jobs > 0 ? jobs::SignOf(ToReplica(replica, false)) : jobs::Sign::kNone;
  if (sign == jobs::Sign::kNone) return;
  const std::string id = replica.replica.node_id();
  const absl::Time now = transaction->now();
  jobs::NodeHealth& health = health_[id];
  if (sign == jobs::Sign::kGood) {
    health.Succeeded();
    return;
  }
  health.Failed(uid, now);
  std::vector<std::string> failed = health.FailedJobs(now, policy);
  // A job that fails wherever it runs says nothing of any node.
  std::erase_if(failed, [&](const std::string& job) {
    return std::any_of(health_.begin(), health_.end(), [&](const auto& other) {
      return other.first != id && other.second.HasFailed(job, now, policy);
    });
  });
  const NodeEntry* node = transaction->FindNode(id);
  // Nodes are judged by comparison: without another one to run on, all would stand still.
  if (static_cast<int>(failed.size()) < policy.jobs || node == nullptr ||
      node->phase() != v1::NODE_PHASE_READY || !OthersReady(*transaction, id)) {
    return;
  }
  const absl::Time end = now + health.Quarantine(policy);
  const absl::Time wall_end = transaction->moment().ToWall(end);
  const std::string message = absl::StrCat(
      "replicas of ", failed.size(), " jobs failed here within ", absl::FormatDuration(policy.window),
      " and none succeeded, the last one: ", jobs::DescribeEnd(ToReplica(replica, false)),
      "; it is tried again at ", absl::FormatTime("%H:%M:%S", wall_end, absl::UTCTimeZone()), " UTC");
  NodeEntry* edited = transaction->EditNode(id);
  edited->quarantine_end = end;
  v1::NodeStatus* status = edited->record.node.mutable_status();
  status->set_phase(v1::NODE_PHASE_QUARANTINED);
  status->set_message(ToUtf8(message, kMaxMessage));
  *status->mutable_quarantine_end_time() = ToProto(wall_end);
  for (const std::string& job : failed) {
    if (transaction->FindJob(job) == nullptr) continue;
    transaction->AddEvent(job, {true, "NodeQuarantined", absl::StrCat("node ", id, ": ", message), id, ""});
  }
  if (Metrics* metrics = metrics_) metrics->CountQuarantine();
  log::Warning("node quarantined", {{"node", id}, {"reason", message}});
}

void ClusterState::EndQuarantines() {
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  for (const auto& [id, entry] : tables_.nodes) {
    if (entry->phase() != v1::NODE_PHASE_QUARANTINED || entry->quarantine_end > transaction.now()) {
      continue;
    }
    v1::NodeStatus* status = transaction.EditNode(id)->record.node.mutable_status();
    status->set_phase(v1::NODE_PHASE_READY);
    status->clear_message();
    status->clear_quarantine_end_time();
    transaction.FreeRoom();
    log::Info("node is tried again after its quarantine", {{"node", id}});
  }
  // If it can't be stored, the next step tries again.
  if (!transaction.empty()) Commit(&transaction).IgnoreError();
}

void ClusterState::ExpireLeases() {
  MutexLock lock(&mutex_);
  const Moment now = Now();
  // If it was us who stood still, nobody could be heard: all get another chance.
  const bool slept = last_step_ != absl::InfinitePast() && now - last_step_ > options_.heartbeat_period;
  last_step_ = now;
  std::vector<std::string> lost;
  for (const auto& [id, node] : tables_.nodes) {
    if (node->phase() == v1::NODE_PHASE_LOST) continue;
    if (slept) {
      node->lease->Renew(now);
    } else if (now - node->lease->heard() > kLostAfterPeriods * options_.heartbeat_period) {
      lost.push_back(id);
    }
  }
  for (const std::string& id : lost) {
    Transaction transaction(tables_, now);
    LoseNode(&transaction, id);
    if (!Commit(&transaction).ok()) return;  // The next step tries again.
    parts_.launcher->EndSession(id, 0,
                                absl::AbortedError("the node was silent for too long; register again"));
    log::Warning("node lost", {{"node", id}});
  }
}

void ClusterState::LoseNode(Transaction* transaction, const std::string& id) {
  const std::map<std::string, std::vector<int>> jobs = LiveOn(*transaction, id);
  if (jobs.empty() && transaction->FindNode(id)->phase() == v1::NODE_PHASE_DRAINING) {
    ForgetNode(transaction, id);  // It was meant to go, and is gone.
    return;
  }
  v1::NodeStatus* status = transaction->EditNode(id)->record.node.mutable_status();
  status->set_phase(v1::NODE_PHASE_LOST);
  const std::string message = absl::StrCat(
      "silent for more than ", absl::FormatDuration(kLostAfterPeriods * options_.heartbeat_period));
  status->set_message(message);
  for (const auto& [uid, ranks] : jobs) {
    for (const int rank : ranks) LoseReplica(transaction, uid, rank, jobs::LossCause::kNode, message);
    transaction->AddEvent(
        uid,
        {true, "NodeLost",
         absl::StrCat("node ", id, " with ", ranks.size(), " of the job's replicas: ", message), id, ""});
    Settle(transaction, uid);
  }
}

void ClusterState::KeepApart(Transaction* transaction, std::pair<std::string, std::string> nodes) const {
  if (nodes.second < nodes.first) std::swap(nodes.first, nodes.second);
  // It is replicas who say so: whatever they say, most nodes stay together.
  if (apart_.size() >= kMostPairsApart && apart_.count(nodes) == 0) return;
  Apart& apart = apart_[nodes];
  apart.length = std::max(options_.quarantine.first, std::min(2 * apart.length, options_.quarantine.longest));
  apart.until = transaction->now() + apart.length;
  apart.over = false;
  log::Warning("two nodes do not reach each other: no job gets replicas on both for a while",
               {{"node", nodes.first}, {"other", nodes.second}, {"for", absl::FormatDuration(apart.length)}});
  TellOfPair(nodes, true, transaction);
}

void ClusterState::TellOfPair(const std::pair<std::string, std::string>& nodes, bool apart,
                              Transaction* transaction) {
  for (const auto& [id, other] : {nodes, std::pair(nodes.second, nodes.first)}) {
    if (transaction->FindNode(id) == nullptr) continue;
    auto* unreachable = transaction->EditNode(id)->record.node.mutable_status()->mutable_unreachable_nodes();
    unreachable->erase(std::remove(unreachable->begin(), unreachable->end(), other), unreachable->end());
    if (apart) *unreachable->Add() = other;
  }
  transaction->FreeRoom();
}

void ClusterState::ForgetApart() {
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  for (auto it = apart_.begin(); it != apart_.end();) {
    auto& [pair, apart] = *it;
    if (!apart.over && apart.until <= transaction.now()) {
      apart.over = true;
      TellOfPair(pair, false, &transaction);
    }
    const bool gone = tables_.nodes.count(pair.first) == 0 || tables_.nodes.count(pair.second) == 0;
    it = gone || apart.until + apart.length <= transaction.now() ? apart_.erase(it) : std::next(it);
  }
  // If it can't be stored, the allocator hears of it with the nodes' next change.
  if (!transaction.empty()) Commit(&transaction).IgnoreError();
}

v1::Node ClusterState::DescribeNode(const NodeEntry& entry) const {
  const NodeUse::Use* use = tables_.use.Find(entry.id());
  return Describe(entry, use == nullptr ? NodeUse::Use() : *use, Now());
}

absl::StatusOr<v1::ListNodesResponse> ClusterState::ListNodes(const v1::ListNodesRequest& request) const {
  constexpr size_t kBatch = 128;
  const absl::StatusOr<int> page_size = ParsePageSize(request.page_size());
  if (!page_size.ok()) return page_size.status();
  v1::ListNodesResponse response;
  size_t bytes = 0;
  // The token is the last node of the page before.
  for (std::string after = request.page_token();;) {
    const std::vector<ReadIndex::Node> batch = index_.NodesAfter(after, kBatch);
    for (const ReadIndex::Node& node : batch) {
      if (response.nodes_size() == *page_size || bytes > kMaxPageBytes) {
        response.set_next_page_token(after);
        return response;
      }
      *response.add_nodes() = Describe(*node.entry, node.use, Now());
      bytes += response.nodes(response.nodes_size() - 1).ByteSizeLong();
      after = node.entry->id();
    }
    if (batch.size() < kBatch) return response;
  }
}

absl::StatusOr<v1::DrainNodeResponse> ClusterState::DrainNode(const v1::DrainNodeRequest& request,
                                                              const std::string& caller) {
  if (const absl::Status status = ValidateRequestId(request.request_id()); !status.ok()) return status;
  const auto change = [&](Transaction* transaction)
                          ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<v1::DrainNodeResponse> {
    const NodeEntry* before = transaction->FindNode(request.node_id());
    if (before == nullptr) return NoSuchNode(request.node_id());
    if (before->phase() == v1::NODE_PHASE_LOST) {
      return absl::FailedPreconditionError(
          absl::StrCat("node \"", request.node_id(), "\" is lost; remove it"));
    }
    if (before->phase() == v1::NODE_PHASE_READY || before->phase() == v1::NODE_PHASE_QUARANTINED) {
      v1::NodeStatus* status = transaction->EditNode(request.node_id())->record.node.mutable_status();
      status->clear_quarantine_end_time();
      status->set_phase(v1::NODE_PHASE_DRAINING);
      status->set_message(request.reason().empty() ? "drained" : ToUtf8(request.reason(), kMaxMessage));
    }
    v1::DrainNodeResponse response;
    *response.mutable_node() = DescribeNode(*transaction->FindNode(request.node_id()));
    return response;
  };
  return Once<v1::DrainNodeResponse>(KeyOf(caller, "", request), change);
}

absl::StatusOr<v1::RemoveNodeResponse> ClusterState::RemoveNode(const v1::RemoveNodeRequest& request,
                                                                const std::string& caller) {
  if (const absl::Status status = ValidateRequestId(request.request_id()); !status.ok()) return status;
  const std::string& id = request.node_id();
  const auto change = [&](Transaction* transaction)
                          ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<v1::RemoveNodeResponse> {
    const NodeEntry* node = transaction->FindNode(id);
    if (node == nullptr) return NoSuchNode(id);
    const bool empty = LiveOn(*transaction, id).empty();
    const bool takes_nothing =
        node->phase() == v1::NODE_PHASE_DRAINING || node->phase() == v1::NODE_PHASE_QUARANTINED;
    const bool removable = node->phase() == v1::NODE_PHASE_LOST || (takes_nothing && empty);
    if (!removable) {
      return absl::FailedPreconditionError(
          absl::StrCat("node \"", id, "\" is ", v1::NodePhase_Name(node->phase()),
                       empty ? "" : " and runs replicas", "; drain it, and remove it when it is empty"));
    }
    ForgetNode(transaction, id);
    return v1::RemoveNodeResponse();
  };
  absl::StatusOr<v1::RemoveNodeResponse> response =
      Once<v1::RemoveNodeResponse>(KeyOf(caller, "", request), change);
  if (response.ok()) parts_.launcher->EndSession(id, 0, absl::AbortedError("the node was removed"));
  return response;
}

}  // namespace adaptdl::supervisor
