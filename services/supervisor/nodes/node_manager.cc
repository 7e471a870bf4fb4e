#include "services/supervisor/nodes/node_manager.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/utf8.h"
#include "libs/rpc/retry_info.h"
#include "libs/service/log.h"
#include "services/supervisor/calls/pages.h"
#include "services/supervisor/calls/validation.h"
#include "services/supervisor/nodes/leaving.h"
#include "services/supervisor/nodes/limits.h"
#include "services/supervisor/nodes/live_replicas.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// The newest version of the protocol that this supervisor speaks, and the oldest.
constexpr int kNewestProtocol = 2;
constexpr int kOldestProtocol = 1;
constexpr size_t kMaxFreePorts = 1024;

absl::Status NoSuchNode(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("node \"", id, "\" does not exist; list the nodes there are"));
}

// "ready".
std::string PhaseText(v1::NodePhase phase) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::NodePhase_Name(phase), "NODE_PHASE_"));
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
                       !IsLeaving(before->record.node) && !IsLikelyToLeave(before->record.node);
  status->set_phase(drained ? v1::NODE_PHASE_DRAINING : v1::NODE_PHASE_READY);
  if (drained) status->set_message(before->record.node.status().message());
}

// The node as it is after its registration. It keeps what is known of it, and gets a lease of its own.
NodeEntry NewEntry(const Transaction& transaction, const v1::RegisterNodeRequest& request, int64_t session,
                   int protocol) {
  const NodeEntry* before = transaction.FindNode(request.node().node_id());
  NodeEntry entry;
  if (before != nullptr) entry = *before;
  entry.record.node = request.node();
  entry.record.session_id = session;
  entry.lease = std::make_shared<Lease>(transaction.now(), protocol);
  v1::NodeStatus* status = entry.record.node.mutable_status();
  status->Clear();
  SetPhaseAtRegistration(before, transaction.now(), status);
  if (request.has_preemption_notice()) {
    NoteLeaving(request.preemption_notice(), transaction.wall(), &entry.record.node);
  }
  *status->mutable_register_time() = ToProto(transaction.wall());
  if (before == nullptr) return entry;
  const v1::NodeStatus& known = before->record.node.status();
  *status->mutable_unreachable_nodes() = known.unreachable_nodes();
  *status->mutable_register_time() = known.register_time();
  return entry;
}

// Whether the node says by registering what was not known of it: that it goes away, or may.
bool IsNews(const v1::RegisterNodeRequest& request, const NodeEntry* before) {
  if (!request.has_preemption_notice()) return false;
  if (before == nullptr || IsLeaving(before->record.node)) return before == nullptr;
  return !request.preemption_notice().likely_only() || !IsLikelyToLeave(before->record.node);
}

// Tells the jobs that run on the node what it says for the first time to be wrong with it.
void TellProblems(Transaction* transaction, const v1::Node& node, ReportLimiter* limiter) {
  const NodeEntry* before = transaction->FindNode(node.node_id());
  std::set<std::string> known;
  if (before != nullptr)
    known.insert(before->record.node.problems().begin(), before->record.node.problems().end());
  for (const std::string& problem : node.problems()) {
    if (known.contains(problem)) continue;
    for (const auto& [uid, ranks] : LiveOn(*transaction, node.node_id())) {
      limiter->Report(
          transaction, uid,
          {true, "NodeProblem", absl::StrCat("node ", node.node_id(), ": ", problem), node.node_id(), ""});
    }
    transaction->EffectsOf(Transaction::kNoJob)
        ->reports.emplace_back([id = node.node_id(), problem](Metrics*) {
          log::Warning("node has a problem", {{"node", id}, {"problem", problem}});
        });
  }
}

// The node as people see it.
v1::Node Describe(const NodeEntry& entry, const NodeUse::Use& use, const Moment& now) {
  v1::Node node = entry.record.node;
  *node.mutable_status()->mutable_last_heartbeat() = ToProto(now.ToWall(entry.lease->heard()));
  if (const auto machine = entry.lease->use(); machine != nullptr)
    *node.mutable_status()->mutable_use() = *machine;
  if (use.replicas > 0) {
    node.mutable_status()->set_replicas(static_cast<int32_t>(use.replicas));
    *node.mutable_status()->mutable_allocated() = use.held.ToProto();
  }
  return node;
}

v1::Node DescribeNode(const Transaction& transaction, const std::string& id) {
  return Describe(*transaction.FindNode(id), transaction.UseOf(id), transaction.moment());
}

absl::StatusOr<std::shared_ptr<Lease>> FindLease(const Tables& tables, const std::string& node_id,
                                                 int64_t session_id) {
  const auto it = tables.nodes.find(node_id);
  if (it == tables.nodes.end()) {
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

void SetFreePorts(Transaction* transaction, const std::string& node_id,
                  const google::protobuf::RepeatedField<int32_t>& ports) {
  if (transaction->FindNode(node_id) == nullptr) return;
  std::vector<int> free;
  for (const int port : ports) {
    if (port > 0 && port < 65536 && free.size() < kMaxFreePorts) free.push_back(port);
  }
  if (free != transaction->FindNode(node_id)->free_ports) {
    transaction->EditNodeInMemory(node_id)->free_ports = std::move(free);
  }
}

}  // namespace

absl::Status NodeManager::NoteAttempt(const std::string& id) {
  const absl::Time now = core_->Now();
  // A sign of life, also if it can't be stored now: the disk may be full.
  core_->Read([&](const Tables& tables) {
    const auto known = tables.nodes.find(id);
    if (known != tables.nodes.end()) known->second->lease->Renew(now);
  });
  MutexLock lock(&mutex_);
  if (registrations_.Take(id, now)) return absl::OkStatus();
  return rpc::WithRetryDelay(
      absl::ResourceExhaustedError(
          absl::StrCat("node.node_id: \"", id, "\" registers too often; wait before the next time")),
      registrations_.Wait(id, now));
}

absl::StatusOr<v1::RegisterNodeResponse> NodeManager::RegisterNode(const v1::RegisterNodeRequest& request,
                                                                   const std::string& caller) {
  absl::Status status = ValidateRequestId(request.request_id());
  status.Update(ValidateNode(request.node()));
  if (!status.ok()) return status;
  const std::string& id = request.node().node_id();
  if (const absl::Status allowed = NoteAttempt(id); !allowed.ok()) return allowed;
  const int protocol = std::clamp(request.protocol_version(), kOldestProtocol, kNewestProtocol);
  const auto change = [&](Transaction* transaction) -> absl::StatusOr<v1::RegisterNodeResponse> {
    const int64_t session = transaction->NextSession();
    TellProblems(transaction, request.node(), limiter_);
    const bool news = IsNews(request, transaction->FindNode(id));
    NodeEntry entry = NewEntry(*transaction, request, session, protocol);
    DescribePool(&entry.record.node);
    transaction->AddNode(std::move(entry));
    if (news) TellLeaving(transaction, id, request.preemption_notice());
    transaction->FreeRoom();
    transaction->EffectsOf(Transaction::kNoJob)
        ->ended_sessions.push_back(
            {id, session, absl::AbortedError(absl::StrCat("node \"", id, "\" has registered again"))});
    transaction->EffectsOf(Transaction::kNoJob)
        ->reports.emplace_back([id, worker = request.node().worker_address()](Metrics*) {
          log::Info("node registered", {{"node", id}, {"worker", worker}});
        });
    v1::RegisterNodeResponse response;
    response.set_session_id(session);
    *response.mutable_heartbeat_period() = ToProto(heartbeat_period_);
    return response;
  };
  absl::StatusOr<v1::RegisterNodeResponse> response =
      core_->UpdateOnce<v1::RegisterNodeResponse>(KeyOf(caller, "", request), change);
  if (response.ok()) {
    response->set_term(core_->term());
    response->set_protocol_version(protocol);
  }
  return response;
}

absl::StatusOr<std::shared_ptr<Lease>> NodeManager::FindSession(const std::string& node_id,
                                                                int64_t session_id) const {
  absl::StatusOr<std::shared_ptr<Lease>> lease;
  core_->Read([&](const Tables& tables) { lease = FindLease(tables, node_id, session_id); });
  return lease;
}

absl::Status NodeManager::ReconcileNode(const v1::NodeHello& hello) {
  const std::string& id = hello.node_id();
  const absl::StatusOr<std::shared_ptr<Lease>> lease = FindSession(id, hello.session_id());
  if (!lease.ok()) return lease.status();
  (*lease)->Renew(core_->Now());
  (*lease)->set_confirms_deletions(hello.confirms_deletions());
  return core_->Update([&](Transaction* transaction) {
    SetFreePorts(transaction, id, hello.free_ports());
    if (orders_->needs_ports()) transaction->FreeRoom();
    std::set<std::string> reported;
    for (const v1::ReplicaReport& report : hello.replicas()) {
      reported.insert(report.replica().replica_id());
      observer_->ObserveReport(transaction, id, report);
    }
    for (const auto& [uid, indices] : LiveOn(*transaction, id)) {
      for (const int index : indices) {
        const bool known =
            reported.count(transaction->FindJob(uid)->replicas[index]->replica.replica_id()) > 0;
        Compare(transaction, uid, index, known);
      }
      reconciler_->Reconcile(transaction, uid);
    }
    deletions_->Tell(transaction, id);
    return absl::OkStatus();
  });
}

void NodeManager::Compare(Transaction* transaction, const std::string& uid, int index, bool reported) const {
  const JobEntry* job = transaction->FindJob(uid);
  const ReplicaRecord record = *job->replicas[index];
  const v1::Replica& replica = record.replica;
  if (reported) {
    // What we said when the node was away did not arrive.
    if (!record.stop_requested) return;
    Orders::SendStop(transaction, *job, replica.node_id(), replica.replica_id(), job->record.state.message);
  } else if (replica.state() == v1::REPLICA_STATE_LAUNCHING && !record.stop_requested) {
    orders_->LaunchAgain(transaction, *job, index);
  } else {
    ReplicaObserver::Lose(transaction, uid, index, jobs::LossCause::kVanished,
                          "its node does not know it any more");
  }
}

absl::Status NodeManager::OfferPorts(const std::string& node_id, const v1::FreePorts& free) {
  return core_->Update([&](Transaction* transaction) {
    SetFreePorts(transaction, node_id, free.ports());
    // Jobs may wait for one; those of a node that offers ports all the time wait for the next step.
    if (!orders_->needs_ports()) return absl::OkStatus();
    if (limiter_->Take(node_id, transaction->now())) {
      transaction->FreeRoom();
    } else {
      ports_offered_ = true;
    }
    return absl::OkStatus();
  });
}

absl::Status NodeManager::ObserveReplica(const std::string& node_id, const v1::ReplicaReport& report) {
  return core_->Update([&](Transaction* transaction) {
    observer_->ObserveReport(transaction, node_id, report);
    return absl::OkStatus();
  });
}

absl::Status NodeManager::NoticePreemption(const std::string& node_id, const v1::PreemptionNotice& notice) {
  return core_->Update([&](Transaction* transaction) -> absl::Status {
    const NodeEntry* before = transaction->FindNode(node_id);
    if (before == nullptr) return NoSuchNode(node_id);
    v1::Node node = before->record.node;
    if (!NoteLeaving(notice, transaction->wall(), &node)) return absl::OkStatus();
    transaction->EditNode(node_id)->record.node = std::move(node);
    TellLeaving(transaction, node_id, notice);
    return absl::OkStatus();
  });
}

absl::StatusOr<v1::ListNodesResponse> NodeManager::ListNodes(const v1::ListNodesRequest& request) const {
  const absl::StatusOr<int> page_size = ParsePageSize(request.page_size());
  if (!page_size.ok()) return page_size.status();
  v1::ListNodesResponse response;
  size_t bytes = 0;
  // The token is the last node of the page before.
  for (std::string after = request.page_token();;) {
    const std::vector<ReadIndex::Node> batch = core_->index().NodesAfter(after, kReadBatch);
    for (const ReadIndex::Node& node : batch) {
      if (response.nodes_size() == *page_size || bytes > kMaxPageBytes) {
        response.set_next_page_token(after);
        return response;
      }
      *response.add_nodes() = Describe(*node.entry, node.use, core_->Now());
      bytes += response.nodes(response.nodes_size() - 1).ByteSizeLong();
      after = node.entry->id();
    }
    if (batch.size() < kReadBatch) return response;
  }
}

absl::StatusOr<v1::DrainNodeResponse> NodeManager::DrainNode(const v1::DrainNodeRequest& request,
                                                             const std::string& caller) {
  if (const absl::Status status = ValidateRequestId(request.request_id()); !status.ok()) return status;
  const auto change = [&](Transaction* transaction) -> absl::StatusOr<v1::DrainNodeResponse> {
    const NodeEntry* before = transaction->FindNode(request.node_id());
    if (before == nullptr) return NoSuchNode(request.node_id());
    if (before->phase() == v1::NODE_PHASE_LOST) {
      return absl::FailedPreconditionError(
          absl::StrCat("node \"", request.node_id(), "\" is lost; remove it"));
    }
    if (before->phase() != v1::NODE_PHASE_DRAINING || IsLikelyToLeave(before->record.node)) {
      v1::Node* node = &transaction->EditNode(request.node_id())->record.node;
      ForgetLikelihood(node);
      v1::NodeStatus* status = node->mutable_status();
      status->clear_quarantine_end_time();
      status->set_phase(v1::NODE_PHASE_DRAINING);
      status->set_message(request.reason().empty() ? "drained" : ToUtf8(request.reason(), kMaxNodeMessage));
    }
    v1::DrainNodeResponse response;
    *response.mutable_node() = DescribeNode(*transaction, request.node_id());
    return response;
  };
  return core_->UpdateOnce<v1::DrainNodeResponse>(KeyOf(caller, "", request), change);
}

absl::StatusOr<v1::RemoveNodeResponse> NodeManager::RemoveNode(const v1::RemoveNodeRequest& request,
                                                               const std::string& caller) {
  if (const absl::Status status = ValidateRequestId(request.request_id()); !status.ok()) return status;
  const std::string& id = request.node_id();
  const auto change = [&](Transaction* transaction) -> absl::StatusOr<v1::RemoveNodeResponse> {
    const NodeEntry* node = transaction->FindNode(id);
    if (node == nullptr) return NoSuchNode(id);
    const bool empty = LiveOn(*transaction, id).empty();
    const bool takes_nothing =
        node->phase() == v1::NODE_PHASE_DRAINING || node->phase() == v1::NODE_PHASE_QUARANTINED;
    const bool removable = node->phase() == v1::NODE_PHASE_LOST || (takes_nothing && empty);
    if (!removable) {
      return absl::FailedPreconditionError(absl::StrCat("node \"", id, "\" is ", PhaseText(node->phase()),
                                                        empty ? "" : " and runs replicas",
                                                        "; drain it, and remove it when it is empty"));
    }
    Forget(transaction, id);
    transaction->EffectsOf(Transaction::kNoJob)
        ->ended_sessions.push_back({id, 0, absl::AbortedError("the node was removed")});
    return v1::RemoveNodeResponse();
  };
  return core_->UpdateOnce<v1::RemoveNodeResponse>(KeyOf(caller, "", request), change);
}

void NodeManager::Step() {
  ExpireLeases();
  if (!ports_offered_.exchange(false)) return;
  core_
      ->Update([](Transaction* transaction) {
        transaction->FreeRoom();
        return absl::OkStatus();
      })
      .IgnoreError();
}

std::vector<std::string> NodeManager::FindSilent(absl::Time now) {
  // If it was us who stood still, nobody could be heard: all get another chance.
  const bool slept = last_step_ != absl::InfinitePast() && now - last_step_ > heartbeat_period_;
  last_step_ = now;
  std::vector<std::string> silent;
  core_->Read([&](const Tables& tables) {
    for (const auto& [id, node] : tables.nodes) {
      if (node->phase() == v1::NODE_PHASE_LOST) continue;
      if (slept) {
        node->lease->Renew(now);
      } else if (now - node->lease->heard() > Patience()) {
        silent.push_back(id);
      }
    }
  });
  return silent;
}

void NodeManager::ExpireLeases() {
  for (const std::string& id : FindSilent(core_->Now())) {
    const absl::Status status = core_->Update([&](Transaction* transaction) {
      const NodeEntry* node = transaction->FindNode(id);
      // It may have been heard of since.
      if (node != nullptr && transaction->now() - node->lease->heard() > Patience()) {
        LoseNow(transaction, id, absl::StrCat("silent for more than ", absl::FormatDuration(Patience())));
      }
      return absl::OkStatus();
    });
    if (!status.ok()) return;  // The next step tries again.
  }
}

void NodeManager::Forget(Transaction* transaction, const std::string& id) {
  transaction->DeleteNode(id);
  transaction->FinishDeletions(id);
}

void NodeManager::LoseNow(Transaction* transaction, const std::string& id, const std::string& why) {
  transaction->EffectsOf(Transaction::kNoJob)
      ->ended_sessions.push_back(
          {id, 0, absl::AbortedError("the node was silent for too long; register again")});
  transaction->EffectsOf(Transaction::kNoJob)->reports.emplace_back([id, why](Metrics*) {
    log::Warning("node lost", {{"node", id}, {"reason", why}});
  });
  const std::map<std::string, std::vector<int>> jobs = LiveOn(*transaction, id);
  if (jobs.empty() && transaction->FindNode(id)->phase() == v1::NODE_PHASE_DRAINING) {
    Forget(transaction, id);  // It was meant to go, and is gone.
    return;
  }
  v1::NodeStatus* status = transaction->EditNode(id)->record.node.mutable_status();
  status->set_phase(v1::NODE_PHASE_LOST);
  status->set_message(why);
  for (const auto& [uid, ranks] : jobs) {
    for (const int rank : ranks) ReplicaObserver::Lose(transaction, uid, rank, jobs::LossCause::kNode, why);
    transaction->AddEvent(
        uid, {true, "NodeLost",
              absl::StrCat("node ", id, " with ", ranks.size(), " of the job's replicas: ", why), id, ""});
    reconciler_->Reconcile(transaction, uid);
  }
}

}  // namespace adaptdl::supervisor
