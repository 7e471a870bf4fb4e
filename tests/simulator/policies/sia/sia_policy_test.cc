#include "simulator/policies/sia/sia_policy.h"

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/policies/sia/configurations.h"
#include "simulator/policies/sia/placement.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::simulator::sia {
namespace {

using scheduling::After;
using scheduling::ClusterView;
using scheduling::Decision;
using scheduling::Job;
using scheduling::JobDecision;
using scheduling::JobInfo;
using scheduling::kCpu;
using scheduling::kGpu;
using scheduling::NodeInfo;
using scheduling::View;

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

NodeInfo GpuNode(const std::string& id, int gpus, const std::string& type) {
  NodeInfo node;
  node.id = id;
  node.capacity = {{kGpu, gpus}};
  node.gpu_type = type;
  return node;
}

std::shared_ptr<const goodput::SpeedupTable> Times(double factor, int most = 16) {
  std::vector<double> row;
  for (int i = 0; i <= most; ++i) row.push_back(factor * i);
  return std::make_shared<goodput::SpeedupTable>(goodput::SpeedupTable::FromRows(row, row));
}

JobInfo GpuJob(const std::string& key, int most, double on_fast) {
  JobInfo job = Job(key, most, Times(1));
  job.request = {{kGpu, 1}};
  job.speedup_by_type = {{"slow", Times(1)}, {"fast", Times(on_fast)}};
  return job;
}

// Two slow nodes of 4 and one fast one of 8.
ClusterView TwoTypes(std::vector<JobInfo> jobs) {
  ClusterView view =
      View({GpuNode("f0", 8, "fast"), GpuNode("s0", 4, "slow"), GpuNode("s1", 4, "slow")}, std::move(jobs));
  view.now = absl::UnixEpoch() + absl::Hours(10);
  for (JobInfo& job : view.jobs) job.created = absl::UnixEpoch();
  return view;
}

TEST(Configurations, ArePowersOfTwoAndWholeNodesOfEachPool) {
  ClusterView view = TwoTypes({});
  view.nodes.push_back(GpuNode("s2", 4, "slow"));
  view.nodes.back().draining = true;
  view.nodes.push_back(GpuNode("odd", 6, "slow"));
  const std::vector<Pool> pools = MakePools(view);
  ASSERT_THAT(pools, SizeIs(3));
  EXPECT_EQ(pools[0].gpu_type, "fast");
  EXPECT_THAT(pools[1].nodes, ElementsAre(1, 2));
  EXPECT_THAT(Configurations(pools),
              ElementsAre(Configuration{0, 1, 1}, Configuration{0, 1, 2}, Configuration{0, 1, 4},
                          Configuration{0, 1, 8}, Configuration{1, 1, 1}, Configuration{1, 1, 2},
                          Configuration{1, 1, 4}, Configuration{1, 2, 8}, Configuration{2, 1, 1},
                          Configuration{2, 1, 2}, Configuration{2, 1, 4}, Configuration{2, 1, 6}));
}

TEST(Placement, NobodyMovesIfAllFit) {
  const std::vector<Seat> seats = {{1, 1, {}}, {1, 2, {1}}, {1, 4, {}}};
  EXPECT_THAT(PlaceSeats(seats, {4, 4}), ElementsAre(ElementsAre(1), ElementsAre(1), ElementsAre(0)));
}

TEST(Placement, JobsMoveTogetherWhereALargerOneNeedsANode) {
  const std::vector<Seat> seats = {{1, 2, {0}}, {1, 2, {1}}, {1, 4, {}}};
  const auto places = PlaceSeats(seats, {4, 4});
  EXPECT_EQ(places[0], places[1]);
  EXPECT_NE(places[2], places[0]);
  EXPECT_THAT(places[2], SizeIs(1));
}

TEST(Placement, PowersOfTwoAlwaysFit) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<Seat> seats;
    std::vector<int> free(4, 8);
    std::vector<int> taken(4, 0);
    for (int left = 32; left > 0;) {
      const int gpus = 1 << (random() % 6);
      if (gpus > left) continue;
      left -= gpus;
      const int nodes = std::max(gpus / 8, 1);
      Seat seat{nodes, gpus, {}};
      // Some are somewhere already.
      const int node = static_cast<int>(random() % 4);
      if (nodes == 1 && random() % 2 == 0 && taken[node] + gpus <= 8) {
        seat.present = {node};
        taken[node] += gpus;
      }
      seats.push_back(seat);
    }
    const auto places = PlaceSeats(seats, free);
    for (size_t i = 0; i < seats.size(); ++i) {
      ASSERT_THAT(places[i], SizeIs(seats[i].nodes)) << round;
      for (const int node : places[i]) free[node] -= seats[i].gpus / seats[i].nodes;
    }
    EXPECT_THAT(free, Each(0));
  }
}

TEST(Sia, GivesFastGpusToThoseWhoGainMost) {
  const SiaPolicy policy({});
  const Decision decision = policy.Decide(TwoTypes({GpuJob("a", 8, 1.5), GpuJob("b", 8, 6)}), 1);
  EXPECT_THAT(decision.jobs[0].allocation, ElementsAre("s0", "s0", "s0", "s0", "s1", "s1", "s1", "s1"));
  EXPECT_THAT(decision.jobs[1].allocation, SizeIs(8));
  EXPECT_THAT(decision.jobs[1].allocation, Each("f0"));
  EXPECT_DOUBLE_EQ(decision.jobs[1].speedup, 48);
  EXPECT_DOUBLE_EQ(decision.value, 56);
}

TEST(Sia, DecidingAgainChangesNothing) {
  const SiaPolicy policy({});
  ClusterView view = TwoTypes({GpuJob("a", 2, 1), GpuJob("b", 4, 2), GpuJob("c", 1, 1), GpuJob("d", 8, 3)});
  const Decision first = policy.Decide(view, 1);
  view = After(std::move(view), first);
  for (JobInfo& job : view.jobs) job.restarts = 1;
  const Decision second = policy.Decide(view, 2);
  for (size_t j = 0; j < view.jobs.size(); ++j) {
    EXPECT_EQ(second.jobs[j].allocation, first.jobs[j].allocation);
  }
}

TEST(Sia, AJobThatWasRestartedOftenForItsAgeStays) {
  const SiaPolicy policy({});
  ClusterView view = TwoTypes({GpuJob("a", 2, 1)});
  view.jobs[0].allocation = {"s0"};
  view.jobs[0].created = view.now - absl::Seconds(100);
  view.jobs[0].restarts = 2;
  EXPECT_THAT(policy.Decide(view, 1).jobs[0].allocation, ElementsAre("s0"));
  view.jobs[0].restarts = 0;
  EXPECT_THAT(policy.Decide(view, 1).jobs[0].allocation, SizeIs(2));
}

TEST(Sia, AJobThatIsBeingRescaledIsLeftAlone) {
  const SiaPolicy policy({});
  ClusterView view = TwoTypes({GpuJob("a", 8, 5)});
  view.jobs[0].allocation = {"s0"};
  view.jobs[0].restarting = true;
  const Decision decision = policy.Decide(view, 1);
  EXPECT_THAT(decision.jobs[0].allocation, ElementsAre("s0"));
  EXPECT_THAT(decision.jobs[0].reason, HasSubstr("left alone until it runs"));
}

TEST(Sia, KeepsToSizesAndToJobsThatCantBeMoved) {
  const SiaPolicy policy({});
  ClusterView view = TwoTypes({GpuJob("a", 8, 1), GpuJob("b", 8, 1), GpuJob("c", 16, 1)});
  view.jobs[0].preemptible = false;
  view.jobs[0].allocation = {"s0", "s0", "s0"};
  view.jobs[1].allowed_replicas = {3, 4};
  view.jobs[2].min_replicas = 9;
  const Decision decision = policy.Decide(view, 1);
  EXPECT_THAT(decision.jobs[0].allocation, ElementsAre("s0", "s0", "s0"));
  EXPECT_THAT(decision.jobs[1].allocation, SizeIs(4));
  EXPECT_THAT(decision.jobs[2].allocation, IsEmpty());
  EXPECT_THAT(decision.jobs[2].reason, HasSubstr("waits"));
}

TEST(Sia, MovesJobsOffDrainingNodes) {
  const SiaPolicy policy({});
  ClusterView view = TwoTypes({GpuJob("a", 4, 0.5)});
  view.nodes[1].draining = true;
  view.jobs[0].allocation = {"s0", "s0", "s0", "s0"};
  EXPECT_THAT(policy.Decide(view, 1).jobs[0].allocation, ElementsAre("s1", "s1", "s1", "s1"));
}

TEST(Sia, SaysWhatItDoesNotKnow) {
  const SiaPolicy policy({});
  ClusterView view = TwoTypes({GpuJob("two", 4, 1), GpuJob("cpu", 4, 1), GpuJob("huge", 4, 1)});
  view.jobs[0].request = {{kGpu, 2}};
  view.jobs[0].allocation = {"s0"};
  view.jobs[1].request = {{kGpu, 1}, {kCpu, 1000}};
  for (NodeInfo& node : view.nodes) node.capacity[kCpu] = 4000;  // the fast node has 8 GPUs
  view.jobs[2].request = {{kGpu, 16}};
  const Decision decision = policy.Decide(view, 1);
  EXPECT_THAT(decision.jobs[0].allocation, ElementsAre("s0"));
  EXPECT_THAT(decision.jobs[0].reason, HasSubstr("one GPU per replica only"));
  EXPECT_THAT(decision.jobs[1].allocation, IsEmpty());
  EXPECT_THAT(decision.jobs[1].reason, HasSubstr("f0 has too little of something"));
  EXPECT_FALSE(decision.jobs[1].unschedulable);
  EXPECT_TRUE(decision.jobs[2].unschedulable);
}

TEST(Sia, NoJobsAndNoNodesAreFine) {
  const SiaPolicy policy({});
  EXPECT_THAT(policy.Decide(ClusterView(), 1).jobs, IsEmpty());
  EXPECT_THAT(policy.Decide(TwoTypes({}), 1).capacity.idle_nodes, SizeIs(3));
  EXPECT_THAT(policy.Decide(View({}, {GpuJob("a", 1, 1)}), 1).jobs[0].allocation, IsEmpty());
}

// The published objective of a decision, with r = 1.
double Cost(const ClusterView& view, const std::vector<std::pair<std::string, int>>& sizes) {
  double cost = 0;
  for (size_t j = 0; j < sizes.size(); ++j) {
    const auto& [type, gpus] = sizes[j];
    const double relative = gpus == 0 ? 0 : SpeedupOn(view.jobs[j], type).At(1, gpus);
    cost += gpus == 0 ? 1.1 : std::round(100 / std::sqrt(relative)) / 100;
  }
  return cost;
}

TEST(Sia, IsAsGoodAsTryingEverything) {
  std::mt19937 random(3);
  const SiaPolicy policy({});
  for (int round = 0; round < 30; ++round) {
    std::vector<JobInfo> jobs;
    for (int j = 0; j < 4; ++j) {
      // At least 1 on fast GPUs, so that one slow GPU is the unit.
      jobs.push_back(
          GpuJob(absl::StrCat("j", j), 1 << (random() % 4), 1 + static_cast<double>(random() % 30) / 10));
    }
    const ClusterView view = TwoTypes(std::move(jobs));
    const Decision decision = policy.Decide(view, 1);
    std::vector<std::pair<std::string, int>> sizes;
    std::map<std::string, int> used;
    for (const JobDecision& job : decision.jobs) {
      const bool any = !job.allocation.empty();
      sizes.emplace_back(any && job.allocation[0] == "f0" ? "fast" : "slow",
                         static_cast<int>(job.allocation.size()));
      for (const std::string& node : job.allocation) ++used[node];
    }
    EXPECT_LE(used["f0"], 8);
    EXPECT_LE(used["s0"], 4);
    EXPECT_LE(used["s1"], 4);
    double best = HUGE_VAL;
    std::vector<std::pair<std::string, int>> tried(4);
    std::function<void(int, int, int)> search = [&](int job, int fast, int slow) {
      if (job == 4) {
        best = std::min(best, Cost(view, tried));
        return;
      }
      for (const int gpus : {0, 1, 2, 4, 8}) {
        if (gpus > view.jobs[job].max_replicas) continue;
        tried[job] = {"fast", gpus};
        if (gpus <= fast) search(job + 1, fast - gpus, slow);
        tried[job] = {"slow", gpus};
        if (gpus <= slow) search(job + 1, fast, slow - gpus);
      }
    };
    search(0, 8, 8);
    EXPECT_NEAR(Cost(view, sizes), best, 1e-6) << round;
  }
}

}  // namespace
}  // namespace adaptdl::simulator::sia
