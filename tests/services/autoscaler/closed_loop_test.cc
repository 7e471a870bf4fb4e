// The allocator's policy and the decision about pools together, under constant load: the pool comes to rest.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/nodepools/decision.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "tests/libs/scheduling/random_cluster.h"

namespace adaptdl::autoscaler {
namespace {

using scheduling::ClusterView;
using scheduling::Decision;
using scheduling::JobInfo;

// Nodes that register, and jobs that move, at once.
class Cluster {
 public:
  Cluster(const nodepools::Target& target, int min_nodes, int max_nodes, std::vector<JobInfo> jobs)
      : target_(target) {
    view_.jobs = std::move(jobs);
    pool_.name = "p";
    pool_.price_per_hour = 1;
    pool_.min_nodes = min_nodes;
    pool_.max_nodes = max_nodes;
    pool_.last_change = now_;
  }

  // Returns whether the size changed.
  bool Round() {
    now_ += absl::Minutes(1);
    view_.now = now_;
    const Decision decision = policy_.Decide(view_, 1);
    for (size_t j = 0; j < view_.jobs.size(); ++j) view_.jobs[j].allocation = decision.jobs[j].allocation;
    const nodepools::PoolDecision change = nodepools::DecidePools(target_, Observe(decision)).pools[0];
    for (int i = 0; i < change.create; ++i) Create();
    for (const nodepools::PoolAction& action : change.actions) Apply(action);
    return change.changes_size;
  }

  int nodes() const { return static_cast<int>(view_.nodes.size()); }

 private:
  nodepools::ClusterState Observe(const Decision& decision) {
    std::set<std::string> used;
    for (const JobInfo& job : view_.jobs) used.insert(job.allocation.begin(), job.allocation.end());
    const std::vector<std::string>& idle = decision.capacity.idle_nodes;
    for (nodepools::PoolNode& node : pool_.nodes) {
      node.empty = !used.contains(node.id);
      node.use = node.empty ? 0 : 1;
      node.idle = node.empty && std::find(idle.begin(), idle.end(), node.id) != idle.end();
    }
    scheduling::NodeKind kind;
    kind.capacity = scheduling::Node("", 4000).capacity;
    nodepools::ClusterState state;
    state.now = now_;
    state.pools = {pool_};
    state.fixed_nodes = {0};
    state.jobs.emplace();
    for (scheduling::JobDemand& demand : scheduling::MakeJobDemands(view_, decision, {kind}, {})) {
      const bool runs = !demand.nodes.empty();
      state.jobs->push_back({std::move(demand), runs ? 0 : -1, decision.jobs[state.jobs->size()].speedup});
    }
    return state;
  }

  void Create() {
    const std::string id = absl::StrCat("p-", made_++);
    nodepools::PoolNode node;
    node.id = id;
    node.phase = nodepools::NodePhase::kRunning;
    node.empty = true;
    pool_.nodes.push_back(node);
    view_.nodes.push_back(scheduling::Node(id, 4000));
    Sort();
  }

  void Apply(const nodepools::PoolAction& action) {
    std::erase_if(pool_.nodes, [&](const auto& node) { return node.id == action.node_id; });
    std::erase_if(view_.nodes, [&](const auto& node) { return node.id == action.node_id; });
  }

  // By id, as both are.
  void Sort() {
    std::sort(pool_.nodes.begin(), pool_.nodes.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    std::sort(view_.nodes.begin(), view_.nodes.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
  }

  const scheduling::GoodputPolicy policy_{{}};
  const nodepools::Target target_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  ClusterView view_;
  nodepools::Pool pool_;
  int made_ = 0;
};

nodepools::Target MakeTarget(nodepools::TargetMode mode) {
  nodepools::Target target;
  target.mode = mode;
  target.budget_per_hour = 7.5;
  target.goodput_per_price = 0.8;
  target.deadline = absl::FromUnixSeconds(1'700'000'000 + 40'000);
  target.cooldown = absl::ZeroDuration();
  return target;
}

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
  for (uint32_t seed = 0; seed < 80; ++seed) {
    const auto mode = static_cast<nodepools::TargetMode>(seed % 4);
    const int least = static_cast<int>(seed / 4 % 2);
    Cluster cluster(MakeTarget(mode), least, 16, RandomJobs(seed));
    for (int round = 0; round < 20; ++round) cluster.Round();
    const int nodes = cluster.nodes();
    for (int round = 0; round < 10; ++round) EXPECT_FALSE(cluster.Round()) << seed << ": " << cluster.nodes();
    EXPECT_EQ(cluster.nodes(), nodes) << seed;
    EXPECT_LE(nodes, mode == nodepools::TargetMode::kBudget ? 7 : 16) << seed;
    EXPECT_GE(nodes, least) << seed;
  }
}

// As many jobs as come, each of which can only have one replica, and go again.
TEST(ClosedLoop, FollowsJobsThatComeAndGo) {
  for (const int count : {1, 5, 9}) {
    std::vector<JobInfo> jobs;
    for (int j = 0; j < count; ++j) jobs.push_back(scheduling::Job(absl::StrCat("job-", j), 1));
    Cluster cluster(MakeTarget(nodepools::TargetMode::kBand), 1, 8, jobs);
    for (int round = 0; round < 5; ++round) cluster.Round();
    EXPECT_EQ(cluster.nodes(), (count + 3) / 4) << count;
  }
}

}  // namespace
}  // namespace adaptdl::autoscaler
