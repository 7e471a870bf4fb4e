#include "libs/nodepools/decision.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/nodepools/split.h"

namespace adaptdl::nodepools {
namespace {

std::string NodeCount(int nodes) { return absl::StrCat(nodes, nodes == 1 ? " node" : " nodes"); }

std::string Wait(absl::Duration duration) {
  return absl::FormatDuration(absl::Ceil(duration, absl::Seconds(1)));
}

// The nodes that may go, first to go first; of equals the one with the last id.
std::vector<const PoolNode*> Candidates(const Pool& pool) {
  const auto rank = [](const PoolNode& node) {
    if (node.phase == NodePhase::kStarting) return 0;
    return node.idle ? 1 : node.empty ? 2 : 3;
  };
  std::vector<const PoolNode*> candidates;
  for (auto node = pool.nodes.rbegin(); node != pool.nodes.rend(); ++node) {
    if (node->phase != NodePhase::kDraining && !node->requested) candidates.push_back(&*node);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](const PoolNode* a, const PoolNode* b) {
    return rank(*a) != rank(*b) ? rank(*a) < rank(*b) : a->use < b->use;
  });
  return candidates;
}

class Decider {
 public:
  Decider(const Target& target, const ClusterState& state) : target_(target), state_(state) {
    decision_.pools.resize(state.pools.size());
  }

  PoolsDecision Run() {
    RemoveDrained();
    const std::vector<int> wanted = state_.jobs.has_value() ? Want() : KeepAll();
    std::vector<int> after(state_.pools.size());
    for (size_t p = 0; p < state_.pools.size(); ++p) {
      Carry(p, wanted[p]);
      after[p] = decision_.pools[p].target_nodes;
    }
    decision_.cost_per_hour = CostPerHour(state_.pools, after);
    return std::move(decision_);
  }

 private:
  void RemoveDrained() {
    for (size_t p = 0; p < state_.pools.size(); ++p) {
      for (const PoolNode& node : state_.pools[p].nodes) {
        if (node.phase == NodePhase::kDraining && node.empty)
          decision_.pools[p].actions.push_back({PoolActionKind::kRemove, node.id, "drained and empty"});
      }
    }
  }

  std::vector<int> KeepAll() {
    std::vector<int> wanted;
    for (size_t p = 0; p < state_.pools.size(); ++p) {
      const Pool& pool = state_.pools[p];
      wanted.push_back(std::max(ActiveNodes(pool), pool.min_nodes));
      decision_.pools[p].reason = ActiveNodes(pool) < pool.min_nodes
                                      ? absl::StrCat("at least ", pool.min_nodes)
                                      : "stays as it is while the allocator has nothing to say";
    }
    return wanted;
  }

  std::vector<KindOffer> Offers() const {
    std::vector<KindOffer> offers(state_.fixed_nodes.size());
    const std::vector<Supply> supplies = SuppliesOf(state_.pools, state_.fixed_nodes, state_.now);
    for (size_t k = 0; k < offers.size(); ++k) {
      offers[k].supply = supplies[k];
      offers[k].nodes = state_.fixed_nodes[k];
      offers[k].start_time = absl::InfiniteDuration();
    }
    for (const Pool& pool : state_.pools) {
      offers[pool.kind].nodes += ActiveNodes(pool);
      offers[pool.kind].start_time = std::min(offers[pool.kind].start_time, pool.start_time);
    }
    return offers;
  }

  // Nodes by pool.
  std::vector<int> Want() {
    const SplitRules rules{target_.floor_on_lasting, state_.now};
    const auto split = [&](const std::vector<int>& nodes, const std::vector<double>& floor) {
      return SplitNodes(state_.pools, nodes, floor, state_.fixed_nodes, rules);
    };
    const std::vector<KindOffer> offers = Offers();
    const CostFunction cost = [&](const std::vector<int>& nodes, const std::vector<double>& floor) {
      return CostPerHour(state_.pools, split(nodes, floor));
    };
    const Composition composition = Compose(target_, *state_.jobs, offers, cost, state_.now);
    decision_.utility = composition.utility;
    wanted_by_kind_.resize(offers.size());
    for (size_t k = 0; k < offers.size(); ++k)
      wanted_by_kind_[k] = std::clamp(offers[k].nodes, composition.grow[k], composition.keep[k]);
    const std::vector<int> wanted = split(wanted_by_kind_, composition.floor);
    for (size_t p = 0; p < state_.pools.size(); ++p) Explain(p, wanted[p], composition);
    return wanted;
  }

  void Explain(size_t p, int wanted, const Composition& composition) {
    const Pool& pool = state_.pools[p];
    std::string& reason = decision_.pools[p].reason;
    const int jobs = static_cast<int>(state_.jobs->size());
    reason = absl::StrCat(jobs, jobs == 1 ? " job" : " jobs");
    if (composition.waiting_jobs > 0)
      absl::StrAppend(&reason, ", ", composition.waiting_jobs, " of them waiting");
    absl::StrAppend(&reason, "; ", TargetModeName(target_.mode), ": ", composition.reason, "; ",
                    NodeCount(wanted_by_kind_[pool.kind]), " of this kind are wanted");
    if (state_.fixed_nodes[pool.kind] > 0)
      absl::StrAppend(&reason, ", ", state_.fixed_nodes[pool.kind], " of them outside the pools");
    const int kind_pools =
        static_cast<int>(std::count_if(state_.pools.begin(), state_.pools.end(),
                                       [&](const Pool& other) { return other.kind == pool.kind; }));
    if (kind_pools > 1) absl::StrAppend(&reason, ", ", wanted, " of them from this pool");
    if (wanted == pool.min_nodes && wanted > 0) absl::StrAppend(&reason, "; at least ", pool.min_nodes);
    if (wanted == pool.max_nodes) absl::StrAppend(&reason, "; at most ", pool.max_nodes);
    if (pool.refused_until.has_value() && *pool.refused_until > state_.now) {
      absl::StrAppend(&reason, "; it has no capacity for now and is asked again in ",
                      Wait(*pool.refused_until - state_.now));
    }
    if (composition.unplaced_jobs > 0)
      absl::StrAppend(&reason, "; ", composition.unplaced_jobs, " can't run on nodes of any pool");
  }

  void Carry(size_t p, int wanted) {
    const Pool& pool = state_.pools[p];
    PoolDecision& decision = decision_.pools[p];
    const int active = ActiveNodes(pool);
    const absl::Time cooldown_end = pool.last_change + target_.cooldown;
    if (cooldown_end > state_.now) decision.cooldown_end = cooldown_end;
    decision.target_nodes = active;
    decision.wanted_nodes = wanted;
    if (wanted > active) Grow(pool, wanted - active, &decision);
    if (wanted >= active) return;
    const int withdrawn = Withdraw(pool, active - wanted, &decision);
    if (active - withdrawn > wanted) Shrink(pool, active - withdrawn - wanted, &decision);
  }

  void Grow(const Pool& pool, int missing, PoolDecision* decision) {
    const int room = std::max(0, pool.max_nodes - static_cast<int>(pool.nodes.size()));
    const int count = std::min(missing, room);
    if (count < missing) {
      absl::StrAppend(&decision->reason, "; ", missing - count,
                      " of them when as many have finished draining");
    }
    decision->create = count;
    decision->target_nodes += count;
    decision->changes_size = count > 0;
  }

  // Takes back requests: that costs nothing, and a moment later it may. Returns how many.
  static int Withdraw(const Pool& pool, int surplus, PoolDecision* decision) {
    int withdrawn = 0;
    for (auto node = pool.nodes.rbegin(); node != pool.nodes.rend() && withdrawn < surplus; ++node) {
      if (!node->requested) continue;
      decision->actions.push_back({PoolActionKind::kRemove, node->id, decision->reason});
      ++withdrawn;
    }
    decision->target_nodes -= withdrawn;
    decision->changes_size = withdrawn > 0;
    return withdrawn;
  }

  // Nodes of the kind that none of the decisions so far takes away: those that are in the cluster, and all that are there
  // or on their way. Nodes that a pool without capacity has only asked for do not count.
  struct Present {
    int running = 0;
    int active = 0;
  };
  Present PresentOf(int kind) const {
    Present present{state_.fixed_nodes[kind], state_.fixed_nodes[kind]};
    for (size_t p = 0; p < state_.pools.size(); ++p) {
      if (state_.pools[p].kind != kind) continue;
      const std::vector<PoolNode>& nodes = state_.pools[p].nodes;
      present.running += RunningNodes(state_.pools[p]);
      present.active += ActiveNodes(state_.pools[p]);
      present.active -= static_cast<int>(
          std::count_if(nodes.begin(), nodes.end(), [](const PoolNode& node) { return node.hindered; }));
      for (const PoolAction& action : decision_.pools[p].actions) {
        const auto node = std::find_if(nodes.begin(), nodes.end(),
                                       [&](const PoolNode& other) { return other.id == action.node_id; });
        present.running -= node->phase == NodePhase::kRunning;
        present.active -= node->phase != NodePhase::kDraining && !node->hindered;
      }
    }
    return present;
  }

  void Shrink(const Pool& pool, int surplus, PoolDecision* decision) {
    if (decision->cooldown_end.has_value()) {
      absl::StrAppend(&decision->reason, "; no shrinking for another ",
                      Wait(*decision->cooldown_end - state_.now));
      return;
    }
    // Without demand nothing is known of others; only a pool beyond its maximum comes here then.
    const int wanted_of_kind = wanted_by_kind_.empty() ? 0 : wanted_by_kind_[pool.kind];
    const bool over_maximum = ActiveNodes(pool) > pool.max_nodes;
    const Present present = PresentOf(pool.kind);
    int may_go = over_maximum ? surplus : std::max(0, present.active - wanted_of_kind);
    int may_drain = over_maximum ? surplus : std::max(0, present.running - wanted_of_kind);
    int taken = 0;
    for (const PoolNode* node : Candidates(pool)) {
      if (taken == surplus || may_go-- <= 0) break;
      const bool starting = node->phase == NodePhase::kStarting;
      // A node that never registered can't be drained, and need not be.
      if (!starting && may_drain-- <= 0) break;
      decision->actions.push_back(
          {starting ? PoolActionKind::kRemove : PoolActionKind::kDrain, node->id, decision->reason});
      ++taken;
    }
    decision->target_nodes -= taken;
    decision->changes_size |= taken > 0;
    if (taken < surplus) {
      absl::StrAppend(&decision->reason, "; ", surplus - taken,
                      " more go when those that replace them are there");
    }
  }

  const Target& target_;
  const ClusterState& state_;
  std::vector<int> wanted_by_kind_;
  PoolsDecision decision_;
};

}  // namespace

absl::string_view PoolActionKindName(PoolActionKind kind) {
  switch (kind) {
    case PoolActionKind::kDrain:
      return "drain";
    case PoolActionKind::kRemove:
      return "remove";
  }
  return "unknown";
}

PoolsDecision DecidePools(const Target& target, const ClusterState& state) {
  return Decider(target, state).Run();
}

}  // namespace adaptdl::nodepools
