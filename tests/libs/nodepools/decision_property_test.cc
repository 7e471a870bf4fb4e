// Whatever the jobs and pools are: what is decided keeps every bound, and comes to rest.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/nodepools/decision.h"
#include "libs/nodepools/split.h"
#include "tests/libs/nodepools/demands.h"

namespace adaptdl::nodepools {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

class RandomCluster {
 public:
  explicit RandomCluster(uint64_t seed) : random_(seed) {}

  Target MakeTarget() {
    Target target;
    target.mode = static_cast<TargetMode>(Int(0, 3));
    target.budget_per_hour = Real(0.5, 20);
    target.goodput_per_price = Real(0.01, 2);
    target.deadline = kNow + absl::Seconds(Int(-100, 10'000));
    target.floor_on_lasting = Int(0, 1) == 1;
    target.cooldown = absl::ZeroDuration();
    return target;
  }

  ClusterState MakeState() {
    ClusterState state;
    state.now = kNow;
    kinds_ = Int(1, 3);
    for (int k = 0; k < kinds_; ++k) state.fixed_nodes.push_back(Int(0, 3) == 0 ? Int(0, 3) : 0);
    const int pools = Int(1, 4);
    for (int p = 0; p < pools; ++p) {
      Pool pool = MakePool(absl::StrCat("p", p), Int(0, 12), 0, Real(0.1, 3), Int(0, 1) == 1);
      pool.kind = Int(0, kinds_ - 1);
      pool.min_nodes = Int(0, std::min(2, pool.max_nodes));
      pool.last_change = kNow - absl::Hours(1);
      if (Int(0, 4) == 0) pool.refused_until = kNow + absl::Seconds(30);
      const int nodes = Int(0, pool.max_nodes);
      for (int i = 0; i < nodes; ++i) pool.nodes.push_back(RandomNode(pool.name, i));
      state.pools.push_back(std::move(pool));
    }
    state.jobs.emplace();
    const int jobs = Int(0, 12);
    for (int j = 0; j < jobs; ++j) state.jobs->push_back(RandomJob(j));
    return state;
  }

 private:
  PoolNode RandomNode(const std::string& pool, int index) {
    PoolNode node;
    node.id = absl::StrCat(pool, "-", index);
    node.phase = static_cast<NodePhase>(Int(0, 2));
    node.empty = node.phase == NodePhase::kStarting || Int(0, 1) == 1;
    node.idle = node.empty && Int(0, 1) == 1;
    node.requested = node.phase == NodePhase::kStarting && Int(0, 2) == 0;
    node.use = node.empty ? 0 : Real(0.1, 1);
    return node;
  }

  JobView RandomJob(int index) {
    std::vector<scheduling::KindDemand> kinds;
    for (int k = 0; k < kinds_; ++k) {
      if (Int(0, 3) > 0) kinds.push_back(On(k, Int(1, 16), Real(0.3, 1), Real(0.5, 4), Int(1, 4)));
    }
    JobView job = Waiting(absl::StrCat("job-", index), std::move(kinds));
    job.demand.weight = Real(0.2, 3);
    job.demand.priority = Int(-1, 1);
    if (Int(0, 1) == 1) job.demand.remaining_seconds = Real(1, 100'000);
    if (Int(0, 3) == 0) job.demand.deadline = kNow + absl::Seconds(Int(-10, 10'000));
    return job;
  }

  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  double Real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }

  std::mt19937_64 random_;
  int kinds_ = 1;
};

// Carries the decision out, all at once: what is made is there, what drains is gone.
ClusterState After(ClusterState state, const PoolsDecision& decision) {
  for (size_t p = 0; p < state.pools.size(); ++p) {
    std::vector<PoolNode>& nodes = state.pools[p].nodes;
    for (const PoolAction& action : decision.pools[p].actions) {
      nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                                 [&](const PoolNode& node) { return node.id == action.node_id; }),
                  nodes.end());
    }
    for (int i = 0; i < decision.pools[p].create; ++i) {
      PoolNode node;
      node.id = absl::StrCat(state.pools[p].name, "-n", nodes.size(), "-", i);
      nodes.push_back(node);
    }
    for (PoolNode& node : nodes) {
      if (node.phase == NodePhase::kStarting) node.phase = NodePhase::kRunning;
      node.requested = false;
    }
  }
  return state;
}

TEST(DecisionPropertyTest, BoundsAreKept) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    RandomCluster random(seed);
    const Target target = random.MakeTarget();
    const ClusterState state = random.MakeState();
    const PoolsDecision decision = DecidePools(target, state);
    ASSERT_EQ(decision.pools.size(), state.pools.size());
    for (size_t p = 0; p < state.pools.size(); ++p) {
      const Pool& pool = state.pools[p];
      const PoolDecision& decided = decision.pools[p];
      SCOPED_TRACE(absl::StrCat("seed ", seed, " pool ", p, ": ", decided.reason));
      EXPECT_GE(decided.wanted_nodes, pool.min_nodes);
      EXPECT_LE(decided.create + static_cast<int>(pool.nodes.size()),
                std::max<int>(pool.max_nodes, pool.nodes.size()));
      if (pool.refused_until.has_value() && decided.create > 0) {
        EXPECT_LE(decided.wanted_nodes, std::max(pool.min_nodes, ActiveNodes(pool)));
      }
      int drained = 0;
      int removed = 0;
      for (const PoolAction& action : decided.actions) {
        const auto node = std::find_if(pool.nodes.begin(), pool.nodes.end(),
                                       [&](const PoolNode& it) { return it.id == action.node_id; });
        ASSERT_NE(node, pool.nodes.end());
        if (action.kind == PoolActionKind::kDrain) {
          EXPECT_EQ(node->phase, NodePhase::kRunning);
          ++drained;
        } else {
          EXPECT_TRUE(node->phase == NodePhase::kStarting ||
                      (node->phase == NodePhase::kDraining && node->empty));
          removed += node->phase == NodePhase::kStarting;
        }
      }
      EXPECT_EQ(decided.target_nodes, ActiveNodes(pool) + decided.create - drained - removed);
      if (drained + removed > 0) {
        EXPECT_EQ(decided.create, 0);
        EXPECT_GE(decided.target_nodes, std::min(pool.min_nodes, ActiveNodes(pool)));
      }
    }
  }
}

TEST(DecisionPropertyTest, PoolsComeToRest) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomCluster random(seed);
    const Target target = random.MakeTarget();
    ClusterState state = random.MakeState();
    PoolsDecision decision;
    int rounds = 0;
    bool changed = true;
    for (; rounds < 12 && changed; ++rounds) {
      decision = DecidePools(target, state);
      changed = std::any_of(decision.pools.begin(), decision.pools.end(), [](const PoolDecision& pool) {
        return pool.create > 0 || !pool.actions.empty();
      });
      state = After(std::move(state), decision);
      // Nodes that drained are gone by now.
      for (Pool& pool : state.pools) {
        std::erase_if(pool.nodes, [](const PoolNode& node) { return node.phase == NodePhase::kDraining; });
      }
    }
    EXPECT_FALSE(changed) << "seed " << seed << " mode " << TargetModeName(target.mode);
  }
}

TEST(DecisionPropertyTest, ABudgetIsKeptWhereMinimaAllow) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    RandomCluster random(seed);
    Target target = random.MakeTarget();
    target.mode = TargetMode::kBudget;
    const ClusterState state = random.MakeState();
    const PoolsDecision decision = DecidePools(target, state);
    double cost = 0;
    double minima = 0;
    for (size_t p = 0; p < state.pools.size(); ++p) {
      cost += decision.pools[p].wanted_nodes * state.pools[p].price_per_hour;
      minima += state.pools[p].min_nodes * state.pools[p].price_per_hour;
    }
    EXPECT_LE(cost, std::max(minima, target.budget_per_hour) + 1e-6) << "seed " << seed;
  }
}

}  // namespace
}  // namespace adaptdl::nodepools
