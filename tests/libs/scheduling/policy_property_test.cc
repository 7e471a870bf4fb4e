// What holds for every cluster.

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

class PolicyProperty : public ::testing::TestWithParam<int> {
 protected:
  Decision Decide(const ClusterView& view) { return GoodputPolicy({}).Decide(view, 1); }
};

TEST_P(PolicyProperty, NoNodeIsGivenMoreThanItHas) {
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

TEST_P(PolicyProperty, SizesAreWithinTheirBoundsAndPinnedJobsStay) {
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
  }
}

TEST_P(PolicyProperty, JobsThatMayHaveCertainSizesGetThese) {
  RandomCluster random(GetParam() + 2000, /*sizes=*/true);
  for (int i = 0; i < kClusters; ++i) {
    const ClusterView view = random.Make();
    const Decision decision = Decide(view);
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      const JobInfo& job = view.jobs[j];
      const int replicas = static_cast<int>(decision.jobs[j].allocation.size());
      EXPECT_TRUE(replicas == 0 ||
                  std::binary_search(job.allowed_replicas.begin(), job.allowed_replicas.end(), replicas))
          << i << ": " << replicas;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PolicyProperty, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace adaptdl::scheduling
