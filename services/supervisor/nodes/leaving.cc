#include "services/supervisor/nodes/leaving.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/utf8.h"
#include "libs/jobspec/placement.h"
#include "libs/service/log.h"
#include "services/supervisor/nodes/limits.h"
#include "services/supervisor/nodes/live_replicas.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

std::string ReasonOf(const v1::PreemptionNotice& notice) {
  return notice.reason().empty() ? "preempted" : ToUtf8(notice.reason(), kMaxNodeMessage);
}

bool HasMark(const v1::Node& node) {
  return std::any_of(node.taints().begin(), node.taints().end(),
                     [](const v1::Taint& taint) { return taint.key() == jobspec::kLikelyToLeave; });
}

void SetDraining(absl::string_view message, v1::NodeStatus* status) {
  status->clear_quarantine_end_time();
  status->set_phase(v1::NODE_PHASE_DRAINING);
  status->set_message(std::string(message));
}

bool NoteLikely(const v1::PreemptionNotice& notice, v1::Node* node) {
  if (node->status().phase() == v1::NODE_PHASE_DRAINING) return false;
  SetDraining(absl::StrCat("may be taken away: ", ReasonOf(notice)), node->mutable_status());
  if (HasMark(*node)) return true;
  v1::Taint* mark = node->add_taints();
  mark->set_key(jobspec::kLikelyToLeave);
  mark->set_effect(v1::TAINT_EFFECT_NO_SCHEDULE);
  return true;
}

// Has its members write a checkpoint at once: what the allocator decides may come too late.
void HaveCheckpoint(Transaction* transaction, const std::string& uid, const std::string& why) {
  for (const auto& replica : transaction->FindJob(uid)->replicas) {
    if (replica->stop_requested || !IsLive(replica->replica)) continue;
    transaction->EffectsOf(uid)->commands.push_back(
        {replica->replica.replica_id(), v1::REPLICA_COMMAND_CHECKPOINT, why});
  }
}

std::string Remaining(const v1::Node& node, absl::Time wall) {
  const absl::Duration left = ToTime(node.status().preemption_time()) - wall;
  return absl::StrCat(std::max<int64_t>(0, absl::ToInt64Seconds(left)), " s");
}

}  // namespace

bool IsLeaving(const v1::Node& node) {
  return node.status().phase() == v1::NODE_PHASE_DRAINING && node.status().has_preemption_time();
}

bool IsLikelyToLeave(const v1::Node& node) {
  return node.status().phase() == v1::NODE_PHASE_DRAINING && !node.status().has_preemption_time() &&
         HasMark(node);
}

bool NoteLeaving(const v1::PreemptionNotice& notice, absl::Time wall, v1::Node* node) {
  if (notice.likely_only()) return NoteLikely(notice, node);
  const absl::Time deadline = notice.has_deadline() ? ToTime(notice.deadline()) : wall;
  if (IsLeaving(*node) && ToTime(node->status().preemption_time()) <= deadline) return false;
  ForgetLikelihood(node);
  SetDraining(absl::StrCat("goes away: ", ReasonOf(notice)), node->mutable_status());
  *node->mutable_status()->mutable_preemption_time() = ToProto(deadline);
  return true;
}

void ForgetLikelihood(v1::Node* node) {
  auto* taints = node->mutable_taints();
  taints->erase(std::remove_if(taints->begin(), taints->end(),
                               [](const v1::Taint& taint) { return taint.key() == jobspec::kLikelyToLeave; }),
                taints->end());
}

void TellLeaving(Transaction* transaction, const std::string& node_id, const v1::PreemptionNotice& notice,
                 ReportLimiter* limiter) {
  const bool likely = notice.likely_only();
  const std::string reason = ReasonOf(notice);
  const std::string left =
      likely ? "" : Remaining(transaction->FindNode(node_id)->record.node, transaction->wall());
  transaction->EffectsOf(Transaction::kNoJob)
      ->reports.emplace_back([node_id, reason, left, likely](Metrics*) {
        log::Warning(likely ? "node may be taken away" : "node goes away",
                     {{"node", node_id}, {"reason", reason}, {"left", likely ? "unknown" : left}});
      });
  for (const auto& [uid, ranks] : LiveOn(*transaction, node_id)) {
    const std::string text =
        likely ? absl::StrCat("node ", node_id, " may be taken away: ", reason)
               : absl::StrCat("node ", node_id, " goes away, ", left, " are left: ", reason);
    limiter->Report(transaction, uid,
                    {true, likely ? "NodeLikelyPreempted" : "NodePreempted", text, node_id, ""});
    if (!likely) HaveCheckpoint(transaction, uid, absl::StrCat("node ", node_id, " goes away"));
  }
}

}  // namespace adaptdl::supervisor
