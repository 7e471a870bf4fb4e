#include "libs/scheduling/greedy_policy.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Decision Decide(const ClusterView& view) { return GreedyPolicy({}).Decide(view, 1); }

TEST(GreedyPolicy, TellsTheStoryOfTwoJobsOnTwoSlots) {
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("a", 1)});
  view = After(view, Decide(view));
  EXPECT_THAT(view.jobs[0].allocation, ElementsAre("n0"));

  // It reported its speed: twice what it measured.
  view.jobs[0].max_replicas = 2;
  view.jobs[0].speedup = Scaling(0.1, 2);
  view = After(view, Decide(view));
  EXPECT_THAT(view.jobs[0].allocation, ElementsAre("n0", "n1"));

  view.jobs.push_back(Job("b", 1));
  view = After(view, Decide(view));
  EXPECT_THAT(view.jobs[0].allocation, ElementsAre("n0"));
  EXPECT_THAT(view.jobs[1].allocation, ElementsAre("n1"));

  view.jobs.pop_back();
  view = After(view, Decide(view));
  EXPECT_THAT(view.jobs[0].allocation, ElementsAre("n0", "n1"));
}

TEST(GreedyPolicy, GivesNoReplicaToAJobThatDoesNotGetFaster) {
  // The exchange takes as long as half of the work: two replicas are no faster than one.
  const ClusterView view = View({Node("n0"), Node("n1")}, {Job("a", 2, Scaling(0.5))});
  const Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, ElementsAre("n0"));
  EXPECT_THAT(decision.jobs[0].reason, HasSubstr("not make it faster"));
  EXPECT_THAT(decision.capacity.idle_nodes, ElementsAre("n1"));
}

TEST(GreedyPolicy, DoesNotRescaleForALittle) {
  // The second replica adds 5 %: less than the re-scale is charged.
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("a", 2, Scaling(0.4524))});
  ASSERT_NEAR(view.jobs[0].speedup->At(2, 2), 1.05, 0.001);
  view.jobs[0].allocation = {"n0"};
  EXPECT_THAT(Decide(view).jobs[0].allocation, ElementsAre("n0"));
  EXPECT_THAT(Decide(view).jobs[0].reason, HasSubstr("less than re-scaling costs"));
  // A job that has them keeps them.
  view.jobs[0].allocation = {"n1", "n0"};
  EXPECT_THAT(Decide(view).jobs[0].allocation, ElementsAre("n1", "n0"));
}

TEST(GreedyPolicy, PacksAJobOnOneNode) {
  const ClusterView view = View({Node("n0", 1000), Node("n1", 4000), Node("n2", 2000)}, {Job("a", 4)});
  EXPECT_THAT(Decide(view).jobs[0].allocation, ElementsAre("n1", "n1", "n1", "n1"));
}

TEST(GreedyPolicy, LeavesJobsWhereTheyAreWhenAnotherArrives) {
  ClusterView view = View({Node("n0", 4000), Node("n1", 4000)},
                          {Job("a", 4, Scaling(0.05)), Job("b", 3, Scaling(0.05)), Job("c", 1)});
  view.jobs[0].allocation = Nodes(4, "n1");
  view.jobs[1].allocation = Nodes(3, "n0");
  const Decision decision = Decide(view);
  EXPECT_EQ(decision.jobs[0].allocation, Nodes(4, "n1"));
  EXPECT_EQ(decision.jobs[1].allocation, Nodes(3, "n0"));
  EXPECT_THAT(decision.jobs[2].allocation, ElementsAre("n0"));
}

TEST(GreedyPolicy, GivesOnlyAllowedSizes) {
  ClusterView view = View({Node("n0", 2000), Node("n1", 3000)}, {Job("a", 4)});
  view.jobs[0].allowed_replicas = {1, 2, 4};
  EXPECT_EQ(Decide(view).jobs[0].allocation.size(), 4u);
  view.nodes[1].capacity[kCpu] = 1000;
  const Decision decision = Decide(view);
  EXPECT_EQ(decision.jobs[0].allocation.size(), 2u);
  EXPECT_THAT(decision.jobs[0].reason, HasSubstr("no room for 2 more, the next size that it may have"));
  // From two on two nodes to four on four.
  view = View({Node("n0"), Node("n1"), Node("n2"), Node("n3")}, {Job("a", 4)});
  view.jobs[0].allowed_replicas = {2, 4};
  view.jobs[0].allocation = {"n0", "n1"};
  EXPECT_EQ(Decide(view).jobs[0].allocation.size(), 4u);
  // A node is gone: not three.
  view.jobs[0].allocation = {"n0", "n1", "n2", "n3"};
  view.nodes.pop_back();
  EXPECT_EQ(Decide(view).jobs[0].allocation.size(), 2u);
}

TEST(GreedyPolicy, GivesAllOfTheMinimumOrNothing) {
  ClusterView view = View({Node("n0", 2000), Node("n1", 2000)}, {Job("a", 8), Job("b", 8)});
  view.jobs[0].min_replicas = 3;
  view.jobs[1].min_replicas = 2;
  const Decision decision = Decide(view);
  EXPECT_EQ(decision.jobs[0].allocation.size(), 4u);
  EXPECT_THAT(decision.jobs[1].allocation, IsEmpty());
  EXPECT_THAT(decision.jobs[1].reason, HasSubstr("room for 2 replicas"));
}

TEST(GreedyPolicy, ServesMinimaInOrderOfSubmission) {
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("a"), Job("b"), Job("c")});
  view.jobs[2].allocation = {"n0", "n1"};
  const Decision decision = Decide(view);
  EXPECT_EQ(decision.jobs[0].allocation.size(), 1u);
  EXPECT_EQ(decision.jobs[1].allocation.size(), 1u);
  EXPECT_THAT(decision.jobs[2].allocation, IsEmpty());
}

TEST(GreedyPolicy, NeverTouchesAJobThatIsNotPreemptible) {
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("a"), Job("b", 8)});
  view.jobs[1].preemptible = false;
  view.jobs[1].allocation = {"n1", "n0"};
  Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, IsEmpty());
  EXPECT_THAT(decision.jobs[1].allocation, ElementsAre("n1", "n0"));
  EXPECT_THAT(decision.jobs[1].reason, HasSubstr("not preemptible"));
  // Not even on a node that drains.
  view.nodes[0].draining = true;
  decision = Decide(view);
  EXPECT_THAT(decision.jobs[1].allocation, ElementsAre("n1", "n0"));
  // When a node is gone, it has to be placed anew.
  view.nodes.erase(view.nodes.begin());
  view.jobs[1].min_replicas = 1;
  decision = Decide(view);
  EXPECT_THAT(decision.jobs[1].allocation, IsEmpty());
  EXPECT_THAT(decision.jobs[0].allocation, ElementsAre("n1"));
}

TEST(GreedyPolicy, HoldsBackWhatCouldNotBeMovedForAnEarlierGang) {
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("pinned"), Job("gang"), Job("later")});
  view.jobs[0].preemptible = false;
  view.jobs[0].allocation = {"n0"};
  view.jobs[1].min_replicas = 2;
  view.jobs[2].preemptible = false;
  Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[2].allocation, IsEmpty());
  EXPECT_THAT(decision.jobs[2].reason, HasSubstr("earlier"));
  // A gang that the cluster can't hold blocks nobody.
  view.jobs[1].min_replicas = 3;
  decision = Decide(view);
  EXPECT_THAT(decision.jobs[2].allocation, ElementsAre("n1"));
  EXPECT_THAT(decision.jobs[1].reason, HasSubstr("needs 3 replicas at once, and the whole cluster holds 2"));
}

TEST(GreedyPolicy, EmptiesDrainingNodes) {
  ClusterView view = View({Node("n0"), Node("n1"), Node("n2")}, {Job("a", 2), Job("b", 1)});
  view.jobs[0].allocation = {"n0", "n1"};
  view.jobs[1].allocation = {"n2"};
  view.nodes[1].draining = true;
  const Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, ElementsAre("n0"));
  EXPECT_THAT(decision.jobs[1].allocation, ElementsAre("n2"));
  EXPECT_EQ(decision.capacity.current_nodes, 2);
}

TEST(GreedyPolicy, MovesAJobFromADrainingNodeToAFreeOne) {
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("a", 1)});
  view.jobs[0].allocation = {"n0"};
  view.nodes[0].draining = true;
  EXPECT_THAT(Decide(view).jobs[0].allocation, ElementsAre("n1"));
}

TEST(GreedyPolicy, ReplacesNodesThatAreGone) {
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("a", 2)});
  view.jobs[0].allocation = {"lost", "n1"};
  EXPECT_THAT(Decide(view).jobs[0].allocation, ElementsAre("n1", "n0"));
}

TEST(GreedyPolicy, SaysWhatNoNodeOffers) {
  ClusterView view = View({Node("n0", 1000), Node("n1", 500)}, {Job("a"), Job("b"), Job("c")});
  view.jobs[0].request = {{kCpu, 4000}};
  view.jobs[1].request = {{kGpu, 2}};
  const Decision decision = Decide(view);
  EXPECT_TRUE(decision.jobs[0].unschedulable);
  EXPECT_EQ(decision.jobs[0].reason, "one replica needs 4000m CPU; the largest node offers 1000m CPU");
  EXPECT_TRUE(decision.jobs[1].unschedulable);
  EXPECT_EQ(decision.jobs[1].reason, "one replica needs 2 GPUs; the largest node offers 0 GPUs");
  EXPECT_FALSE(decision.jobs[2].unschedulable);
  EXPECT_THAT(decision.jobs[2].allocation, ElementsAre("n0"));
}

TEST(GreedyPolicy, WaitsForANodeInAnEmptyCluster) {
  const Decision decision = Decide(View({}, {Job("a")}));
  EXPECT_FALSE(decision.jobs[0].unschedulable);
  EXPECT_THAT(decision.jobs[0].reason, HasSubstr("none that takes replicas"));
  EXPECT_EQ(decision.capacity.desired_nodes, 1);
  EXPECT_EQ(Decide(View({}, {})).capacity.desired_nodes, 0);
}

TEST(GreedyPolicy, GivesRoomToWhomItHelpsMost) {
  // Both may grow; only one scales well.
  ClusterView view =
      View({Node("n0", 8000)}, {Job("poor", 8, Scaling(0, 64, 0.1)), Job("good", 8, Linear())});
  const Decision decision = Decide(view);
  EXPECT_GT(decision.jobs[1].allocation.size(), decision.jobs[0].allocation.size());
  EXPECT_EQ(decision.jobs[0].allocation.size() + decision.jobs[1].allocation.size(), 8u);
}

TEST(GreedyPolicy, TradesReplicasWhenASaturatedJobHoldsThem) {
  ClusterView view = View({Node("n0", 8000)}, {Job("saturated", 8, Scaling(0, 64, 0.3)), Job("good", 8)});
  view.jobs[0].allocation = Nodes(7, "n0");
  view.jobs[1].allocation = Nodes(1, "n0");
  const Decision decision = Decide(view);
  EXPECT_GE(decision.jobs[1].allocation.size(), 4u);
  EXPECT_GE(decision.jobs[0].allocation.size(), 1u);
}

TEST(GreedyPolicy, LeapsOverTheFirstSlowStepToASecondNode) {
  // Within a node the exchange is free, between nodes it takes 0.2: five replicas are slower than four, eight
  // faster.
  ClusterView view = View({Node("n0", 4000), Node("n1", 4000)}, {Job("a", 8, Scaling(0.1))});
  ASSERT_LT(view.jobs[0].speedup->At(2, 5), view.jobs[0].speedup->At(1, 4));
  ASSERT_GT(view.jobs[0].speedup->At(2, 8), view.jobs[0].speedup->At(1, 4) + 0.1);
  EXPECT_EQ(Decide(view).jobs[0].allocation.size(), 8u);
}

TEST(GreedyPolicy, PrefersLastingNodesForWhatCannotBeMoved) {
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("a", 1)});
  view.nodes[0].preemptible = true;
  view.jobs[0].preemptible = false;
  EXPECT_THAT(Decide(view).jobs[0].allocation, ElementsAre("n1"));
}

TEST(GreedyPolicy, StartsAJobAtTheSizeThatCanBeFed) {
  // 64 samples at most per replica, 128 in all.
  const goodput::GoodputFunction goodput({.1, .005, .02, .006, .01, .003, 1.1}, {}, 128);
  const auto table =
      std::make_shared<goodput::SpeedupTable>(goodput::SpeedupTable::Build(goodput, {.max_local = 64}, 4));
  const ClusterView view = View({Node("n0", 2000)}, {Job("a", 4, table)});
  EXPECT_EQ(Decide(view).jobs[0].allocation.size(), 2u);
}

}  // namespace
}  // namespace adaptdl::scheduling
