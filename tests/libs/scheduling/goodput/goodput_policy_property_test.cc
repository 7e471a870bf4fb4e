// What holds for every cluster under the default policy.

#include <algorithm>

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

// Whether one replica set of the smallest size fits on a node beside jobs of this and higher priorities, and
// jobs that can't be moved.
bool HasRoomAbove(const ClusterView& view, const Decision& decision, const JobInfo& waiting) {
  for (const NodeInfo& node : view.nodes) {
    if (node.draining) continue;
    Resources left = node.capacity;
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      const JobInfo& job = view.jobs[j];
      if (job.priority < waiting.priority && !Pinned(view, job)) continue;
      const auto here =
          std::count(decision.jobs[j].allocation.begin(), decision.jobs[j].allocation.end(), node.id);
      for (const auto& [name, amount] : job.request) left[name] -= amount * here;
    }
    bool fits = true;
    for (const auto& [name, amount] : waiting.request) {
      fits = fits && left[name] >= amount * waiting.min_replicas;
    }
    if (fits) return true;
  }
  return false;
}

ClusterView WithPriorities(RandomCluster* random) {
  ClusterView view = random->Make();
  for (JobInfo& job : view.jobs) job.priority = random->Int(-2, 2);
  return view;
}

// Whether the job may wait for its turn: it has not measured itself, and neither has another one of its
// priority or a higher one that waits as well.
bool MayWaitForItsTurn(const ClusterView& view, const Decision& decision, size_t waiting) {
  const auto waits = [&](size_t j) {
    return decision.jobs[j].allocation.empty() && !view.jobs[j].done_seconds.has_value();
  };
  if (!waits(waiting)) return false;
  for (size_t j = 0; j < view.jobs.size(); ++j) {
    if (j != waiting && view.jobs[j].priority >= view.jobs[waiting].priority && waits(j)) return true;
  }
  return false;
}

// Whatever the nodes and needs are like: nobody above the lowest level waits for what jobs below him hold,
// unless it is not yet its turn.
TEST_P(GoodputPolicyProperty, NobodyWaitsForJobsOfLowerPriority) {
  RandomCluster random(GetParam() + 4000);
  for (int i = 0; i < kClusters; ++i) {
    const ClusterView view = WithPriorities(&random);
    const Decision decision = Decide(view);
    int lowest = 2;
    for (const JobInfo& job : view.jobs) lowest = std::min(lowest, job.priority);
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      const JobInfo& job = view.jobs[j];
      if (job.priority == lowest || !decision.jobs[j].allocation.empty()) continue;
      if (job.speedup->At(1, job.min_replicas) <= 0) continue;
      if (MayWaitForItsTurn(view, decision, j)) continue;
      EXPECT_FALSE(HasRoomAbove(view, decision, job)) << "cluster " << i << " job " << j;
    }
  }
}

TEST_P(GoodputPolicyProperty, DecisionsWithPrioritiesSettle) {
  RandomCluster random(GetParam() + 5000);
  for (int i = 0; i < kClusters; ++i) {
    ClusterView view = WithPriorities(&random);
    for (int round = 0; round < 10; ++round) view = After(view, Decide(view));
    const Decision last = Decide(view);
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      EXPECT_EQ(last.jobs[j].allocation, view.jobs[j].allocation) << "cluster " << i << " job " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GoodputPolicyProperty, ::testing::Range(1, 11));

}  // namespace
}  // namespace adaptdl::scheduling
