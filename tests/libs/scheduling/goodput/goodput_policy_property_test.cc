// What holds for every cluster under the default policy.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "tests/libs/scheduling/random_cluster.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

constexpr int kClusters = 250;

Decision Decide(const ClusterView& view) { return GoodputPolicy({}).Decide(view, 1); }

class GoodputPolicyProperty : public ::testing::TestWithParam<int> {};

TEST_P(GoodputPolicyProperty, NoNodeIsGivenMoreThanItHas) {
  RandomCluster random(GetParam());
  for (int i = 0; i < kClusters; ++i) {
    const ClusterView view = random.Make();
    const Decision decision = Decide(view);
    std::map<std::string, Resources> left;
    for (const NodeInfo& node : view.nodes) left[node.id] = node.capacity;
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      for (const std::string& node : decision.jobs[j].allocation) {
        ASSERT_TRUE(left.count(node)) << node;
        for (const auto& [name, amount] : view.jobs[j].request) ASSERT_GE(left[node][name] -= amount, 0) << i;
      }
    }
  }
}

TEST_P(GoodputPolicyProperty, SizesAreWithinTheirBoundsAndPinnedJobsStay) {
  RandomCluster random(GetParam() + 1000);
  for (int i = 0; i < kClusters; ++i) {
    const ClusterView view = random.Make();
    const Decision decision = Decide(view);
    ASSERT_EQ(decision.jobs.size(), view.jobs.size());
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      const JobInfo& job = view.jobs[j];
      const JobDecision& result = decision.jobs[j];
      EXPECT_EQ(result.key, job.key);
      EXPECT_FALSE(result.reason.empty());
      if (Pinned(view, job)) {
        EXPECT_EQ(result.allocation, job.allocation);
        continue;
      }
      const int replicas = static_cast<int>(result.allocation.size());
      EXPECT_TRUE(replicas == 0 || replicas >= job.min_replicas) << i;
      EXPECT_LE(replicas, job.max_replicas) << i;
      for (const NodeInfo& node : view.nodes) {
        if (!node.draining) continue;
        EXPECT_EQ(std::count(result.allocation.begin(), result.allocation.end(), node.id), 0);
      }
    }
    EXPECT_LE(decision.quality.objective, decision.quality.bound * (1 + 1e-9) + 1e-9);
  }
}

TEST_P(GoodputPolicyProperty, TheSameViewGivesTheSameDecision) {
  RandomCluster random(GetParam() + 2000);
  for (int i = 0; i < kClusters; ++i) {
    const ClusterView view = random.Make();
    const Decision first = Decide(view);
    const Decision second = Decide(view);
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
