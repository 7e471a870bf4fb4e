#include "services/autoscaler/observation.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class ObservationTest : public ::testing::Test {
 protected:
  ObservationTest() { observation_.kind.labels = {{"adaptdl.petuum.com/pool", "local"}}; }

  void Provided(const std::string& id, ProvidedState state = ProvidedState::kAlive) {
    observation_.provided.push_back({id, state});
  }
  void Registered(const std::string& id, v1::NodePhase phase, int replicas = 0,
                  const std::string& pool = "local") {
    v1::Node node;
    node.set_node_id(id);
    node.mutable_status()->set_phase(phase);
    node.mutable_status()->set_replicas(replicas);
    if (!pool.empty()) (*node.mutable_labels())["adaptdl.petuum.com/pool"] = pool;
    observation_.registered.push_back(node);
  }
  PoolNodeView Only() {
    const PoolView view = MakePoolView(observation_);
    EXPECT_EQ(view.nodes.size(), 1u);
    return view.nodes.at(0);
  }

  Observation observation_;
};

TEST_F(ObservationTest, ANodeThatHasNotRegisteredIsStarting) {
  Provided("local-0");
  EXPECT_EQ(Only().phase, PoolNodePhase::kStarting);
  EXPECT_TRUE(Only().empty);
}

TEST_F(ObservationTest, ALostNodeIsStartingAgain) {
  Provided("local-0", ProvidedState::kDead);
  Registered("local-0", v1::NODE_PHASE_LOST);
  EXPECT_EQ(Only().phase, PoolNodePhase::kStarting);
}

TEST_F(ObservationTest, ADeadWorkerWhoseReplicasRunIsNoEmptyNode) {
  Provided("local-0", ProvidedState::kDead);
  Registered("local-0", v1::NODE_PHASE_READY, 1);
  EXPECT_EQ(Only().phase, PoolNodePhase::kRunning);
  EXPECT_FALSE(Only().empty);
}

TEST_F(ObservationTest, IdleTakesTheAllocatorAndTheSupervisor) {
  Provided("local-0");
  observation_.capacity.emplace().add_idle_node_ids("local-0");
  EXPECT_FALSE(Only().idle);  // not registered
  Registered("local-0", v1::NODE_PHASE_READY, 0);
  EXPECT_TRUE(Only().idle);
  observation_.registered[0].mutable_status()->set_replicas(1);
  EXPECT_FALSE(Only().idle);
  observation_.registered[0].mutable_status()->set_replicas(0);
  observation_.capacity->clear_idle_node_ids();
  EXPECT_FALSE(Only().idle);
}

TEST_F(ObservationTest, ANodeThatSomebodyDrainsIsDraining) {
  Provided("local-0");
  Registered("local-0", v1::NODE_PHASE_DRAINING, 2);
  EXPECT_EQ(Only().phase, PoolNodePhase::kDraining);
  EXPECT_FALSE(Only().empty);
}

TEST_F(ObservationTest, ANodeThatStopsIsDraining) {
  Provided("local-0", ProvidedState::kStopping);
  Registered("local-0", v1::NODE_PHASE_READY);
  EXPECT_EQ(Only().phase, PoolNodePhase::kDraining);
}

TEST_F(ObservationTest, CountsTheNodesOutsideThePool) {
  Provided("local-0");
  Registered("local-0", v1::NODE_PHASE_READY);
  Registered("other-0", v1::NODE_PHASE_READY, 0, "other");
  Registered("by-hand", v1::NODE_PHASE_READY, 0, "");
  Registered("gone", v1::NODE_PHASE_LOST, 0, "");
  Registered("leaving", v1::NODE_PHASE_DRAINING, 1, "");
  // Ours once: neither ours nor another's.
  Registered("local-7", v1::NODE_PHASE_READY);
  Registered("local-8", v1::NODE_PHASE_DRAINING, 1);
  const PoolView view = MakePoolView(observation_);
  EXPECT_EQ(view.other_nodes, 2);
  EXPECT_THAT(view.taken_ids, UnorderedElementsAre("other-0", "by-hand", "gone", "leaving", "local-8"));
}

TEST_F(ObservationTest, WhatHasArrivedIsNotOnItsWayAsWell) {
  Provided("node-a", ProvidedState::kArrived);
  Provided("node-b", ProvidedState::kArrived);
  Provided("request-1", ProvidedState::kRequested);
  Provided("request-2", ProvidedState::kRequested);
  Registered("node-a", v1::NODE_PHASE_READY, 1);
  Registered("node-b", v1::NODE_PHASE_READY, 0);
  std::vector<std::string> ids;
  for (const PoolNodeView& node : MakePoolView(observation_).nodes) ids.push_back(node.node_id);
  EXPECT_THAT(ids, ElementsAre("node-a", "node-b", "request-2"))
      << "one that works is no answer to a request";
}

TEST_F(ObservationTest, AReleasedNodeCountsAgainWhenItIsUsed) {
  Provided("node-a", ProvidedState::kReleased);
  EXPECT_THAT(MakePoolView(observation_).nodes, IsEmpty());
  Registered("node-a", v1::NODE_PHASE_READY, 0);
  EXPECT_THAT(MakePoolView(observation_).nodes, IsEmpty());
  observation_.registered[0].mutable_status()->set_replicas(1);
  EXPECT_EQ(Only().phase, PoolNodePhase::kRunning);
}

// Of a pool whose nodes hold a GPU and have the label disk=ssd.
class ObservationOfKindTest : public ObservationTest {
 protected:
  ObservationOfKindTest() {
    v1::Node& node = observation_.kind.node.emplace();
    node.mutable_capacity()->set_cpu_millis(8000);
    node.mutable_capacity()->set_gpus(1);
    (*node.mutable_labels())["disk"] = "ssd";
  }
  v1::UnplacedReplica* Unplaced(int gpus) {
    if (!observation_.capacity.has_value()) observation_.capacity.emplace();
    v1::UnplacedReplica* replica = observation_.capacity->add_unplaced();
    replica->mutable_resources()->set_gpus(gpus);
    return replica;
  }
  Demand DemandNow() { return *MakePoolView(observation_).demand; }
};

TEST_F(ObservationOfKindTest, OthersCountIfTheyWorkOrCouldStandIn) {
  Registered("small", v1::NODE_PHASE_READY, 0, "");
  Registered("works", v1::NODE_PHASE_READY, 1, "");
  Registered("large", v1::NODE_PHASE_READY, 0, "");
  *observation_.registered[2].mutable_capacity() = observation_.kind.node->capacity();
  EXPECT_EQ(MakePoolView(observation_).other_nodes, 2);
}

TEST_F(ObservationOfKindTest, KnowsWhatWaitsForItsKind) {
  observation_.capacity.emplace().set_current_nodes(3);
  EXPECT_FALSE(DemandNow().lacks_kind);
  Unplaced(2);
  EXPECT_FALSE(DemandNow().lacks_kind) << "too large";
  (*Unplaced(1)->mutable_placement()->mutable_node_selector())["disk"] = "tape";
  EXPECT_FALSE(DemandNow().lacks_kind) << "for another place";
  (*Unplaced(1)->mutable_placement()->mutable_node_selector())["disk"] = "ssd";
  EXPECT_TRUE(DemandNow().lacks_kind);
}

TEST_F(ObservationOfKindTest, WithoutAnyNodeItServesWhatFits) {
  observation_.capacity.emplace().set_desired_nodes(1);
  Unplaced(2);
  EXPECT_EQ(DemandNow().desired_nodes, 0);
  Unplaced(1);
  EXPECT_EQ(DemandNow().desired_nodes, 1);
}

TEST_F(ObservationTest, ForgetsOnlyThePoolsOwnNodesThatAreGone) {
  Provided("local-0", ProvidedState::kDead);
  Registered("local-0", v1::NODE_PHASE_LOST);              // comes back
  Registered("local-1", v1::NODE_PHASE_LOST);              // gone
  Registered("local-2", v1::NODE_PHASE_DRAINING, 0);       // gone
  Registered("local-3", v1::NODE_PHASE_DRAINING, 1);       // still holds a replica
  Registered("local-4", v1::NODE_PHASE_READY);             // its lease runs
  Registered("by-hand", v1::NODE_PHASE_LOST, 0, "");       // not ours
  Registered("other-0", v1::NODE_PHASE_LOST, 0, "other");  // not ours
  EXPECT_THAT(NodesToForget(observation_), ElementsAre("local-1", "local-2"));
}

TEST_F(ObservationTest, WithoutTheAllocatorThereIsNoDemand) {
  EXPECT_FALSE(MakePoolView(observation_).demand.has_value());
  observation_.capacity.emplace().set_desired_nodes(3);
  observation_.capacity->set_reason("why");
  const PoolView view = MakePoolView(observation_);
  ASSERT_TRUE(view.demand.has_value());
  EXPECT_EQ(view.demand->desired_nodes, 3);
  EXPECT_EQ(view.demand->reason, "why");
  EXPECT_TRUE(view.demand->points.empty());
}

TEST_F(ObservationTest, ReadsWhatOtherSizesWouldBring) {
  v1::GetDesiredCapacityResponse& capacity = observation_.capacity.emplace();
  capacity.set_start_nodes(2);
  for (int nodes = 3; nodes <= 4; ++nodes) {
    v1::CapacityPoint* point = capacity.add_points();
    point->set_nodes(nodes);
    point->set_utility(1.5 / nodes);
  }
  capacity.mutable_points(1)->set_makespan_seconds(90);
  const Demand demand = *MakePoolView(observation_).demand;
  EXPECT_EQ(demand.start_nodes, 2);
  ASSERT_EQ(demand.points.size(), 2u);
  EXPECT_EQ(demand.points[0].nodes, 3);
  EXPECT_DOUBLE_EQ(demand.points[0].utility, 0.5);
  EXPECT_FALSE(demand.points[0].makespan.has_value());
  EXPECT_EQ(demand.points[1].makespan, absl::Seconds(90));
}

TEST_F(ObservationTest, PointsThatAreNotAsPromisedAreNotUsed) {
  v1::GetDesiredCapacityResponse& capacity = observation_.capacity.emplace();
  for (const int nodes : {1, 3}) capacity.add_points()->set_nodes(nodes);
  EXPECT_TRUE(MakePoolView(observation_).demand->points.empty());
  capacity.mutable_points(1)->set_nodes(2);
  EXPECT_EQ(MakePoolView(observation_).demand->points.size(), 2u);
  capacity.mutable_points(1)->set_utility(std::nan(""));
  EXPECT_TRUE(MakePoolView(observation_).demand->points.empty());
}

}  // namespace
}  // namespace adaptdl::autoscaler
