#include "libs/nodepools/decision.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/nodepools/demands.h"

namespace adaptdl::nodepools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

Target Cost(double goodput_per_price) {
  Target target;
  target.mode = TargetMode::kCost;
  target.goodput_per_price = goodput_per_price;
  target.cooldown = absl::Seconds(60);
  return target;
}

ClusterState State(std::vector<Pool> pools, std::vector<JobView> jobs) {
  ClusterState state;
  state.pools = std::move(pools);
  state.fixed_nodes = {0};
  state.jobs = std::move(jobs);
  state.now = kNow;
  for (Pool& pool : state.pools) pool.last_change = kNow - absl::Hours(1);
  return state;
}

std::vector<JobView> JobsOfOneNode(int count) {
  std::vector<JobView> jobs;
  for (int i = 0; i < count; ++i) jobs.push_back(Running("job", {On(0, 1)}));
  return jobs;
}

std::vector<std::string> NodesOfActions(const PoolDecision& decision, PoolActionKind kind) {
  std::vector<std::string> ids;
  for (const PoolAction& action : decision.actions) {
    if (action.kind == kind) ids.push_back(action.node_id);
  }
  return ids;
}

TEST(DecisionTest, GrowsFromNothingForWhatWaits) {
  const PoolsDecision decision =
      DecidePools(Cost(0.1), State({MakePool("a", 4, 0, 1)}, {Waiting("job", {On(0, 2)})}));
  EXPECT_EQ(decision.pools[0].create, 2);
  EXPECT_EQ(decision.pools[0].target_nodes, 2);
  EXPECT_TRUE(decision.pools[0].changes_size);
  EXPECT_EQ(decision.cost_per_hour, 2);
  EXPECT_THAT(decision.pools[0].reason, HasSubstr("1 job, 1 of them waiting"));
}

TEST(DecisionTest, AsksForNoNodeTwice) {
  const PoolsDecision decision = DecidePools(
      Cost(0.1), State({MakePool("a", 4, 0, 1, false, /*starting=*/2)}, {Waiting("job", {On(0, 2)})}));
  EXPECT_EQ(decision.pools[0].create, 0);
  EXPECT_THAT(decision.pools[0].actions, IsEmpty());
}

TEST(DecisionTest, DrainsWorkingNodesThatAreNotWorthIt) {
  ClusterState state = State({MakePool("a", 8, 4, 1)}, JobsOfOneNode(2));
  state.pools[0].nodes[1].use = 0.25;
  state.pools[0].nodes[2].use = 0.5;
  const PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_THAT(NodesOfActions(decision.pools[0], PoolActionKind::kDrain), ElementsAre("a-1", "a-2"));
  EXPECT_EQ(decision.pools[0].target_nodes, 2);
}

TEST(DecisionTest, TakesIdleNodesFirstAndThoseThatAreNotThereYetBefore) {
  ClusterState state = State({MakePool("a", 8, 3, 1, false, /*starting=*/1)}, JobsOfOneNode(2));
  state.pools[0].nodes[0].empty = state.pools[0].nodes[0].idle = true;
  state.pools[0].nodes[0].use = 0;
  const PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_THAT(NodesOfActions(decision.pools[0], PoolActionKind::kRemove), ElementsAre("a-3"));
  EXPECT_THAT(NodesOfActions(decision.pools[0], PoolActionKind::kDrain), ElementsAre("a-0"));
}

TEST(DecisionTest, WaitsForTheCoolDownBeforeItShrinks) {
  ClusterState state = State({MakePool("a", 8, 4, 1)}, JobsOfOneNode(2));
  state.pools[0].last_change = kNow - absl::Seconds(59);
  const PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_THAT(decision.pools[0].actions, IsEmpty());
  EXPECT_EQ(decision.pools[0].cooldown_end, kNow + absl::Seconds(1));
  EXPECT_THAT(decision.pools[0].reason, HasSubstr("no shrinking for another 1s"));
}

TEST(DecisionTest, RemovesWhatHasDrained) {
  ClusterState state = State({MakePool("a", 8, 3, 1)}, JobsOfOneNode(1));
  state.pools[0].nodes[0].phase = NodePhase::kDraining;
  state.pools[0].nodes[1].phase = NodePhase::kDraining;
  state.pools[0].nodes[1].empty = true;
  const PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_THAT(NodesOfActions(decision.pools[0], PoolActionKind::kRemove), ElementsAre("a-1"));
  EXPECT_FALSE(decision.pools[0].changes_size);
}

TEST(DecisionTest, ReplacesANodeThatIsTakenAwayAtOnce) {
  ClusterState state = State({MakePool("a", 8, 2, 1)}, JobsOfOneNode(2));
  // By a notice of its cloud.
  state.pools[0].nodes[0].phase = NodePhase::kDraining;
  state.pools[0].last_change = kNow;
  EXPECT_EQ(DecidePools(Cost(0.1), state).pools[0].create, 1);
}

TEST(DecisionTest, NodesThatDrainCountTowardsTheMaximum) {
  ClusterState state = State({MakePool("a", 2, 2, 1)}, JobsOfOneNode(2));
  state.pools[0].nodes[0].phase = NodePhase::kDraining;
  const PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_EQ(decision.pools[0].create, 0);
  EXPECT_THAT(decision.pools[0].reason, HasSubstr("when as many have finished draining"));
}

TEST(DecisionTest, GoesToTheCheaperPoolAndDrainsTheDearerWhenThatIsThere) {
  const std::vector<JobView> jobs = JobsOfOneNode(2);
  ClusterState state = State({MakePool("lasting", 4, 2, 1), MakePool("spot", 4, 0, 0.3, true)}, jobs);
  PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_EQ(decision.pools[1].create, 2);
  EXPECT_THAT(decision.pools[0].actions, IsEmpty());
  EXPECT_THAT(decision.pools[0].reason, HasSubstr("when those that replace them are there"));
  state = State({MakePool("lasting", 4, 2, 1), MakePool("spot", 4, 1, 0.3, true, /*starting=*/1)}, jobs);
  decision = DecidePools(Cost(0.1), state);
  EXPECT_THAT(NodesOfActions(decision.pools[0], PoolActionKind::kDrain), ElementsAre("lasting-1"));
}

TEST(DecisionTest, APoolWithoutCapacityIsReplacedByTheNextOne) {
  ClusterState state =
      State({MakePool("lasting", 4, 0, 1), MakePool("spot", 4, 1, 0.3, true)}, JobsOfOneNode(3));
  state.pools[1].refused_until = kNow + absl::Seconds(90);
  const PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_EQ(decision.pools[0].create, 2);
  EXPECT_EQ(decision.pools[1].create, 0);
  EXPECT_THAT(decision.pools[1].reason, HasSubstr("asked again in 1m30s"));
}

TEST(DecisionTest, FloorsAreOnNodesThatLastAndTheSurplusOnSpot) {
  Target target = Cost(0.1);
  target.floor_on_lasting = true;
  const PoolsDecision decision =
      DecidePools(target, State({MakePool("lasting", 8, 0, 1), MakePool("spot", 8, 0, 0.3, true)},
                                {Waiting("a", {On(0, 4)}), Waiting("b", {On(0, 4)})}));
  EXPECT_EQ(decision.pools[0].create, 2);
  EXPECT_EQ(decision.pools[1].create, 6);
}

TEST(DecisionTest, NodesThatLastAreForTheFloorAndLeaveAllSpotNodesToTheSurplus) {
  // A node is worth half a unit to the job: more than a spot node costs, and less than one that lasts.
  Target target = Cost(2);
  target.floor_on_lasting = true;
  const PoolsDecision decision = DecidePools(
      target,
      State({MakePool("lasting", 8, 0, 1), MakePool("spot", 4, 0, 0.3, true)}, {Waiting("a", {On(0, 8)})}));
  EXPECT_EQ(decision.pools[0].create, 1);
  EXPECT_EQ(decision.pools[1].create, 4);
}

TEST(DecisionTest, WhatJobsNeedAtLeastGoesToTheKindWhoseNodesThatLastAreCheapest) {
  Target target = Cost(0.1);
  target.floor_on_lasting = true;
  std::vector<Pool> pools = {MakePool("a", 4, 0, 1), MakePool("a-spot", 4, 0, 0.1, true),
                             MakePool("b", 4, 0, 0.5), MakePool("b-spot", 4, 0, 0.3, true)};
  pools[2].kind = pools[3].kind = 1;
  ClusterState state = State(std::move(pools), {Waiting("job", {On(0, 1), On(1, 1)})});
  state.fixed_nodes = {0, 0};
  const PoolsDecision decision = DecidePools(target, state);
  EXPECT_EQ(decision.pools[0].create, 0);
  EXPECT_EQ(decision.pools[2].create, 1);
}

TEST(DecisionTest, NodesThatStandInAndAreStillToComeStayUntilOthersAreOnTheirWay) {
  // The cheap pool may be asked again, and may refuse again.
  ClusterState state = State({MakePool("dear", 4, 0, 1, false, 2), MakePool("spot", 4, 0, 0.3, true)},
                             {Waiting("job", {On(0, 2)})});
  PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_EQ(decision.pools[1].create, 2);
  EXPECT_THAT(decision.pools[0].actions, IsEmpty());
  state.pools[1] = MakePool("spot", 4, 0, 0.3, true, 2);
  decision = DecidePools(Cost(0.1), state);
  EXPECT_THAT(NodesOfActions(decision.pools[0], PoolActionKind::kRemove), ElementsAre("dear-1", "dear-0"));
}

TEST(DecisionTest, WithoutTheAllocatorPoolsStayButForTheirMinima) {
  ClusterState state = State({MakePool("a", 8, 3, 1), MakePool("b", 8, 0, 1)}, {});
  state.pools[1].min_nodes = 2;
  state.jobs.reset();
  const PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_EQ(decision.pools[0].target_nodes, 3);
  EXPECT_EQ(decision.pools[1].create, 2);
  EXPECT_THAT(decision.pools[0].reason, HasSubstr("stays as it is"));
}

TEST(DecisionTest, GoesDownToNothing) {
  ClusterState state = State({MakePool("a", 8, 2, 1)}, {});
  for (PoolNode& node : state.pools[0].nodes) node.empty = node.idle = true;
  const PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_THAT(NodesOfActions(decision.pools[0], PoolActionKind::kDrain), ElementsAre("a-1", "a-0"));
  EXPECT_EQ(decision.pools[0].target_nodes, 0);
}

TEST(DecisionTest, TakesBackWhatWasOnlyAskedForWithoutWaiting) {
  ClusterState state = State({MakePool("a", 8, 1, 1, false, /*starting=*/2)}, JobsOfOneNode(1));
  state.pools[0].last_change = kNow;
  for (PoolNode& node : state.pools[0].nodes) node.requested = node.phase == NodePhase::kStarting;
  const PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_THAT(NodesOfActions(decision.pools[0], PoolActionKind::kRemove), ElementsAre("a-2", "a-1"));
}

TEST(DecisionTest, APoolOverItsMaximumShrinksWhateverIsOnIt) {
  ClusterState state = State({MakePool("a", 2, 4, 1)}, JobsOfOneNode(4));
  const PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_EQ(decision.pools[0].target_nodes, 2);
  EXPECT_THAT(NodesOfActions(decision.pools[0], PoolActionKind::kDrain), ElementsAre("a-3", "a-2"));
}

TEST(DecisionTest, NodesOutsideThePoolsAreUsedFirst) {
  ClusterState state = State({MakePool("a", 8, 0, 1)}, JobsOfOneNode(3));
  state.fixed_nodes = {2};
  const PoolsDecision decision = DecidePools(Cost(0.1), state);
  EXPECT_EQ(decision.pools[0].create, 1);
  EXPECT_THAT(decision.pools[0].reason, HasSubstr("2 of them outside the pools"));
}

TEST(DecisionTest, SaysOfJobsThatNoPoolIsFor) {
  const PoolsDecision decision =
      DecidePools(Cost(0.1), State({MakePool("a", 8, 0, 1)}, {Waiting("job", {})}));
  EXPECT_EQ(decision.pools[0].create, 0);
  EXPECT_THAT(decision.pools[0].reason, HasSubstr("1 can't run on nodes of any pool"));
}

}  // namespace
}  // namespace adaptdl::nodepools
