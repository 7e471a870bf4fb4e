// What holds of every decision, over all small pools and over random histories.

#include <map>
#include <random>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "services/autoscaler/pool_controller.h"

namespace adaptdl::autoscaler {
namespace {

int Active(const PoolView& view) {
  int active = 0;
  for (const PoolNodeView& node : view.nodes) active += node.phase != PoolNodePhase::kDraining;
  return active;
}

// Checks one decision against what the header promises.
void Check(const PoolLimits& limits, const PoolView& view, absl::Time now, const PoolDecision& decision) {
  const int active = Active(view);
  const bool cooling = view.last_change + limits.cooldown > now;
  std::map<std::string, PoolNodeView> nodes;
  for (const PoolNodeView& node : view.nodes) nodes[node.node_id] = node;
  std::set<std::string> touched;
  const int starts = decision.create;
  int gone = 0;
  for (const PoolAction& action : decision.actions) {
    ASSERT_TRUE(touched.insert(action.node_id).second) << "two actions on " << action.node_id;
    ASSERT_FALSE(action.reason.empty());
    ASSERT_TRUE(nodes.contains(action.node_id));
    const PoolNodeView& node = nodes[action.node_id];
    if (node.phase == PoolNodePhase::kDraining) {
      ASSERT_EQ(action.kind, PoolActionKind::kRemove);
      ASSERT_TRUE(node.empty);
      continue;
    }
    ++gone;
    ASSERT_FALSE(cooling && !node.requested) << "shrank within the cool-down";
    // A running node is drained first, whatever else.
    ASSERT_EQ(action.kind == PoolActionKind::kRemove, node.phase == PoolNodePhase::kStarting);
    const bool willing = node.phase == PoolNodePhase::kStarting || node.idle;
    ASSERT_TRUE(willing || active > limits.max_nodes) << "took a node in use";
  }
  ASSERT_TRUE(starts == 0 || gone == 0) << "grew and shrank at once";
  ASSERT_EQ(decision.target_nodes, active + starts - gone);
  ASSERT_EQ(decision.changes_size, starts + gone > 0);
  ASSERT_EQ(decision.cooldown_end.has_value(), cooling);
  ASSERT_FALSE(decision.reason.empty());
  if (starts > 0) {
    ASSERT_LE(static_cast<int>(view.nodes.size()) + starts, limits.max_nodes);
  }
  if (gone > 0) {
    ASSERT_GE(decision.target_nodes, std::min(limits.min_nodes, active));
  }
  if (!view.demand.has_value()) {
    ASSERT_EQ(gone, 0) << "shrank without the allocator";
    ASSERT_LE(active + starts, std::max(active, limits.min_nodes));
  }
}

// The kinds of node that the controller tells apart.
const PoolNodeView kKinds[] = {
    {"", PoolNodePhase::kStarting, true, false},      {"", PoolNodePhase::kRunning, false, false},
    {"", PoolNodePhase::kRunning, true, false},       {"", PoolNodePhase::kRunning, true, true},
    {"", PoolNodePhase::kDraining, true, false},      {"", PoolNodePhase::kDraining, false, false},
    {"", PoolNodePhase::kStarting, true, false, true}};

TEST(PoolControllerPropertyTest, HoldsForEverySmallPool) {
  ManualClock clock;
  int cases = 0;
  // Pools of up to four nodes of seven kinds each (7 = no node), under all limits, demands and cool-downs.
  for (int code = 0; code < 8 * 8 * 8 * 8; ++code) {
    PoolView view;
    for (int k = 0, rest = code; k < 4; ++k, rest /= 8) {
      if (rest % 8 == 7) continue;
      PoolNodeView node = kKinds[rest % 8];
      node.node_id = absl::StrCat("p-", k);
      view.nodes.push_back(node);
    }
    for (int min = 0; min <= 3; ++min) {
      for (int max = min; max <= 4; ++max) {
        for (int demand = -1; demand <= 5; ++demand) {
          for (const bool cooling : {false, true}) {
            view.demand = demand < 0 ? std::nullopt : std::optional<Demand>({demand, "why"});
            view.other_nodes = code % 3;
            view.last_change = clock.Now() - (cooling ? absl::Seconds(59) : absl::Seconds(60));
            const PoolLimits limits{"p", min, max, absl::Seconds(60)};
            Check(limits, view, clock.Now(), Decide(limits, view, clock.Now()));
            if (HasFatalFailure())
              FAIL() << "nodes " << code << " min " << min << " max " << max << " demand " << demand;
            ++cases;
          }
        }
      }
    }
  }
  EXPECT_GT(cases, 100'000);
}

// A pool that does what it is told, with jobs that come and go at random.
class World {
 public:
  World(const PoolLimits& limits, uint32_t seed) : limits_(limits), random_(seed) {
    view_.last_change = clock_.Now();
  }

  PoolView& view() { return view_; }

  void Round() {
    clock_.Advance(absl::Seconds(1));
    const PoolDecision decision = Decide(limits_, view_, clock_.Now());
    Check(limits_, view_, clock_.Now(), decision);
    for (int i = 0; i < decision.create; ++i) Create();
    for (const PoolAction& action : decision.actions) Apply(action);
    if (decision.changes_size) view_.last_change = clock_.Now();
  }

  // Nodes register, take work and finish it.
  void Live() {
    for (PoolNodeView& node : view_.nodes) {
      if (node.phase == PoolNodePhase::kStarting && Chance(2)) node.phase = PoolNodePhase::kRunning;
      node.requested = node.phase == PoolNodePhase::kStarting && Chance(2);
      if (node.phase == PoolNodePhase::kRunning && Chance(3)) node.empty = !node.empty;
      if (node.phase == PoolNodePhase::kDraining && Chance(4)) node.empty = true;
      node.idle = node.phase == PoolNodePhase::kRunning && node.empty && Chance(2);
    }
    if (Chance(20)) view_.demand = Demand{static_cast<int>(random_() % 12), "random"};
    if (Chance(50)) view_.demand.reset();
  }

  // Everything registers, ends its work, and the allocator wants `nodes`.
  void Settle(int nodes) {
    for (PoolNodeView& node : view_.nodes) {
      if (node.phase == PoolNodePhase::kStarting) node.phase = PoolNodePhase::kRunning;
      node.requested = false;
      node.empty = true;
      node.idle = node.phase == PoolNodePhase::kRunning;
    }
    view_.demand = Demand{nodes, "settled"};
  }

 private:
  bool Chance(uint32_t one_in) { return random_() % one_in == 0; }

  void Create() {
    view_.nodes.push_back({absl::StrCat("p-", made_++), PoolNodePhase::kStarting, true, false});
  }

  void Apply(const PoolAction& action) {
    const auto node = std::find_if(view_.nodes.begin(), view_.nodes.end(), [&](const auto& candidate) {
      return candidate.node_id == action.node_id;
    });
    ASSERT_NE(node, view_.nodes.end());
    if (action.kind == PoolActionKind::kRemove) {
      view_.nodes.erase(node);
    } else {
      node->phase = PoolNodePhase::kDraining;
      node->idle = false;
    }
  }

  const PoolLimits limits_;
  std::mt19937 random_;
  ManualClock clock_;
  PoolView view_;
  int made_ = 0;
};

TEST(PoolControllerPropertyTest, HoldsOverRandomHistoriesAndComesToRest) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const PoolLimits limits{"p", static_cast<int>(seed % 3), static_cast<int>(3 + seed % 7),
                            absl::Seconds(seed % 20)};
    World world(limits, seed);
    for (int i = 0; i < 300 && !::testing::Test::HasFatalFailure(); ++i) {
      world.Live();
      world.Round();
      ASSERT_LE(static_cast<int>(world.view().nodes.size()), limits.max_nodes);
    }
    const int wanted = static_cast<int>(seed % 12);
    for (int i = 0; i < 100; ++i) {
      world.Settle(wanted);
      world.Round();
    }
    EXPECT_EQ(static_cast<int>(world.view().nodes.size()),
              std::clamp(wanted, limits.min_nodes, limits.max_nodes))
        << seed;
  }
}

}  // namespace
}  // namespace adaptdl::autoscaler
