// How many nodes a decision asks for, whichever of our policies makes it.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/scheduling/policies.h"
#include "libs/scheduling/policy.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CapacityTest : public ::testing::TestWithParam<std::string> {
 protected:
  CapacityDecision Decide(const ClusterView& view) {
    return MakePolicy(GetParam()).value()->Decide(view, 1).capacity;
  }
};

TEST_P(CapacityTest, AsksForNodesForWaitingJobs) {
  const CapacityDecision decision = Decide(View({Node("n0")}, {Job("a", 1), Job("b", 1), Job("c", 1)}));
  EXPECT_EQ(decision.current_nodes, 1);
  EXPECT_EQ(decision.desired_nodes, 3);
  EXPECT_THAT(decision.reason, HasSubstr("2 more for waiting jobs"));
}

TEST_P(CapacityTest, AsksForAllNodesOfAGang) {
  ClusterView view = View({Node("n0", 2000)}, {Job("a", 8)});
  view.jobs[0].min_replicas = 7;
  view.jobs[0].max_replicas = 7;
  EXPECT_EQ(Decide(view).desired_nodes, 4);
}

TEST_P(CapacityTest, AsksForWhatMakesJobsFasterAndNoMore) {
  EXPECT_EQ(Decide(View({Node("n0")}, {Job("a", 4, Linear())})).desired_nodes, 4);
  // The seventh replica still adds 0.37, the eighth 0.33.
  EXPECT_EQ(Decide(View({Node("n0")}, {Job("a", 16, Scaling(0.1))})).desired_nodes, 7);
}

TEST_P(CapacityTest, NamesIdleNodes) {
  const CapacityDecision decision = Decide(View({Node("n0"), Node("n1"), Node("n2")}, {Job("a", 1)}));
  EXPECT_EQ(decision.desired_nodes, 1);
  EXPECT_THAT(decision.idle_nodes, ElementsAre("n1", "n2"));
}

TEST_P(CapacityTest, DoesNotCountNodesThatAreHardlyUsed) {
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

TEST_P(CapacityTest, ANodeThatIsKeptIsNotAskedForAgain) {
  // Between the two thresholds: neither wanted when it is not there, nor given up when it is.
  ClusterView view = View({Node("n0")}, {Job("a", 2, Scaling(0.3))});
  EXPECT_EQ(Decide(view).desired_nodes, 1);
  view = View({Node("n0"), Node("n1")}, {Job("a", 2, Scaling(0.3))});
  EXPECT_EQ(Decide(view).desired_nodes, 2);
}

TEST_P(CapacityTest, DoesNotAskForNodesThatWouldNotHelp) {
  ClusterView view = View({Node("n0")}, {Job("a", 1)});
  view.jobs[0].request = {{kGpu, 1}};
  EXPECT_EQ(Decide(view).desired_nodes, 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, CapacityTest, ::testing::Values("goodput", "greedy"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace adaptdl::scheduling
