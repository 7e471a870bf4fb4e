#include "services/supervisor/nodes/replica_observer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/utf8.h"
#include "services/supervisor/jobs/group.h"
#include "services/supervisor/nodes/limits.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

void StopUnknown(Transaction* transaction, const std::string& node_id, const std::string& uid,
                 const std::string& replica_id) {
  v1::StopReplica stop;
  stop.set_replica_id(replica_id);
  stop.set_reason("this replica belongs to no current group");
  transaction->EffectsOf(uid)->stops.emplace_back(node_id, std::move(stop));
}

// Whether the job's group starts and has members that do not run yet: until they do, nothing follows from
// those that do.
bool AwaitsMembers(const JobEntry& job) {
  if (job.record.state.phase != jobs::Phase::kStarting) return false;
  return std::any_of(job.replicas.begin(), job.replicas.end(), [&](const auto& replica) {
    return replica->replica.group() == job.record.state.group &&
           replica->replica.state() == v1::REPLICA_STATE_LAUNCHING;
  });
}

}  // namespace

void ReplicaObserver::ObserveReport(Transaction* transaction, const std::string& node_id,
                                    const v1::ReplicaReport& report) {
  const v1::Replica& seen = report.replica();
  const std::string& uid = report.job_uid();
  const JobEntry* job = transaction->FindJob(uid);
  const int rank = job == nullptr ? -1 : FindMember(job->replicas, seen.replica_id());
  const bool ours =
      rank >= 0 && job->replicas[rank]->replica.node_id() == node_id && IsLive(job->replicas[rank]->replica);
  const bool over = ours && jobs::IsTerminal(job->record.state.phase);
  if (!ours || (over && IsLive(seen))) {
    if (IsLive(seen)) {
      StopUnknown(transaction, node_id, uid, seen.replica_id());
    } else {
      transaction->EffectsOf(uid)->acknowledgements.emplace_back(node_id, seen.replica_id());
    }
    return;
  }
  if (IsLive(seen)) {
    ObserveRunning(transaction, uid, rank, seen);
    return;
  }
  ObserveEnd(transaction, uid, rank, seen);
  transaction->EffectsOf(uid)->acknowledgements.emplace_back(node_id, seen.replica_id());
  reconciler_->Reconcile(transaction, uid);
}

void ReplicaObserver::ObserveRunning(Transaction* transaction, const std::string& uid, int index,
                                     const v1::Replica& seen) {
  if (seen.state() == v1::REPLICA_STATE_RUNNING)
    ObserveComplaint(transaction, uid, index, ToUtf8(seen.message(), kMaxNodeMessage));
  const v1::ReplicaState known = transaction->FindJob(uid)->replicas[index]->replica.state();
  if (seen.state() == known || seen.state() == v1::REPLICA_STATE_LAUNCHING) return;
  v1::Replica* replica = &transaction->EditReplica(uid, index)->replica;
  replica->set_state(v1::REPLICA_STATE_RUNNING);
  *replica->mutable_start_time() = seen.has_start_time() ? seen.start_time() : ToProto(transaction->wall());
  if (!AwaitsMembers(*transaction->FindJob(uid))) reconciler_->Reconcile(transaction, uid);
}

void ReplicaObserver::ObserveComplaint(Transaction* transaction, const std::string& uid, int index,
                                       const std::string& message) {
  const v1::Replica& known = transaction->FindJob(uid)->replicas[index]->replica;
  if (message == known.message()) return;
  const bool fails = !message.empty();
  const std::string text =
      fails ? absl::StrCat("training goes on, and the checkpoint before it counts: ", message)
            : "checkpoints are where other nodes find them again";
  const jobs::Event event = {fails, fails ? "CheckpointFailed" : "CheckpointWritten", text, "",
                             known.replica_id()};
  transaction->EditReplica(uid, index)->replica.set_message(message);
  limiter_->ReportCheckpoint(transaction, uid, message, event);
}

void ReplicaObserver::ObserveEnd(Transaction* transaction, const std::string& uid, int index,
                                 const v1::Replica& seen) {
  // Whoever sees the job end also sees how far it came.
  progress_->StoreLatest(transaction, uid);
  const ReplicaRecord known = *transaction->FindJob(uid)->replicas[index];
  const NodeEntry* node = transaction->FindNode(known.replica.node_id());
  const bool leaving = node != nullptr && node->phase() == v1::NODE_PHASE_DRAINING;
  const std::string message = ToUtf8(seen.message(), kMaxNodeMessage);
  if (seen.state() == v1::REPLICA_STATE_LOST) {
    const bool never_ran = known.replica.state() == v1::REPLICA_STATE_LAUNCHING && !known.stop_requested;
    Lose(transaction, uid, index, never_ran ? jobs::LossCause::kNotStarted : jobs::LossCause::kVanished,
         message);
  }
  ReplicaRecord* record = transaction->EditReplica(uid, index);
  record->node_leaving = leaving;
  v1::Replica* replica = &record->replica;
  replica->set_end_cause(seen.end_cause());
  if (seen.state() != v1::REPLICA_STATE_LOST) {
    replica->set_state(v1::REPLICA_STATE_EXITED);
    replica->set_exit_code(seen.exit_code());
    replica->set_signal(seen.signal());
    replica->set_message(message);
    if (seen.has_start_time()) *replica->mutable_start_time() = seen.start_time();
    *replica->mutable_end_time() = seen.has_end_time() ? seen.end_time() : ToProto(transaction->wall());
    transaction->EffectsOf(uid)->fenced.push_back(seen.replica_id());
    transaction->FreeRoom();
  }
  quarantine_->ObserveEnd(transaction, uid, *record);
}

void ReplicaObserver::Lose(Transaction* transaction, const std::string& uid, int index, jobs::LossCause cause,
                           const std::string& message) {
  ReplicaRecord* record = transaction->EditReplica(uid, index);
  record->loss = cause;
  record->replica.set_state(v1::REPLICA_STATE_LOST);
  record->replica.set_message(message);
  *record->replica.mutable_end_time() = ToProto(transaction->wall());
  transaction->EffectsOf(uid)->fenced.push_back(record->replica.replica_id());
  transaction->FreeRoom();
}

}  // namespace adaptdl::supervisor
