#include "services/supervisor/nodes/quarantine.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/utf8.h"
#include "libs/jobs/group_end.h"
#include "libs/service/log.h"
#include "services/supervisor/nodes/limits.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// Whether some other node is ready.
bool OthersReady(const Transaction& transaction, const std::string& id) {
  for (const auto& [other, entry] : transaction.base().nodes) {
    const NodeEntry* node = other == id ? nullptr : transaction.FindNode(other);
    if (node != nullptr && node->phase() == v1::NODE_PHASE_READY) return true;
  }
  return false;
}

// Whether the job has failed on another node as well.
bool FailsElsewhere(const Transaction& transaction, const std::string& job, const std::string& id,
                    const jobs::QuarantinePolicy& policy) {
  const auto& nodes = transaction.base().nodes;
  return std::any_of(nodes.begin(), nodes.end(), [&](const auto& other) {
    const NodeEntry* node = other.first == id ? nullptr : transaction.FindNode(other.first);
    return node != nullptr && node->health.HasFailed(job, transaction.now(), policy);
  });
}

// `failed`: jobs that have, the last one by `replica`.
void Begin(Transaction* transaction, const std::string& id, const std::vector<std::string>& failed,
           const ReplicaRecord& replica, const jobs::QuarantinePolicy& policy) {
  NodeEntry* node = transaction->EditNode(id);
  node->quarantine_end = transaction->now() + node->health.Quarantine(policy);
  const absl::Time wall_end = transaction->moment().ToWall(node->quarantine_end);
  const std::string message = absl::StrCat(
      "replicas of ", failed.size(), " jobs failed here within ", absl::FormatDuration(policy.window),
      " and none succeeded, the last one: ", jobs::DescribeEnd(ToReplica(replica, false)),
      "; it is tried again at ", absl::FormatTime("%H:%M:%S", wall_end, absl::UTCTimeZone()), " UTC");
  v1::NodeStatus* status = node->record.node.mutable_status();
  status->set_phase(v1::NODE_PHASE_QUARANTINED);
  status->set_message(ToUtf8(message, kMaxNodeMessage));
  *status->mutable_quarantine_end_time() = ToProto(wall_end);
  for (const std::string& job : failed) {
    if (transaction->FindJob(job) == nullptr) continue;
    transaction->AddEvent(job, {true, "NodeQuarantined", absl::StrCat("node ", id, ": ", message), id, ""});
  }
  transaction->EffectsOf(Transaction::kNoJob)->reports.emplace_back([id, message](Metrics* metrics) {
    if (metrics != nullptr) metrics->CountQuarantine();
    log::Warning("node quarantined", {{"node", id}, {"reason", message}});
  });
}

}  // namespace

void Quarantine::ObserveEnd(Transaction* transaction, const std::string& uid,
                            const ReplicaRecord& replica) const {
  const jobs::Sign sign = policy_.jobs > 0 ? jobs::SignOf(ToReplica(replica, false)) : jobs::Sign::kNone;
  const std::string id = replica.replica.node_id();
  if (sign == jobs::Sign::kNone || transaction->FindNode(id) == nullptr) return;
  NodeEntry* node = transaction->EditNodeInMemory(id);
  if (sign == jobs::Sign::kGood) {
    node->health.Succeeded();
    return;
  }
  node->health.Failed(uid, transaction->now());
  std::vector<std::string> failed = node->health.FailedJobs(transaction->now(), policy_);
  // A job that fails wherever it runs says nothing of any node.
  std::erase_if(failed,
                [&](const std::string& job) { return FailsElsewhere(*transaction, job, id, policy_); });
  // Nodes are judged by comparison: without another one to run on, all would stand still.
  const bool harmful = static_cast<int>(failed.size()) >= policy_.jobs;
  if (!harmful || node->phase() != v1::NODE_PHASE_READY || !OthersReady(*transaction, id)) return;
  Begin(transaction, id, failed, replica, policy_);
}

void Quarantine::Step() {
  const auto end = [](Transaction* transaction) {
    for (const auto& [id, entry] : transaction->base().nodes) {
      if (entry->phase() != v1::NODE_PHASE_QUARANTINED || entry->quarantine_end > transaction->now()) {
        continue;
      }
      v1::NodeStatus* status = transaction->EditNode(id)->record.node.mutable_status();
      status->set_phase(v1::NODE_PHASE_READY);
      status->clear_message();
      status->clear_quarantine_end_time();
      transaction->FreeRoom();
      transaction->EffectsOf(Transaction::kNoJob)->reports.emplace_back([id = id](Metrics*) {
        log::Info("node is tried again after its quarantine", {{"node", id}});
      });
    }
    return absl::OkStatus();
  };
  // If it can't be stored, the next step tries again.
  core_->Update(end).IgnoreError();
}

}  // namespace adaptdl::supervisor
