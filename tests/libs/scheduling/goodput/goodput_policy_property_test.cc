// What holds for every cluster under the default policy.

#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "tests/libs/scheduling/random_cluster.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

constexpr int kClusters = 250;

Decision Decide(const ClusterView& view) { return GoodputPolicy({}).Decide(view, 1); }

class GoodputPolicyProperty : public ::testing::TestWithParam<int> {};

TEST_P(GoodputPolicyProperty, TheSameViewGivesTheSameDecision) {
  RandomCluster random(GetParam() + 2000);
  for (int i = 0; i < kClusters; ++i) {
    const ClusterView view = random.Make();
    const Decision first = Decide(view);
    const Decision second = Decide(view);
    EXPECT_LE(first.quality.objective, first.quality.bound * (1 + 1e-9) + 1e-9);
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      EXPECT_EQ(first.jobs[j].allocation, second.jobs[j].allocation);
      EXPECT_EQ(first.jobs[j].reason, second.jobs[j].reason);
      EXPECT_EQ(first.jobs[j].explanation, second.jobs[j].explanation);
    }
  }
}

// Where nothing happens, nothing changes after a few decisions: jobs do not chase each other.
TEST_P(GoodputPolicyProperty, DecisionsSettle) {
  RandomCluster random(GetParam() + 3000);
  for (int i = 0; i < kClusters; ++i) {
    ClusterView view = random.Make();
    for (int round = 0; round < 10; ++round) view = After(view, Decide(view));
    const Decision last = Decide(view);
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      EXPECT_EQ(last.jobs[j].allocation, view.jobs[j].allocation) << "cluster " << i << " job " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GoodputPolicyProperty, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace adaptdl::scheduling
