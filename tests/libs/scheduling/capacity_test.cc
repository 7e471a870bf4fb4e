// How many nodes a decision asks for.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "libs/scheduling/policy.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CapacityTest : public ::testing::Test {
 protected:
  CapacityDecision Decide(const ClusterView& view) { return GoodputPolicy({}).Decide(view, 1).capacity; }
};

TEST_F(CapacityTest, AsksForNodesForWaitingJobs) {
  const CapacityDecision decision = Decide(View({Node("n0")}, {Job("a", 1), Job("b", 1), Job("c", 1)}));
  EXPECT_EQ(decision.current_nodes, 1);
  EXPECT_EQ(decision.desired_nodes, 3);
  EXPECT_THAT(decision.reason, HasSubstr("2 more for waiting jobs"));
}

TEST_F(CapacityTest, AsksForAllNodesOfAGang) {
  ClusterView view = View({Node("n0", 2000)}, {Job("a", 8)});
  view.jobs[0].min_replicas = 7;
  view.jobs[0].max_replicas = 7;
  EXPECT_EQ(Decide(view).desired_nodes, 4);
}

TEST_F(CapacityTest, AsksForWhatMakesJobsFasterAndNoMore) {
  EXPECT_EQ(Decide(View({Node("n0")}, {Job("a", 4, Linear())})).desired_nodes, 4);
  // The seventh replica still adds 0.37, the eighth 0.33.
  EXPECT_EQ(Decide(View({Node("n0")}, {Job("a", 16, Scaling(0.1))})).desired_nodes, 7);
}

TEST_F(CapacityTest, CountsNodesOfTheKindThatJobsNeed) {
  ClusterView view = View({Node("cpu-0"), Node("cpu-1"), Node("gpu-0", 4000)}, {Job("a", 3, Linear())});
  view.nodes[2].capacity[kGpu] = 1;
  view.jobs[0].request[kGpu] = 1;
  view.jobs[0].allocation = {"gpu-0"};
  const CapacityDecision decision = Decide(view);
  EXPECT_EQ(decision.desired_nodes, 3) << decision.reason;
  EXPECT_THAT(decision.idle_nodes, ElementsAre("cpu-0", "cpu-1"));
}

TEST_F(CapacityTest, NamesIdleNodes) {
  const CapacityDecision decision = Decide(View({Node("n0"), Node("n1"), Node("n2")}, {Job("a", 1)}));
  EXPECT_EQ(decision.desired_nodes, 1);
  EXPECT_THAT(decision.idle_nodes, ElementsAre("n1", "n2"));
}

TEST_F(CapacityTest, DoesNotCountNodesThatAreHardlyUsed) {
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("a", 2, Scaling(0.45))});
  view.jobs[0].allocation = {"n0", "n1"};
  const CapacityDecision decision = Decide(view);
  EXPECT_EQ(decision.desired_nodes, 1);
  EXPECT_EQ(decision.current_nodes, 2);
  EXPECT_THAT(decision.reason, HasSubstr("hardly any gain"));
  // But all that a job can't do without.
  view.jobs[0].min_replicas = 2;
  EXPECT_EQ(Decide(view).desired_nodes, 2);
}

TEST_F(CapacityTest, ANodeThatIsKeptIsNotAskedForAgain) {
  // Between the two thresholds: neither wanted when it is not there, nor given up when it is.
  ClusterView view = View({Node("n0")}, {Job("a", 2, Scaling(0.3))});
  EXPECT_EQ(Decide(view).desired_nodes, 1);
  view = View({Node("n0"), Node("n1")}, {Job("a", 2, Scaling(0.3))});
  EXPECT_EQ(Decide(view).desired_nodes, 2);
}

TEST_F(CapacityTest, DoesNotAskForNodesThatWouldNotHelp) {
  ClusterView view = View({Node("n0")}, {Job("a", 1)});
  view.jobs[0].request = {{kGpu, 1}};
  EXPECT_EQ(Decide(view).desired_nodes, 0);
}

}  // namespace
}  // namespace adaptdl::scheduling
