// The allocator's policy and the pool's controller together, under constant load: the pool comes to rest.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "services/autoscaler/pool_controller.h"
#include "tests/libs/scheduling/random_cluster.h"

namespace adaptdl::autoscaler {
namespace {

using scheduling::ClusterView;
using scheduling::Decision;
using scheduling::JobInfo;

// Nodes that register, and jobs that move, at once.
class Cluster {
 public:
  Cluster(const PoolLimits& limits, std::vector<JobInfo> jobs) : limits_(limits) {
    view_.jobs = std::move(jobs);
    pool_.last_change = now_;
  }

  // Returns whether the size changed.
  bool Round() {
    now_ += absl::Minutes(1);
    view_.now = now_;
    const Decision decision = policy_.Decide(view_, 1);
    for (size_t j = 0; j < view_.jobs.size(); ++j) view_.jobs[j].allocation = decision.jobs[j].allocation;
    Observe(decision);
    const PoolDecision change = Decide(limits_, pool_, now_);
    for (int i = 0; i < change.create; ++i) Create();
    for (const PoolAction& action : change.actions) Apply(action);
    return change.changes_size;
  }

  int nodes() const { return static_cast<int>(view_.nodes.size()); }

 private:
  void Observe(const Decision& decision) {
    Demand demand{decision.capacity.desired_nodes, decision.capacity.reason, decision.capacity.start_nodes};
    for (const scheduling::CapacityPoint& point : decision.capacity.curve) {
      demand.points.push_back({point.nodes, point.utility});
      if (point.makespan_seconds.has_value())
        demand.points.back().makespan = absl::Seconds(*point.makespan_seconds);
    }
    pool_.demand = demand;
    std::set<std::string> used;
    for (const JobInfo& job : view_.jobs) used.insert(job.allocation.begin(), job.allocation.end());
    const std::vector<std::string>& idle = decision.capacity.idle_nodes;
    for (PoolNodeView& node : pool_.nodes) {
      node.empty = !used.contains(node.node_id);
      node.idle = node.empty && std::find(idle.begin(), idle.end(), node.node_id) != idle.end();
    }
  }

  void Create() {
    const std::string id = absl::StrCat("p-", made_++);
    pool_.nodes.push_back({id, PoolNodePhase::kRunning, true, false});
    view_.nodes.push_back(scheduling::Node(id, 4000));
    Sort();
  }

  void Apply(const PoolAction& action) {
    std::erase_if(pool_.nodes, [&](const PoolNodeView& node) { return node.node_id == action.node_id; });
    std::erase_if(view_.nodes, [&](const auto& node) { return node.id == action.node_id; });
  }

  // By id, as both are.
  void Sort() {
    std::sort(pool_.nodes.begin(), pool_.nodes.end(),
              [](const auto& a, const auto& b) { return a.node_id < b.node_id; });
    std::sort(view_.nodes.begin(), view_.nodes.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
  }

  const scheduling::GoodputPolicy policy_{{}};
  const PoolLimits limits_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  ClusterView view_;
  PoolView pool_;
  int made_ = 0;
};

std::vector<JobInfo> RandomJobs(uint32_t seed) {
  scheduling::RandomCluster random(seed);
  std::vector<JobInfo> jobs;
  for (int j = random.Int(0, 8); j > 0; --j) {
    JobInfo job = scheduling::Job(absl::StrCat("job-", j), random.Int(1, 24),
                                  scheduling::Scaling(random.Real(0, 1.5), 64, random.Real(0, 0.2)));
    job.created = absl::FromUnixSeconds(1'600'000'000 - j);
    job.rescale_seconds = random.Real(1, 60);
    if (random.Chance(0.5)) job.remaining_seconds = random.Real(100, 100'000);
    jobs.push_back(job);
  }
  return jobs;
}

TEST(ClosedLoop, ComesToRestUnderConstantLoad) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    PoolLimits limits{"p", static_cast<int>(seed % 2), 16, absl::ZeroDuration()};
    if (seed % 3 == 1) {
      limits.target.mode = TargetMode::kBudget;
      limits.target.node_price_per_hour = 1;
      limits.target.budget_per_hour = 7.5;
    } else if (seed % 3 == 2) {
      limits.target.mode = TargetMode::kDeadline;
      limits.target.deadline = absl::FromUnixSeconds(1'700'000'000 + 40'000);
    }
    Cluster cluster(limits, RandomJobs(seed));
    for (int round = 0; round < 20; ++round) cluster.Round();
    const int nodes = cluster.nodes();
    for (int round = 0; round < 10; ++round) EXPECT_FALSE(cluster.Round()) << seed << ": " << cluster.nodes();
    EXPECT_EQ(cluster.nodes(), nodes) << seed;
    EXPECT_LE(nodes, MostNodes(limits)) << seed;
    EXPECT_GE(nodes, limits.min_nodes) << seed;
  }
}

// As many jobs as come, each of which can only have one replica, and go again.
TEST(ClosedLoop, FollowsJobsThatComeAndGo) {
  const PoolLimits limits{"p", 1, 8, absl::ZeroDuration()};
  for (const int count : {1, 5, 9}) {
    std::vector<JobInfo> jobs;
    for (int j = 0; j < count; ++j) jobs.push_back(scheduling::Job(absl::StrCat("job-", j), 1));
    Cluster cluster(limits, jobs);
    for (int round = 0; round < 5; ++round) cluster.Round();
    EXPECT_EQ(cluster.nodes(), (count + 3) / 4) << count;
  }
}

}  // namespace
}  // namespace adaptdl::autoscaler
