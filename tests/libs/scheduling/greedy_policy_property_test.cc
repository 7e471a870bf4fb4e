// What holds for every cluster under the greedy policy.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/scheduling/greedy_policy.h"
#include "tests/libs/scheduling/random_cluster.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

Decision Decide(const ClusterView& view) { return GreedyPolicy({}).Decide(view, 1); }

class GreedyPolicyProperty : public ::testing::TestWithParam<int> {
 protected:
  static constexpr int kClusters = 250;
};

TEST_P(GreedyPolicyProperty, JobsThatMayHaveCertainSizesGetTheseAndKeepThem) {
  RandomCluster random(GetParam() + 3000, /*sizes=*/true);
  for (int i = 0; i < kClusters; ++i) {
    const ClusterView view = random.Make();
    const Decision decision = Decide(view);
    const Decision again = Decide(After(view, decision));
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      const JobInfo& job = view.jobs[j];
      const int replicas = static_cast<int>(decision.jobs[j].allocation.size());
      EXPECT_TRUE(replicas == 0 ||
                  std::binary_search(job.allowed_replicas.begin(), job.allowed_replicas.end(), replicas))
          << i << ": " << replicas;
      EXPECT_EQ(again.jobs[j].allocation, decision.jobs[j].allocation) << i;
    }
  }
}

TEST_P(GreedyPolicyProperty, DecidingAgainChangesNothing) {
  RandomCluster random(GetParam() + 2000);
  for (int i = 0; i < kClusters; ++i) {
    const ClusterView view = random.Make();
    const Decision first = Decide(view);
    const Decision same = Decide(view);
    const Decision second = Decide(After(view, first));
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      EXPECT_EQ(first.jobs[j].allocation, same.jobs[j].allocation);
      EXPECT_EQ(first.jobs[j].allocation, second.jobs[j].allocation) << "cluster " << i << " job " << j;
      EXPECT_EQ(first.jobs[j].reason, second.jobs[j].reason) << "cluster " << i << " job " << j;
    }
    EXPECT_EQ(first.capacity.desired_nodes, second.capacity.desired_nodes) << i;
    EXPECT_EQ(first.capacity.reason, second.capacity.reason) << i;
  }
}

TEST_P(GreedyPolicyProperty, TheSumOfSpeedupsOnlyFallsToStartAJob) {
  RandomCluster random(GetParam() + 3000);
  int compared = 0;
  for (int i = 0; i < kClusters; ++i) {
    ClusterView view = random.Make();
    for (NodeInfo& node : view.nodes) node.draining = false;
    view = After(view, Decide(view));
    // Jobs learn something new about themselves.
    for (JobInfo& job : view.jobs) job.speedup = Scaling(random.Real(0, 0.6), 20, random.Real(0, 0.3));
    double before = 0;
    for (const JobInfo& job : view.jobs) {
      std::vector<std::string> nodes = job.allocation;
      std::sort(nodes.begin(), nodes.end());
      nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
      before += job.speedup->At(static_cast<int>(nodes.size()), static_cast<int>(job.allocation.size()));
    }
    const Decision decision = Decide(view);
    bool started = false;
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      started |= view.jobs[j].allocation.empty() && !decision.jobs[j].allocation.empty();
    }
    if (started) continue;
    ++compared;
    EXPECT_GE(decision.value, before - 1e-9) << i;
  }
  EXPECT_GT(compared, kClusters / 2);
}

TEST_P(GreedyPolicyProperty, NobodyStarvesWhenThereIsRoomForAllMinima) {
  RandomCluster random(GetParam() + 4000);
  for (int i = 0; i < kClusters; ++i) {
    ClusterView view;
    const int nodes = random.Int(1, 8);
    int slots = 0;
    for (int n = 0; n < nodes; ++n) {
      const int cores = random.Int(1, 4);
      slots += cores;
      view.nodes.push_back(Node("node-" + std::to_string(n), cores * 1000));
    }
    for (int left = slots, j = 0; left > 0; ++j) {
      JobInfo job = random.RandomJob(j);
      job.request = {{kCpu, 1000}};
      job.preemptible = true;
      job.min_replicas = random.Int(1, std::min(left, 4));
      job.max_replicas = job.min_replicas + random.Int(0, 8);
      left -= job.min_replicas;
      if (random.Chance(0.5)) {
        const int held = random.Int(job.min_replicas, job.max_replicas);
        for (int r = 0; r < held; ++r) job.allocation.push_back(view.nodes[random.Int(0, nodes - 1)].id);
      }
      view.jobs.push_back(job);
    }
    RandomCluster::DropWhatDoesNotFit(&view);
    const Decision decision = Decide(view);
    for (const JobDecision& job : decision.jobs) EXPECT_FALSE(job.allocation.empty()) << i << " " << job.key;
    EXPECT_GE(decision.capacity.desired_nodes, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GreedyPolicyProperty, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace adaptdl::scheduling
