#include "services/autoscaler/pool_controller.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PoolControllerTest : public ::testing::Test {
 protected:
  PoolControllerTest() {
    limits_ = {.pool = "local", .min_nodes = 1, .max_nodes = 4, .cooldown = absl::Seconds(60)};
    view_.last_change = clock_.Now() - absl::Hours(1);
  }

  void Wants(int nodes) { view_.demand = Demand{nodes, "two jobs"}; }
  void Add(const std::string& id, PoolNodePhase phase, bool empty, bool idle) {
    view_.nodes.push_back({id, phase, empty, idle});
  }
  void Busy(const std::string& id) { Add(id, PoolNodePhase::kRunning, false, false); }
  void Idle(const std::string& id) { Add(id, PoolNodePhase::kRunning, true, true); }
  void Starting(const std::string& id) { Add(id, PoolNodePhase::kStarting, true, false); }
  void Draining(const std::string& id, bool empty) { Add(id, PoolNodePhase::kDraining, empty, false); }

  PoolDecision Run() { return Decide(limits_, view_, clock_.Now()); }

  // "create 2", "drain local-0", ...
  static std::vector<std::string> Actions(const PoolDecision& decision) {
    std::vector<std::string> actions;
    if (decision.create > 0) actions.push_back(absl::StrCat("create ", decision.create));
    for (const PoolAction& action : decision.actions) {
      actions.push_back(std::string(PoolActionKindName(action.kind)) + " " + action.node_id);
    }
    return actions;
  }

  ManualClock clock_;
  PoolLimits limits_;
  PoolView view_;
};

TEST_F(PoolControllerTest, GrowsAtOnceToWhatIsWanted) {
  Busy("local-0");
  Wants(3);
  view_.last_change = clock_.Now();
  const PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), ElementsAre("create 2"));
  EXPECT_EQ(decision.target_nodes, 3);
  EXPECT_TRUE(decision.changes_size);
  EXPECT_THAT(decision.reason, HasSubstr("the allocator would use 3 nodes (two jobs)"));
}

TEST_F(PoolControllerTest, StaysWithinItsLimits) {
  Wants(100);
  PoolDecision decision = Run();
  EXPECT_EQ(decision.target_nodes, 4);
  EXPECT_THAT(decision.reason, HasSubstr("at most 4"));
  Wants(0);
  decision = Run();
  EXPECT_EQ(decision.target_nodes, 1);
  EXPECT_THAT(decision.reason, HasSubstr("at least 1"));
}

TEST_F(PoolControllerTest, NodesOutsideThePoolCountToo) {
  view_.other_nodes = 2;
  Wants(3);
  const PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), ElementsAre("create 1"));
  EXPECT_THAT(decision.reason, HasSubstr("2 of them outside the pool"));
}

TEST_F(PoolControllerTest, NodesThatDrainCountTowardsTheMaximum) {
  Busy("local-0");
  Draining("local-1", false);
  Draining("local-2", false);
  Wants(4);
  const PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), ElementsAre("create 1"));
  EXPECT_EQ(decision.target_nodes, 2);
  EXPECT_THAT(decision.reason, HasSubstr("2 of them when as many have finished draining"));
}

TEST_F(PoolControllerTest, DoesNothingWhenAllIsRight) {
  Busy("local-0");
  Idle("local-1");
  Wants(2);
  const PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), IsEmpty());
  EXPECT_FALSE(decision.changes_size);
  EXPECT_EQ(decision.target_nodes, 2);
}

TEST_F(PoolControllerTest, ShrinksOnlyAfterTheCoolDown) {
  Busy("local-0");
  Idle("local-1");
  Idle("local-2");
  Wants(1);
  view_.last_change = clock_.Now();
  PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), IsEmpty());
  EXPECT_EQ(decision.target_nodes, 3);
  EXPECT_EQ(decision.cooldown_end, clock_.Now() + absl::Seconds(60));
  EXPECT_THAT(decision.reason, HasSubstr("no shrinking for another 1m"));
  clock_.Advance(absl::Seconds(59));
  EXPECT_THAT(Actions(Run()), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  decision = Run();
  EXPECT_THAT(Actions(decision), ElementsAre("drain local-2", "drain local-1"));
  EXPECT_EQ(decision.target_nodes, 1);
  EXPECT_FALSE(decision.cooldown_end.has_value());
}

TEST_F(PoolControllerTest, TakesBackAtOnceWhatItHasOnlyAskedFor) {
  Busy("local-0");
  Idle("local-1");
  Starting("local-2");
  view_.nodes.back().requested = true;
  Wants(1);
  view_.last_change = clock_.Now();
  const PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), ElementsAre("remove local-2"))
      << "and leaves what is there for the cool-down";
  EXPECT_EQ(decision.target_nodes, 2);
  EXPECT_TRUE(decision.changes_size);
  Wants(2);
  EXPECT_EQ(Run().actions.size(), 1u);
  Wants(3);
  EXPECT_THAT(Run().actions, IsEmpty());
}

TEST_F(PoolControllerTest, TakesNodesThatHaveNotStartedFirst) {
  Idle("local-0");
  Starting("local-1");
  Idle("local-2");
  Wants(2);
  EXPECT_THAT(Actions(Run()), ElementsAre("remove local-1"));
  EXPECT_TRUE(Run().changes_size);
  Wants(1);
  EXPECT_THAT(Actions(Run()), ElementsAre("remove local-1", "drain local-2"));
}

TEST_F(PoolControllerTest, NeverTakesANodeThatWorks) {
  Busy("local-0");
  Busy("local-1");
  Idle("local-2");
  Add("local-3", PoolNodePhase::kRunning, true, false);  // empty, but the allocator means to use it
  Wants(1);
  const PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), ElementsAre("drain local-2"));
  EXPECT_EQ(decision.target_nodes, 3);
  EXPECT_THAT(decision.reason, HasSubstr("2 more than that are still in use"));
}

TEST_F(PoolControllerTest, APoolOverItsMaximumGivesUpBusyNodesLast) {
  limits_.max_nodes = 2;
  Busy("local-0");
  Busy("local-1");
  Busy("local-2");
  Idle("local-3");
  Add("local-4", PoolNodePhase::kRunning, true, false);
  Wants(9);
  const PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), ElementsAre("drain local-3", "drain local-4", "drain local-2"));
  EXPECT_EQ(decision.target_nodes, 2);
}

TEST_F(PoolControllerTest, RemovesWhatHasDrained) {
  Busy("local-0");
  Draining("local-1", true);
  Draining("local-2", false);
  Wants(1);
  view_.last_change = clock_.Now();  // a cool-down does not keep what is empty
  const PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), ElementsAre("remove local-1"));
  EXPECT_FALSE(decision.changes_size);
  EXPECT_EQ(decision.target_nodes, 1);
}

TEST_F(PoolControllerTest, WithoutTheAllocatorItStaysAsItIs) {
  Idle("local-0");
  Idle("local-1");
  const PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), IsEmpty());
  EXPECT_EQ(decision.target_nodes, 2);
  EXPECT_THAT(decision.reason, HasSubstr("stays as it is"));
}

TEST_F(PoolControllerTest, TheMinimumNeedsNoAllocator) {
  const PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), ElementsAre("create 1"));
}

TEST_F(PoolControllerTest, AJobThatNeedsItsKindOfNodeIsWorthOne) {
  limits_.min_nodes = 0;
  view_.other_nodes = 3;
  Wants(3);
  EXPECT_THAT(Actions(Run()), IsEmpty());
  view_.demand->lacks_kind = true;
  EXPECT_THAT(Actions(Run()), ElementsAre("create 1"));
  EXPECT_THAT(Run().reason, HasSubstr("a job waits for a node of this pool's kind"));
  Starting("local-0");
  EXPECT_THAT(Actions(Run()), IsEmpty()) << "it is on its way";
}

TEST_F(PoolControllerTest, APoolOfNoneStaysEmpty) {
  limits_.min_nodes = limits_.max_nodes = 0;
  Wants(5);
  EXPECT_THAT(Actions(Run()), IsEmpty());
  EXPECT_EQ(Run().target_nodes, 0);
}

TEST_F(PoolControllerTest, FollowsTheBandOfUtility) {
  Busy("local-0");
  Wants(4);
  view_.demand->start_nodes = 1;
  for (const double utility : {1.0, 0.7, 0.45, 0.4}) {
    view_.demand->points.push_back({static_cast<int>(view_.demand->points.size()) + 1, utility});
  }
  const PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), ElementsAre("create 2"));
  EXPECT_DOUBLE_EQ(decision.utility.value(), 1);
  EXPECT_THAT(decision.reason, HasSubstr("would use 4 nodes (two jobs); 3 nodes for a utility of 0.45"));
}

TEST_F(PoolControllerTest, NodesOutsideThePoolCountTowardsTheUtility) {
  Busy("local-0");
  view_.other_nodes = 2;
  Wants(4);
  for (const double utility : {1.0, 0.7, 0.45, 0.4}) {
    view_.demand->points.push_back({static_cast<int>(view_.demand->points.size()) + 1, utility});
  }
  const PoolDecision decision = Run();
  EXPECT_THAT(decision.actions, IsEmpty());
  EXPECT_DOUBLE_EQ(decision.utility.value(), 0.45);
}

TEST_F(PoolControllerTest, BelowTheBandABusyNodeStays) {
  Busy("local-0");
  Busy("local-1");
  Busy("local-2");
  Wants(3);
  for (const double utility : {0.6, 0.45, 0.3}) {
    view_.demand->points.push_back({static_cast<int>(view_.demand->points.size()) + 1, utility});
  }
  EXPECT_THAT(Run().actions, IsEmpty());
  EXPECT_THAT(Run().reason, HasSubstr("1 more than that are still in use"));
  view_.nodes[2] = {"local-2", PoolNodePhase::kRunning, true, true};
  EXPECT_THAT(Actions(Run()), ElementsAre("drain local-2"));
}

TEST_F(PoolControllerTest, ABudgetBoundsThePoolEvenWhileNodesDrain) {
  limits_.target.mode = TargetMode::kBudget;
  limits_.target.node_price_per_hour = 0.5;
  limits_.target.budget_per_hour = 1.7;
  Busy("local-0");
  Wants(9);
  PoolDecision decision = Run();
  EXPECT_THAT(Actions(decision), ElementsAre("create 2"));
  EXPECT_THAT(decision.reason, HasSubstr("at most 3 for 1.70 per hour"));
  Draining("local-1", false);
  EXPECT_THAT(Actions(Run()), ElementsAre("create 1"));
}

}  // namespace
}  // namespace adaptdl::autoscaler
