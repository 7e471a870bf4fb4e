#include "services/supervisor/jobs/separator.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/service/log.h"

namespace adaptdl::supervisor {
namespace {

constexpr size_t kMostPairs = 8;

// The allocator is to hear of it, and jobs that wait for other nodes.
void TellOfPair(const NodePair& nodes, bool apart, Transaction* transaction) {
  for (const auto& [id, other] : {nodes, NodePair(nodes.second, nodes.first)}) {
    if (transaction->FindNode(id) == nullptr) continue;
    auto* unreachable = transaction->EditNode(id)->record.node.mutable_status()->mutable_unreachable_nodes();
    unreachable->erase(std::remove(unreachable->begin(), unreachable->end(), other), unreachable->end());
    if (apart) *unreachable->Add() = other;
  }
  transaction->FreeRoom();
}

// Whether the pair is to be tried again.
bool IsOver(const Separation& separation, absl::Time now) {
  return !separation.over && separation.until <= now;
}

// Whether nothing need be known of it any more.
bool IsForgotten(const Transaction& transaction, const NodePair& nodes, const Separation& separation) {
  const bool gone =
      transaction.FindNode(nodes.first) == nullptr || transaction.FindNode(nodes.second) == nullptr;
  return gone || separation.until + separation.length <= transaction.now();
}

}  // namespace

void Separator::KeepApart(Transaction* transaction, NodePair nodes) const {
  if (nodes.second < nodes.first) std::swap(nodes.first, nodes.second);
  // It is replicas who say so: whatever they say, most nodes stay together.
  const Separations& known = transaction->separations();
  if (known.size() >= kMostPairs && known.count(nodes) == 0) return;
  Separation& separation = (*transaction->EditSeparations())[nodes];
  separation.length = std::max(policy_.first, std::min(2 * separation.length, policy_.longest));
  separation.until = transaction->now() + separation.length;
  separation.over = false;
  transaction->EffectsOf(Transaction::kNoJob)
      ->reports.emplace_back([nodes, length = separation.length](Metrics*) {
        log::Warning("two nodes do not reach each other: no job gets replicas on both for a while",
                     {{"node", nodes.first}, {"other", nodes.second}, {"for", absl::FormatDuration(length)}});
      });
  TellOfPair(nodes, true, transaction);
}

void Separator::Step() {
  // If it can't be stored, the next step tries again.
  core_
      ->Update([](Transaction* transaction) {
        for (const auto& [nodes, separation] : transaction->base().separations) {
          const bool over = IsOver(separation, transaction->now());
          const bool forgotten = IsForgotten(*transaction, nodes, separation);
          if (!over && !forgotten) continue;
          Separations* edited = transaction->EditSeparations();
          edited->at(nodes).over = true;
          if (forgotten) edited->erase(nodes);
          if (over) TellOfPair(nodes, false, transaction);
        }
        return absl::OkStatus();
      })
      .IgnoreError();
}

}  // namespace adaptdl::supervisor
