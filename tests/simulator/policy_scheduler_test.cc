#include "simulator/schedulers/policy_scheduler.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "simulator/engine.h"
#include "simulator/policies/all_policies.h"
#include "simulator/schedulers/factory.h"
#include "tests/simulator/toy.h"

namespace adaptdl::simulator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Call {
  scheduling::ClusterView view;
  uint64_t seed;
};

// Gives each job as many replicas as it may have, from the last node backwards, ranks in that order.
class Generous final : public scheduling::AllocationPolicy {
 public:
  explicit Generous(std::vector<Call>* calls, bool knows_gpu_types = false)
      : calls_(calls), knows_gpu_types_(knows_gpu_types) {}

  absl::string_view name() const override { return "generous"; }
  bool knows_gpu_types() const override { return knows_gpu_types_; }

  scheduling::Decision Decide(const scheduling::ClusterView& view, uint64_t seed) const override {
    calls_->push_back({view, seed});
    std::vector<std::string> free;
    for (const scheduling::NodeInfo& node : view.nodes) {
      free.insert(free.end(), node.capacity.at(scheduling::kGpu), node.id);
    }
    scheduling::Decision decision;
    for (const scheduling::JobInfo& job : view.jobs) {
      scheduling::JobDecision& mine = decision.jobs.emplace_back();
      mine.key = job.key;
      for (int i = 0; i < job.max_replicas && !free.empty(); ++i) {
        mine.allocation.push_back(free.back());
        free.pop_back();
      }
    }
    return decision;
  }

 private:
  std::vector<Call>* const calls_;
  const bool knows_gpu_types_;
};

class PolicySchedulerTest : public ToyTest {
 protected:
  absl::StatusOr<SimulationResult> Run(const std::vector<std::string>& jobs, const std::string& nodes,
                                       Scheduler& scheduler) {
    const absl::StatusOr<Cluster> cluster = Cluster::Parse(nodes);
    EXPECT_TRUE(cluster.ok());
    workload_ = Load(jobs, cluster->gpu_types());
    return Simulate(*cluster, workload_, scheduler, RealClock(), {});
  }

  std::vector<WorkloadJob> workload_;
  std::vector<Call> calls_;
};

TEST_F(PolicySchedulerTest, ThePolicySeesWhatALiveOneSees) {
  PolicyScheduler scheduler(std::make_unique<Generous>(&calls_), PolicyScheduler::Options{.seed = 7});
  const auto result = Run({"a,10"}, "1x4", scheduler);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_GE(calls_.size(), 3u);

  const scheduling::JobInfo& first = calls_[0].view.jobs[0];
  EXPECT_EQ(first.key, "a");
  EXPECT_EQ(first.max_replicas, 1);  // never measured
  EXPECT_EQ(first.request, (scheduling::Resources{{scheduling::kGpu, 1}}));
  EXPECT_EQ(first.created, absl::UnixEpoch() + absl::Seconds(10));
  EXPECT_TRUE(first.allocation.empty());
  EXPECT_EQ(first.speedup->At(1, 1), 1);
  EXPECT_EQ(calls_[0].view.nodes[0].capacity.at(scheduling::kGpu), 4);
  EXPECT_EQ(calls_[0].view.nodes[0].gpu_type, "aws");

  const scheduling::JobInfo& second = calls_[1].view.jobs[0];
  EXPECT_EQ(second.max_replicas, 2);  // twice what it measured
  EXPECT_THAT(second.allocation, ElementsAre(calls_[0].view.nodes[0].id));
  EXPECT_EQ(calls_[2].view.jobs[0].max_replicas, 4);
  EXPECT_EQ(calls_[0].seed, 7u);
  EXPECT_EQ(calls_[1].seed, 8u);
}

TEST_F(PolicySchedulerTest, RanksMayComeInAnyOrderOfNodes) {
  PolicyScheduler scheduler(std::make_unique<Generous>(&calls_), {});
  // Two nodes of one GPU: the second round spans both, the last node first.
  const auto result = Run({"a,0"}, "2x1", scheduler);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_GE(calls_.size(), 3u);
  const std::string& low = calls_[0].view.nodes[0].id;
  const std::string& high = calls_[0].view.nodes[1].id;
  EXPECT_LT(low, high);
  EXPECT_THAT(calls_[1].view.jobs[0].allocation, ElementsAre(high));
  EXPECT_THAT(calls_[2].view.jobs[0].allocation, ElementsAre(low, high));
  EXPECT_EQ(result->jobs[0].restarts, 1);
}

TEST_F(PolicySchedulerTest, SeveralGpuTypesAreRefused) {
  WriteTraces("toy", "placements-slow.csv", 2);
  PolicyScheduler scheduler(std::make_unique<Generous>(&calls_), {});
  const auto result = Run({"a,0"}, "aws:1x1,slow:1x1", scheduler);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("generous knows one GPU type only"));
}

TEST_F(PolicySchedulerTest, OtherGpuTypesAreProjectedUntilTheyAreMeasured) {
  WriteTraces("toy", "placements-slow.csv", 2);
  WriteTraces("toy", "placements-slower.csv", 4);
  // Runs on the last node, which is of type "slower", at first; then is offered all nodes.
  PolicyScheduler scheduler(std::make_unique<Generous>(&calls_, /*knows_gpu_types=*/true), {});
  const auto result = Run({"a,0"}, "aws:1x1,slow:1x1,slower:1x4", scheduler);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_GE(calls_.size(), 3u);
  const scheduling::JobInfo& first = calls_[0].view.jobs[0];
  EXPECT_TRUE(first.speedup_by_type.empty());
  EXPECT_EQ(scheduling::SpeedupOn(first, "slow").At(1, 1), 1);
  EXPECT_FALSE(first.restarting);

  const scheduling::JobInfo& second = calls_[1].view.jobs[0];
  EXPECT_EQ(calls_[1].view.nodes[0].gpu_type, "aws");
  EXPECT_NEAR(scheduling::SpeedupOn(second, "slower").At(1, 1), 1, 1e-9);
  EXPECT_NEAR(scheduling::SpeedupOn(second, "slow").At(1, 1), 2, 1e-9);
  EXPECT_NEAR(scheduling::SpeedupOn(second, "aws").At(1, 1), 4, 1e-9);
  // There is one GPU of that type only.
  EXPECT_EQ(scheduling::SpeedupOn(second, "aws").At(2, 2), 0);
  EXPECT_GT(scheduling::SpeedupOn(second, "slower").At(1, 2), 1);
}

TEST_F(PolicySchedulerTest, ThePolicyIsToldOfRestarts) {
  PolicyScheduler scheduler(std::make_unique<Generous>(&calls_), {});
  const absl::StatusOr<Cluster> cluster = Cluster::Parse("1x4");
  ASSERT_TRUE(cluster.ok());
  workload_ = Load({"a,0"}, cluster->gpu_types());
  SimulationOptions options;
  options.restart_seconds = 90;
  ASSERT_TRUE(Simulate(*cluster, workload_, scheduler, RealClock(), options).ok());
  ASSERT_GE(calls_.size(), 3u);
  EXPECT_EQ(calls_[0].view.jobs[0].rescale_seconds, 90);
  EXPECT_FALSE(calls_[0].view.jobs[0].restarting);
  EXPECT_TRUE(calls_[1].view.jobs[0].restarting);
  EXPECT_FALSE(calls_[2].view.jobs[0].restarting);
}

TEST_F(PolicySchedulerTest, SpeedupsFollowTheBoundsOfTheBatchSize) {
  Write("traces/toy/placements.csv",
        "placement,local_bsz,step_time,sync_time\n"
        "1,25,0.6,0\n1,100,0.9,0\n2,25,0.7,0.1\n2,400,2.2,0.1\n");
  for (const char* batch : {"100", "400"}) {
    Write(absl::StrCat("traces/toy/validation-", batch, ".csv"),
          "progress,iteration,metric,grad_sqr,grad_var\n1000,1000,0,1,20\n");
  }
  workload_ = Load({"a,0"});
  Application application = *workload_[0].application;
  application.local_limit_per_placement = true;
  workload_[0].application = std::make_shared<const Application>(application);
  const auto cluster = Cluster::Parse("1x2");
  ASSERT_TRUE(cluster.ok());
  SimulatedJob job(workload_[0], 1, {});
  job.Reallocate({{0, 1}}, 0, {});
  ASSERT_TRUE(job.Advance(10, 1).ok());
  const SimulatedJob* const jobs[] = {&job};
  const auto see = [&](PolicyScheduler& scheduler) {
    EXPECT_TRUE(scheduler.Schedule({0, *cluster, jobs}).ok());
    return calls_.back().view.jobs[0];
  };
  PolicyScheduler scheduler(std::make_unique<Generous>(&calls_), {});
  const scheduling::JobInfo running = see(scheduler);
  // Without GPUs the job is no longer bound by what one GPU was measured with.
  job.Reallocate({}, 0, {});
  PolicyScheduler fresh(std::make_unique<Generous>(&calls_), {});
  const scheduling::JobInfo expected = see(fresh);
  ASSERT_NE(*expected.done_seconds, *running.done_seconds);
  EXPECT_EQ(*see(scheduler).done_seconds, *expected.done_seconds);
}

// The norm falls to a hundredth after the first epoch; a memory of 50 batches has all but forgotten it 390 batches later.
TEST_F(PolicySchedulerTest, AveragesOfGradientsLagBehindThem) {
  for (const char* batch : {"100", "400"}) {
    Write(absl::StrCat("traces/toy/validation-", batch, ".csv"),
          "progress,iteration,metric,grad_sqr,grad_var\n100,100,0,100,0\n500,500,0,1,0\n");
  }
  workload_ = Load({"a,0"});
  const auto norm_at = [&](double memory, double seconds) {
    SimulatedJob job(workload_[0], 1, {.adaptive = false, .gradient_memory = memory});
    job.Reallocate({{0, 1}}, 0, {});
    for (double now = 10; now <= seconds; now += 10) EXPECT_TRUE(job.Advance(now, 1).ok());
    return job.gradient().sqr;
  };
  EXPECT_NEAR(norm_at(50, 90), 100, 1e-3);
  const double mean = 1 + 99 * std::exp(-1) * (1 - std::exp(-2)) / (1 - std::exp(-3));
  EXPECT_GT(norm_at(50, 150), mean) << "the most that it may be";
  EXPECT_LT(norm_at(50, 150), 2 * mean);
  EXPECT_GT(norm_at(50, 490), 1);
  EXPECT_LT(norm_at(50, 490), 3);
}

TEST_F(PolicySchedulerTest, TheGoodputPolicyRunsAndIsDeterministic) {
  std::vector<double> completed;
  for (int run = 0; run < 2; ++run) {
    const auto scheduler = MakeScheduler("goodput", {});
    ASSERT_TRUE(scheduler.ok());
    const auto result = Run({"a,0", "b,10", "c,20", "d,70"}, "1x4", **scheduler);
    ASSERT_TRUE(result.ok()) << result.status();
    for (size_t i = 0; i < result->jobs.size(); ++i) {
      if (run == 0) {
        completed.push_back(result->jobs[i].completed);
      } else {
        EXPECT_EQ(result->jobs[i].completed, completed[i]);
      }
    }
  }
}

TEST(Factory, NamesWhatThereIs) {
  const auto missing = MakeScheduler("magic", {.policies = AllPolicies()});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("goodput, optimus, pollux, pollux-master, sia, tiresias"));
}

}  // namespace
}  // namespace adaptdl::simulator
