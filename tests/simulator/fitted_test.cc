// Jobs whose course is given by models instead of traces.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/goodput/model.h"
#include "simulator/engine.h"
#include "simulator/schedulers/factory.h"
#include "simulator/traces/workload.h"

namespace adaptdl::simulator {
namespace {

// The model's network times are never quite 0.
constexpr double kTiny = 1e-7;

// A step of b samples takes 0.1 + 0.01 b seconds; exchanges cost 0.1 s on one node, 0.4 s on several.
constexpr goodput::PerfParams kPerf = {
    .alpha_c = 0.1, .beta_c = 0.01, .alpha_n = 0.4, .beta_n = 0, .alpha_r = 0.1, .beta_r = 0, .gamma = 1};

// Keeps its batch of 100: 1.1 s per step on one replica, and 5 s for each start.
WorkloadJob FixedJob(const std::string& name, double steps, const ReplicaDemand& demand) {
  Application application{.name = name,
                          .curve = TrainingCurve::Constant({.sqr = 1, .var = 1}, 100, 100, steps)};
  // The same on two types of GPU.
  application.step_times.assign(2, StepTimes::FromModel(kPerf, 10, 100));
  application.min_local.assign(2, 10);
  application.max_local.assign(2, 100);
  application.restart_seconds = 5;
  WorkloadJob job{name, 0, std::make_shared<const Application>(std::move(application)), 1, 100};
  job.demand = demand;
  return job;
}

absl::StatusOr<SimulationResult> Replayed(const std::vector<WorkloadJob>& jobs,
                                          const std::vector<Cluster::Group>& groups) {
  const absl::StatusOr<Cluster> cluster = Cluster::FromGroups(groups);
  const absl::StatusOr<std::unique_ptr<Scheduler>> scheduler = MakeScheduler("goodput", {});
  if (!cluster.ok() || !scheduler.ok()) return cluster.ok() ? scheduler.status() : cluster.status();
  SimulationOptions options;
  options.round_seconds = 0;
  options.restart_seconds.reset();
  options.search = BatchSearch::kLibrary;
  const RealClock clock;
  return Simulate(*cluster, jobs, **scheduler, clock, options);
}

TEST(Fitted, StepTimesFollowTheModel) {
  const StepTimes times = StepTimes::FromModel(kPerf, 10, 100);
  EXPECT_NEAR(times.Resolve({1}).At(50)->step, 0.6, kTiny);
  EXPECT_NEAR(times.Resolve({1}).At(50)->sync, 0, kTiny);
  EXPECT_NEAR(times.Resolve({2}).At(50)->step, 0.7, kTiny);
  EXPECT_NEAR(times.Resolve({2}).At(50)->sync, 0.1, kTiny);
  EXPECT_NEAR(times.Resolve({1, 1}).At(50)->step, 1.0, kTiny);
  EXPECT_DOUBLE_EQ(times.single_gpu_throughput(), 100 / 1.1);
}

TEST(Fitted, StatisticsAreTheSameAtAnyBatchSize) {
  const TrainingCurve curve = TrainingCurve::Constant({.sqr = 3, .var = 5}, 100, 400, 1000);
  const TrainingCurve shortened = curve.Shortened(20);
  EXPECT_EQ(shortened.ProgressAfter(0), 50);
  EXPECT_EQ(shortened.Iterations(400, 0), curve.Iterations(400, 0) / 20);
  EXPECT_EQ(shortened.Gradient(200, 0).var, 5);
  for (const int64_t batch : {99, 100, 250, 400, 402}) {
    EXPECT_TRUE(curve.Covers(batch));
    EXPECT_NEAR(curve.Gradient(batch, 0).sqr, 3, 1e-9) << batch;
    EXPECT_NEAR(curve.Gradient(batch, 0).var, 5, 1e-9) << batch;
  }
  EXPECT_EQ(curve.epochs(), 1);
  EXPECT_DOUBLE_EQ(curve.ProgressAfter(0), 1000);
  EXPECT_DOUBLE_EQ(curve.Iterations(100, 0), 1000);
  EXPECT_LT(curve.Iterations(400, 0), 1000);
}

TEST(Fitted, AJobAloneTakesAsLongAsItsModelSays) {
  ReplicaDemand demand;
  demand.max_replicas = 1;
  const auto result = Replayed({FixedJob("a", 1000, demand)}, {{"T4", 1, {{"gpu", 4}}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->jobs[0].completed - result->jobs[0].started, 5 + 1000 * 1.1, 1000 * kTiny);
  EXPECT_EQ(result->jobs[0].restarts, 0);
}

TEST(Fitted, ABatchThatCannotBeSplitEvenlyIsRoundedUp) {
  ReplicaDemand demand;
  demand.min_replicas = 3;
  demand.max_replicas = 3;
  const auto result = Replayed({FixedJob("a", 1000, demand)}, {{"T4", 1, {{"gpu", 4}}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->jobs[0].gpu_seconds, 3 * (result->jobs[0].completed - result->jobs[0].started), 1e-6);
}

TEST(Fitted, JobsGetWhatTheyAskFor) {
  ReplicaDemand two_gpus;
  two_gpus.max_replicas = 8;
  two_gpus.request = {{"gpu", 2}, {"cpu", 1000}};
  ReplicaDemand cores;
  cores.allowed_replicas = {1, 3};
  cores.request = {{"cpu", 500}};
  const std::vector<WorkloadJob> jobs = {FixedJob("gpus", 4000, two_gpus), FixedJob("cores", 4000, cores)};
  const auto result = Replayed(jobs, {{"T4", 1, {{"gpu", 4}, {"cpu", 2000}}}, {"cpu", 2, {{"cpu", 1000}}}});
  // The check of the engine: no node is given more than it has.
  ASSERT_TRUE(result.ok()) << result.status();
  for (const Segment& segment : result->timeline) {
    const bool fits = segment.job == 0 ? segment.gpus <= 2 : segment.gpus == 1 || segment.gpus == 3;
    EXPECT_TRUE(fits) << segment.job << " has " << segment.gpus;
  }
}

TEST(Cluster, IsMadeOfGroupsOfAnyCapacity) {
  const auto mixed = Cluster::FromGroups({{"T4", 2, {{"gpu", 4}, {"cpu", 8000}}},
                                          {"A100", 1, {{"gpu", 8}, {"cpu", 9000}}},
                                          {"T4", 1, {{"gpu", 1}}}});
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_THAT(mixed->gpu_types(), testing::ElementsAre("T4", "A100"));
  EXPECT_EQ(mixed->total_gpus(), 17);
  EXPECT_EQ(mixed->total_gpus(0), 9);
  EXPECT_EQ(mixed->TotalReplicas(0, {{"gpu", 1}, {"cpu", 4000}}), 4);
  EXPECT_EQ(mixed->LargestNode(1, {{"gpu", 1}, {"cpu", 4000}}), 2);
  const auto cores = Cluster::FromGroups({{"cpu", 3, {{"cpu", 4000}}}});
  ASSERT_TRUE(cores.ok()) << cores.status();
  EXPECT_EQ(cores->total_gpus(), 12);
  EXPECT_EQ(Cluster::FromGroups({}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace adaptdl::simulator
