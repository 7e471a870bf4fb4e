#include "services/autoscaler/pool_controller.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace adaptdl::autoscaler {
namespace {

// What the pool should have, and who says so.
struct Wish {
  int nodes = 0;
  std::string reason;
};

// The upper bound, for people.
std::string MostText(const PoolLimits& limits) {
  const int most = MostNodes(limits);
  if (most == limits.max_nodes) return absl::StrCat("at most ", most);
  return absl::StrFormat("at most %d for %.2f per hour", most, limits.target.budget_per_hour);
}

Wish WishFor(const PoolLimits& limits, const PoolView& view, int active, absl::Time now) {
  if (!view.demand.has_value()) {
    if (active < limits.min_nodes) return {limits.min_nodes, absl::StrCat("at least ", limits.min_nodes)};
    return {active, "stays as it is while the allocator has nothing to say"};
  }
  const TargetSize size = ChooseSize(limits.target, *view.demand, active + view.other_nodes, now);
  int wanted = size.nodes - view.other_nodes;
  const int most = MostNodes(limits);
  std::string reason = absl::StrCat("the allocator would use ", NodeCount(view.demand->desired_nodes));
  if (!view.demand->reason.empty()) absl::StrAppend(&reason, " (", view.demand->reason, ")");
  if (!size.note.empty()) absl::StrAppend(&reason, "; ", size.note);
  if (view.other_nodes > 0) absl::StrAppend(&reason, ", ", view.other_nodes, " of them outside the pool");
  if (wanted < 1 && view.demand->lacks_kind) {
    wanted = 1;
    absl::StrAppend(&reason, "; a job waits for a node of this pool's kind");
  }
  if (wanted < limits.min_nodes)
    return {limits.min_nodes, absl::StrCat(reason, "; at least ", limits.min_nodes)};
  if (wanted > most) return {most, absl::StrCat(reason, "; ", MostText(limits))};
  return {wanted, reason};
}

void Grow(const PoolLimits& limits, const PoolView& view, int missing, PoolDecision* decision) {
  const int room = std::max(0, MostNodes(limits) - static_cast<int>(view.nodes.size()));
  const int count = std::min(missing, room);
  if (count < missing) {
    absl::StrAppend(&decision->reason, "; ", missing - count, " of them when as many have finished draining");
  }
  decision->create = count;
  decision->target_nodes += count;
  decision->changes_size = count > 0;
}

// The nodes that may go, first to go first: the youngest of each kind, as ids are given from 0.
std::vector<const PoolNodeView*> Candidates(const PoolView& view, bool busy_too) {
  const auto rank = [](const PoolNodeView& node) {
    if (node.phase == PoolNodePhase::kStarting) return 0;
    return node.idle ? 1 : node.empty ? 2 : 3;
  };
  std::vector<const PoolNodeView*> candidates;
  for (auto node = view.nodes.rbegin(); node != view.nodes.rend(); ++node) {
    if (node->phase == PoolNodePhase::kDraining || node->requested) continue;
    if (busy_too || rank(*node) <= 1) candidates.push_back(&*node);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const PoolNodeView* a, const PoolNodeView* b) { return rank(*a) < rank(*b); });
  return candidates;
}

// Takes back requests for at most so many nodes: that costs nothing, and a moment later it may. Returns how many.
int Withdraw(const PoolView& view, int surplus, PoolDecision* decision) {
  int withdrawn = 0;
  for (auto node = view.nodes.rbegin(); node != view.nodes.rend() && withdrawn < surplus; ++node) {
    if (!node->requested) continue;
    decision->actions.push_back({PoolActionKind::kRemove, node->node_id, decision->reason});
    ++withdrawn;
  }
  decision->target_nodes -= withdrawn;
  decision->changes_size = withdrawn > 0;
  return withdrawn;
}

void Shrink(const PoolView& view, int surplus, int over_maximum, absl::Time now, PoolDecision* decision) {
  if (decision->cooldown_end.has_value()) {
    absl::StrAppend(&decision->reason, "; no shrinking for another ",
                    absl::FormatDuration(absl::Ceil(*decision->cooldown_end - now, absl::Seconds(1))));
    return;
  }
  const std::vector<const PoolNodeView*> willing = Candidates(view, false);
  // Over the maximum, the willing ones come first in this list as well.
  const std::vector<const PoolNodeView*> all = Candidates(view, true);
  const int count = std::max(std::min(surplus, static_cast<int>(willing.size())), over_maximum);
  for (int i = 0; i < count; ++i) {
    // A node that never registered can't be drained, and need not be.
    const bool starting = all[i]->phase == PoolNodePhase::kStarting;
    decision->actions.push_back(
        {starting ? PoolActionKind::kRemove : PoolActionKind::kDrain, all[i]->node_id, decision->reason});
  }
  decision->target_nodes -= count;
  decision->changes_size |= count > 0;
  if (count < surplus)
    absl::StrAppend(&decision->reason, "; ", surplus - count, " more than that are still in use");
}

}  // namespace

int MostNodes(const PoolLimits& limits) {
  return std::min(limits.max_nodes, NodesInBudget(limits.target).value_or(limits.max_nodes));
}

absl::string_view PoolNodePhaseName(PoolNodePhase phase) {
  switch (phase) {
    case PoolNodePhase::kStarting:
      return "starting";
    case PoolNodePhase::kRunning:
      return "running";
    case PoolNodePhase::kDraining:
      return "draining";
  }
  return "unknown";
}

absl::string_view PoolActionKindName(PoolActionKind kind) {
  switch (kind) {
    case PoolActionKind::kDrain:
      return "drain";
    case PoolActionKind::kRemove:
      return "remove";
  }
  return "unknown";
}

PoolDecision Decide(const PoolLimits& limits, const PoolView& view, absl::Time now) {
  PoolDecision decision;
  int active = 0;
  for (const PoolNodeView& node : view.nodes) {
    if (node.phase != PoolNodePhase::kDraining) {
      ++active;
    } else if (node.empty) {
      decision.actions.push_back({PoolActionKind::kRemove, node.node_id, "drained and empty"});
    }
  }
  const absl::Time cooldown_end = view.last_change + limits.cooldown;
  if (cooldown_end > now) decision.cooldown_end = cooldown_end;
  if (view.demand.has_value()) decision.utility = UtilityAt(*view.demand, active + view.other_nodes);
  const Wish wish = WishFor(limits, view, active, now);
  decision.target_nodes = active;
  decision.reason = wish.reason;
  if (wish.nodes > active) {
    Grow(limits, view, wish.nodes - active, &decision);
  } else if (wish.nodes < active) {
    const int withdrawn = Withdraw(view, active - wish.nodes, &decision);
    const int left = active - withdrawn;
    if (left > wish.nodes)
      Shrink(view, left - wish.nodes, std::max(0, left - MostNodes(limits)), now, &decision);
  }
  return decision;
}

}  // namespace adaptdl::autoscaler
