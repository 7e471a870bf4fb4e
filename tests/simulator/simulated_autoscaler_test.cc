#include "simulator/simulated_autoscaler.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/cluster.h"
#include "simulator/nodes.h"

namespace adaptdl::simulator {
namespace {

// A node of four GPUs is what each of so many jobs takes, no more and no less. Nobody is placed yet.
NodeDemand WholeNodes(int jobs) {
  NodeDemand demand;
  for (int j = 0; j < jobs; ++j) {
    scheduling::JobDemand job;
    job.key = absl::StrCat("job-", j);
    job.kinds.push_back({.kind = 0, .per_node = 4, .sizes = {{4, 4.0}}});
    demand.jobs.push_back(std::move(job));
  }
  return demand;
}

class AutoscalerTest : public testing::Test {
 protected:
  explicit AutoscalerTest(const NodeOptions& options)
      : options_(options), nodes_(cluster_, options_, 1), autoscaler_(cluster_, options_, &nodes_) {}
  AutoscalerTest() : AutoscalerTest({.pools = {{.start = 2, .min = 1, .max = 6}}}) {}

  std::string Phases() const {
    std::string phases;
    for (int node = 0; node < 6; ++node) phases += "-sudLx"[static_cast<int>(nodes_.phase(node))];
    return phases;
  }

  const Cluster cluster_ = *Cluster::Parse("6x4");
  const NodeOptions options_;
  Nodes nodes_;
  SimulatedAutoscaler autoscaler_;
  const std::vector<double> nobody_ = std::vector<double>(6, 0);
};

TEST_F(AutoscalerTest, GrowsAtOnceWithinTheBounds) {
  EXPECT_EQ(Phases(), "uu----");
  EXPECT_FALSE(autoscaler_.Follow(WholeNodes(3), 5, nobody_));
  EXPECT_EQ(Phases(), "uus---");
  EXPECT_EQ(nodes_.NextEvent(), 185);
  autoscaler_.Follow(WholeNodes(100), 6, nobody_);
  EXPECT_EQ(Phases(), "uussss");
  nodes_.Advance(185);
  EXPECT_EQ(Phases(), "uuusss");
}

TEST_F(AutoscalerTest, LooksAgainWhenItHasDoneSomething) {
  autoscaler_.Follow(WholeNodes(3), 5, nobody_);
  EXPECT_EQ(autoscaler_.NextEvent(), 7);
  autoscaler_.Act(7, nobody_);
  EXPECT_EQ(autoscaler_.NextEvent(), kNever);
}

TEST_F(AutoscalerTest, DrainsWhatHoldsLeastAfterTheCooldownAndRemovesItWhenItIsEmpty) {
  autoscaler_.Follow(WholeNodes(4), 100, nobody_);
  nodes_.Advance(280);
  EXPECT_EQ(Phases(), "uuuu--");
  const std::vector<double> use = {1, 0.25, 0, 1, 0, 0};
  NodeDemand demand = WholeNodes(2);
  demand.idle_nodes = {NodeId(2)};
  EXPECT_FALSE(autoscaler_.Follow(demand, 130, use));
  EXPECT_EQ(Phases(), "uuuu--");
  EXPECT_EQ(autoscaler_.NextEvent(), 160);
  EXPECT_TRUE(autoscaler_.Act(160, use));
  EXPECT_EQ(Phases(), "uddu--");
  EXPECT_TRUE(nodes_.status()[1].up && nodes_.status()[1].draining);
  // Its jobs have not left the second node yet.
  EXPECT_FALSE(autoscaler_.Act(162, use));
  EXPECT_EQ(Phases(), "ud-u--");
  autoscaler_.Act(164, nobody_);
  EXPECT_EQ(Phases(), "u--u--");
}

TEST_F(AutoscalerTest, KeepsTheMinimumWithoutJobs) {
  autoscaler_.Follow({{}, {NodeId(0), NodeId(1)}}, 60, nobody_);
  EXPECT_EQ(Phases(), "ud----");
  autoscaler_.Act(62, nobody_);
  EXPECT_EQ(Phases(), "u-----");
  autoscaler_.Act(1000, nobody_);
  EXPECT_EQ(Phases(), "u-----");
}

class SpotAutoscalerTest : public AutoscalerTest {
 protected:
  SpotAutoscalerTest()
      : AutoscalerTest({.spot_nodes = {4},
                        .spot_lifetime = 1e5,
                        .spot_notice = 30,
                        .pools = {{.start = 1, .min = 1, .max = 6}},
                        .lasting_prices = {1},
                        .spot_prices = {0.3}}) {}
};

TEST_F(SpotAutoscalerTest, ReplacesNodesThatAreTakenAway) {
  autoscaler_.Follow(WholeNodes(5), 0, nobody_);
  EXPECT_EQ(Phases(), "u-ssss");
  nodes_.Advance(180);
  const std::vector<double> use = {1, 1, 1, 1, 1, 1};
  double now = nodes_.NextEvent();
  const std::vector<Nodes::Event> notice = nodes_.Advance(now);
  ASSERT_EQ(notice.size(), 1u);
  EXPECT_EQ(notice[0].change, Nodes::Change::kNotice);
  autoscaler_.Act(now, use);
  // It is to be paid until it is gone: only then there is room for another.
  EXPECT_EQ(nodes_.phase(notice[0].node), NodePhase::kLeaving);
  now += 30;
  EXPECT_EQ(nodes_.Advance(now)[0].change, Nodes::Change::kTaken);
  EXPECT_EQ(nodes_.phase(notice[0].node), NodePhase::kAbsent);
  autoscaler_.Act(now, use);
  EXPECT_EQ(nodes_.phase(notice[0].node), NodePhase::kStarting);
}

class RefusingAutoscalerTest : public AutoscalerTest {
 protected:
  RefusingAutoscalerTest()
      : AutoscalerTest({.spot_nodes = {4},
                        .spot_lifetime = 1e5,
                        .spot_together = 1,
                        .spot_refusal = 1e4,
                        .pools = {{.start = 1, .min = 1, .max = 6}},
                        .lasting_prices = {1},
                        .spot_prices = {0.3}}) {}
};

TEST_F(RefusingAutoscalerTest, OthersStandInForAPoolWithoutCapacity) {
  double now = nodes_.NextEvent();
  nodes_.Advance(now);
  autoscaler_.Follow(WholeNodes(2), now, nobody_);
  EXPECT_EQ(Phases(), "u-----");
  // At the next look what is missing comes from nodes that last; after 30 s the pool is asked again.
  EXPECT_EQ(autoscaler_.NextEvent(), now + 2);
  autoscaler_.Act(now + 2, nobody_);
  EXPECT_EQ(Phases(), "us----");
  EXPECT_EQ(autoscaler_.NextEvent(), now + 4);
  autoscaler_.Act(now + 30, nobody_);
  autoscaler_.Act(now + 32, nobody_);
  EXPECT_EQ(Phases(), "us----");
  EXPECT_EQ(autoscaler_.NextEvent(), now + 90);
  // Those that stand in stay until there are others, even if they are not there yet themselves.
  autoscaler_.Act(now + 90, nobody_);
  EXPECT_EQ(Phases(), "us----");
}

}  // namespace
}  // namespace adaptdl::simulator
