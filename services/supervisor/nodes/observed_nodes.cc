#include "services/supervisor/nodes/observed_nodes.h"

#include <memory>
#include <string>
#include <utility>

#include "google/protobuf/util/message_differencer.h"
#include "libs/service/log.h"
#include "services/supervisor/nodes/leaving.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

bool IsLikely(const ObservedNode& observed) {
  return observed.leaving.has_value() && observed.leaving->likely_only();
}

// Whether it takes nothing new for another reason than that it may be taken away: who says that closes it as well, most
// often.
bool IsClosed(const ObservedNode& observed) { return !observed.closed.empty() && !IsLikely(observed); }

// Whether those who told of the node's life had it drain, and nobody else.
bool IsClosedByOthers(const NodeEntry* before) {
  if (before == nullptr || before->phase() != v1::NODE_PHASE_DRAINING) return false;
  return before->closed_by_others || IsLikelyToLeave(before->record.node);
}

// The node as it is to be known, with the status that it had.
v1::Node Updated(const ObservedNode& observed, const NodeEntry* before, const Moment& now) {
  v1::Node node = observed.node;
  v1::NodeStatus* status = node.mutable_status();
  if (before == nullptr || before->phase() == v1::NODE_PHASE_LOST) {
    status->Clear();
    status->set_phase(v1::NODE_PHASE_READY);
    *status->mutable_register_time() = ToProto(now.wall);
  } else {
    *status = before->record.node.status();
  }
  if (IsClosed(observed)) {
    status->set_phase(v1::NODE_PHASE_DRAINING);
    status->set_message(observed.closed);
    return node;
  }
  const bool leaves = before != nullptr && IsLeaving(before->record.node);
  if (IsClosedByOthers(before) && !(IsLikely(observed) && leaves)) {
    status->set_phase(v1::NODE_PHASE_READY);
    status->clear_message();
    status->clear_preemption_time();
  }
  if (IsLikely(observed)) NoteLeaving(*observed.leaving, now.wall, &node);
  return node;
}

// Whether its jobs are to be told of the notice that came with it.
bool IsNews(const NodeEntry* before, const v1::Node& node) {
  return IsLikelyToLeave(node) && (before == nullptr || !IsLikelyToLeave(before->record.node));
}

}  // namespace

absl::Status ObservedNodes::Observe(const ObservedNode& observed) {
  const std::string& id = observed.node.node_id();
  const absl::Status status = core_->Update([&](Transaction* transaction) {
    const NodeEntry* before = transaction->FindNode(id);
    v1::Node node = Updated(observed, before, transaction->moment());
    nodes_->DescribePool(&node);
    const bool closed = IsClosed(observed);
    const bool known = before != nullptr && before->closed_by_others == closed &&
                       google::protobuf::util::MessageDifferencer::Equals(node, before->record.node);
    if (known) return absl::OkStatus();
    NodeEntry entry;
    if (before != nullptr) entry = *before;
    if (before == nullptr || before->phase() == v1::NODE_PHASE_LOST) {
      entry.record.session_id = transaction->NextSession();
      entry.lease = std::make_shared<Lease>(transaction->now());
    }
    const bool news = IsNews(before, node);
    entry.record.node = std::move(node);
    entry.closed_by_others = closed;
    transaction->AddNode(std::move(entry));
    if (news) nodes_->TellLeaving(transaction, id, *observed.leaving);
    transaction->FreeRoom();
    return absl::OkStatus();
  });
  if (!status.ok() || !observed.leaving.has_value() || IsLikely(observed)) return status;
  return nodes_->NoticePreemption(id, *observed.leaving);
}

void ObservedNodes::KeepAlive(const std::vector<std::string>& ids) const {
  const absl::Time now = core_->Now();
  core_->Read([&](const Tables& tables) {
    for (const std::string& id : ids) {
      const auto node = tables.nodes.find(id);
      if (node != tables.nodes.end()) node->second->lease->Renew(now);
    }
  });
}

absl::Status ObservedNodes::Forget(const std::string& id, const std::string& why) {
  return core_->Update([&](Transaction* transaction) {
    if (transaction->FindNode(id) == nullptr) return absl::OkStatus();
    nodes_->LoseNow(transaction, id, why);
    if (transaction->FindNode(id) != nullptr) NodeManager::Forget(transaction, id);
    return absl::OkStatus();
  });
}

}  // namespace adaptdl::supervisor
