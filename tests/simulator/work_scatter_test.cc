#include "simulator/traces/work_scatter.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "simulator/engine.h"
#include "simulator/policies/policies.h"
#include "simulator/schedulers/factory.h"
#include "tests/simulator/toy.h"

namespace adaptdl::simulator {
namespace {

using ::testing::HasSubstr;

class WorkScatterTest : public ToyTest {
 protected:
  std::vector<WorkloadJob> Many(int jobs) const {
    std::vector<std::string> lines;
    for (int i = 0; i < jobs; ++i)
      lines.push_back("job-" + std::to_string(i) + "," + std::to_string(i * 100));
    return Load(lines);
  }
};

TEST_F(WorkScatterTest, ScattersAroundTheApplicationsWork) {
  std::vector<WorkloadJob> workload = Many(2000);
  ScatterWork(0.5, 1, &workload);
  double mean = 0;
  double mean_log = 0;
  for (const WorkloadJob& job : workload) {
    mean += job.work / 2000;
    mean_log += std::log(job.work) / 2000;
  }
  EXPECT_NEAR(mean, 1, 0.05);
  EXPECT_NEAR(mean_log, -0.125, 0.05);
  double variance = 0;
  for (const WorkloadJob& job : workload) variance += std::pow(std::log(job.work) - mean_log, 2) / 2000;
  EXPECT_NEAR(std::sqrt(variance), 0.5, 0.05);
}

TEST_F(WorkScatterTest, DependsOnNameAndSeedAlone) {
  std::vector<WorkloadJob> all = Many(5);
  std::vector<WorkloadJob> last = {all[4]};
  ScatterWork(0.5, 3, &all);
  ScatterWork(0.5, 3, &last);
  EXPECT_EQ(all[4].work, last[0].work);
  ScatterWork(0.5, 4, &last);
  EXPECT_NE(all[4].work, last[0].work);
  ScatterWork(0, 4, &last);
  EXPECT_NE(last[0].work, 1) << "no scatter leaves them as they are";
}

TEST_F(WorkScatterTest, AJobOfTwiceTheWorkTakesTwiceAsLong) {
  std::vector<WorkloadJob> workload = Many(1);
  const auto took = [&](double work) {
    workload[0].work = work;
    const auto result =
        Simulate(*Cluster::Parse("1x1"), workload, **MakeScheduler("fifo", {}), RealClock(), {});
    EXPECT_TRUE(result.ok()) << result.status();
    return result->jobs[0].completed - result->jobs[0].started;
  };
  EXPECT_NEAR(took(1), 30 + 300, 1e-3);
  EXPECT_NEAR(took(2), 30 + 600, 1e-3);
  EXPECT_NEAR(took(0.25), 30 + 75, 1e-3);
}

TEST_F(WorkScatterTest, EarlierJobsAreOfEachApplication) {
  const auto earlier = EarlierJobs(500, 0.5, 1, Many(3));
  ASSERT_EQ(earlier.size(), 1u);
  const pastwork::PastWork& past = earlier.at("toy");
  EXPECT_EQ(past.jobs, 500);
  // 300 steps of 100 samples.
  EXPECT_NEAR(past.mean_log, std::log(30'000) - 0.125, 0.1);
  EXPECT_NEAR(std::sqrt(past.squares_log / 499), 0.5, 0.1);
  EXPECT_EQ(EarlierJobs(0, 0.5, 1, Many(3)).at("toy").jobs, 0);
}

// Keeps what it is told of the jobs, and gives each a GPU.
class Listener final : public scheduling::AllocationPolicy {
 public:
  explicit Listener(std::vector<scheduling::ClusterView>* views) : views_(views) {}
  absl::string_view name() const override { return "listener"; }
  scheduling::Decision Decide(const scheduling::ClusterView& view, uint64_t /*seed*/) const override {
    views_->push_back(view);
    scheduling::Decision decision;
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      decision.jobs.emplace_back().key = view.jobs[i].key;
      decision.jobs.back().allocation = {view.nodes[i].id};
    }
    return decision;
  }

 private:
  std::vector<scheduling::ClusterView>* const views_;
};

TEST_F(WorkScatterTest, TheFirstJobThatIsDoneTellsOfTheOthers) {
  const std::vector<WorkloadJob> workload = Load({"first,0", "second,600"});
  for (const RemainingWork work : {RemainingWork::kHistory, RemainingWork::kUnknown}) {
    std::vector<scheduling::ClusterView> views;
    PolicyScheduler scheduler(std::make_unique<Listener>(&views), {.remaining_work = work});
    ASSERT_TRUE(Simulate(*Cluster::Parse("2x1"), workload, scheduler, RealClock(), {}).ok());
    int hints = 0;
    for (const scheduling::ClusterView& view : views) {
      for (const scheduling::JobInfo& job : view.jobs) {
        EXPECT_EQ(job.remaining_seconds, std::nullopt);
        if (job.expected_seconds.has_value()) {
          EXPECT_EQ(job.key, "second");
          ++hints;
        }
      }
    }
    EXPECT_EQ(hints > 0, work == RemainingWork::kHistory);
  }
}

TEST_F(WorkScatterTest, WhatWasDoneBeforeCountsFromTheStart) {
  const std::vector<WorkloadJob> workload = Load({"first,0"});
  std::vector<scheduling::ClusterView> views;
  PolicyScheduler scheduler(std::make_unique<Listener>(&views), {.remaining_work = RemainingWork::kHistory,
                                                                 .past = EarlierJobs(10, 0, 1, workload)});
  ASSERT_TRUE(Simulate(*Cluster::Parse("1x1"), workload, scheduler, RealClock(), {}).ok());
  ASSERT_GE(views.size(), 3u);
  EXPECT_EQ(views[0].jobs[0].expected_seconds, std::nullopt) << "it has not measured itself";
  ASSERT_TRUE(views[1].jobs[0].expected_seconds.has_value());
  EXPECT_GT(*views[1].jobs[0].expected_seconds, *views[2].jobs[0].expected_seconds) << "it gets there";
}

}  // namespace
}  // namespace adaptdl::simulator
