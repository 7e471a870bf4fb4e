#include "services/autoscaler/observation.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class ObservationTest : public ::testing::Test {
 protected:
  ObservationTest() { pool_.kind.labels = {{"adaptdl.petuum.com/pool", "local"}}; }

  void Provided(const std::string& id, ProvidedState state = ProvidedState::kAlive) {
    pool_.provided.push_back({id, state});
  }
  void Registered(const std::string& id, v1::NodePhase phase, int replicas = 0,
                  const std::string& pool = "local") {
    v1::Node node;
    node.set_node_id(id);
    node.mutable_status()->set_phase(phase);
    node.mutable_status()->set_replicas(replicas);
    if (!pool.empty()) (*node.mutable_labels())["adaptdl.petuum.com/pool"] = pool;
    registered_.push_back(node);
  }
  std::vector<nodepools::PoolNode> Nodes() const { return NodesOf(pool_, registered_, idle_); }
  nodepools::PoolNode Only() const {
    const std::vector<nodepools::PoolNode> nodes = Nodes();
    EXPECT_EQ(nodes.size(), 1u);
    return nodes.at(0);
  }

  ObservedPool pool_;
  std::vector<v1::Node> registered_;
  std::set<std::string> idle_;
};

TEST_F(ObservationTest, ANodeThatHasNotRegisteredIsStarting) {
  Provided("local-0");
  EXPECT_EQ(Only().phase, nodepools::NodePhase::kStarting);
  EXPECT_TRUE(Only().empty);
}

TEST_F(ObservationTest, ALostNodeIsStartingAgain) {
  Provided("local-0", ProvidedState::kDead);
  Registered("local-0", v1::NODE_PHASE_LOST);
  EXPECT_EQ(Only().phase, nodepools::NodePhase::kStarting);
}

TEST_F(ObservationTest, ADeadWorkerWhoseReplicasRunIsNoEmptyNode) {
  Provided("local-0", ProvidedState::kDead);
  Registered("local-0", v1::NODE_PHASE_READY, 1);
  EXPECT_EQ(Only().phase, nodepools::NodePhase::kRunning);
  EXPECT_FALSE(Only().empty);
}

TEST_F(ObservationTest, IdleTakesTheAllocatorAndTheSupervisor) {
  Provided("local-0");
  idle_ = {"local-0"};
  EXPECT_FALSE(Only().idle);  // not registered
  Registered("local-0", v1::NODE_PHASE_READY, 0);
  EXPECT_TRUE(Only().idle);
  registered_[0].mutable_status()->set_replicas(1);
  EXPECT_FALSE(Only().idle);
  registered_[0].mutable_status()->set_replicas(0);
  idle_.clear();
  EXPECT_FALSE(Only().idle);
}

TEST_F(ObservationTest, ANodeThatSomebodyDrainsIsDraining) {
  Provided("local-0");
  Registered("local-0", v1::NODE_PHASE_DRAINING, 2);
  EXPECT_EQ(Only().phase, nodepools::NodePhase::kDraining);
  EXPECT_FALSE(Only().empty);
}

TEST_F(ObservationTest, ANodeThatStopsIsDraining) {
  Provided("local-0", ProvidedState::kStopping);
  Registered("local-0", v1::NODE_PHASE_READY);
  EXPECT_EQ(Only().phase, nodepools::NodePhase::kDraining);
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
  Observation observation;
  observation.pools = {pool_};
  observation.registered = registered_;
  std::vector<std::string> others;
  for (const v1::Node& node : OtherNodes(observation)) others.push_back(node.node_id());
  EXPECT_THAT(others, ElementsAre("other-0", "by-hand"));
  EXPECT_THAT(TakenIds(pool_, registered_),
              UnorderedElementsAre("other-0", "by-hand", "gone", "leaving", "local-8"));
}

TEST_F(ObservationTest, NoNewNodeIsToBeOneThatDrains) {
  Provided("node-a", ProvidedState::kReleased);
  Provided("node-b", ProvidedState::kReleased);
  Registered("node-a", v1::NODE_PHASE_DRAINING);
  Registered("node-b", v1::NODE_PHASE_READY);
  EXPECT_THAT(TakenIds(pool_, registered_), UnorderedElementsAre("node-a"));
}

TEST_F(ObservationTest, WhatHasArrivedIsNotOnItsWayAsWell) {
  Provided("node-a", ProvidedState::kArrived);
  Provided("node-b", ProvidedState::kArrived);
  Provided("request-1", ProvidedState::kRequested);
  Provided("request-2", ProvidedState::kRequested);
  Registered("node-a", v1::NODE_PHASE_READY, 1);
  Registered("node-b", v1::NODE_PHASE_READY, 0);
  std::vector<std::string> ids;
  for (const nodepools::PoolNode& node : Nodes()) ids.push_back(node.id);
  EXPECT_THAT(ids, ElementsAre("node-a", "node-b", "request-2"))
      << "one that works is no answer to a request";
}

TEST_F(ObservationTest, AReleasedNodeCountsAgainWhenItIsUsed) {
  Provided("node-a", ProvidedState::kReleased);
  EXPECT_THAT(Nodes(), IsEmpty());
  Registered("node-a", v1::NODE_PHASE_READY, 0);
  EXPECT_THAT(Nodes(), IsEmpty());
  registered_[0].mutable_status()->set_replicas(1);
  EXPECT_EQ(Only().phase, nodepools::NodePhase::kRunning);
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
  EXPECT_THAT(NodesToForget(pool_, registered_), ElementsAre("local-1", "local-2"));
}

TEST_F(ObservationTest, UseIsTheLargestPartOfAnything) {
  Provided("local-0");
  Registered("local-0", v1::NODE_PHASE_READY, 2);
  registered_[0].mutable_capacity()->set_cpu_millis(4000);
  registered_[0].mutable_capacity()->set_gpus(4);
  registered_[0].mutable_status()->mutable_allocated()->set_cpu_millis(1000);
  registered_[0].mutable_status()->mutable_allocated()->set_gpus(2);
  EXPECT_EQ(Only().use, 0.5);
}

TEST_F(ObservationTest, WhatKeepsANodeFromComingHindersIt) {
  pool_.provided.push_back({"request-1", ProvidedState::kRequested, "no machines left"});
  EXPECT_TRUE(Only().hindered);
}

TEST_F(ObservationTest, ANodeOfThePoolTellsWhatItsNodesAreLike) {
  EXPECT_FALSE(LikeOf(pool_, std::nullopt, registered_).has_value());
  v1::Node said;
  said.mutable_capacity()->set_cpu_millis(4000);
  EXPECT_EQ(LikeOf(pool_, said, registered_)->capacity().cpu_millis(), 4000);
  Provided("local-0");
  Registered("local-0", v1::NODE_PHASE_READY);
  registered_[0].mutable_capacity()->set_cpu_millis(3900);
  EXPECT_EQ(LikeOf(pool_, said, registered_)->capacity().cpu_millis(), 3900);
  registered_[0].add_problems("GPU 3 has failed");
  EXPECT_EQ(LikeOf(pool_, said, registered_)->capacity().cpu_millis(), 4000);
}

}  // namespace
}  // namespace adaptdl::autoscaler
