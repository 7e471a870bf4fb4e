// Jobs that use no training library: in the simulation, and under the default policy beside others.

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "simulator/engine.h"
#include "simulator/schedulers/factory.h"
#include "simulator/schedulers/fifo.h"
#include "tests/simulator/peers.h"
#include "tests/simulator/script.h"
#include "tests/simulator/toy.h"

namespace adaptdl::simulator {
namespace {

class PlainTest : public ToyTest {
 protected:
  SimulationResult Run(const std::string& nodes, const std::vector<WorkloadJob>& workload,
                       Scheduler& scheduler, double round_seconds = 60) {
    const absl::StatusOr<Cluster> cluster = Cluster::Parse(nodes);
    EXPECT_TRUE(cluster.ok());
    SimulationOptions options;
    options.round_seconds = round_seconds;
    const absl::StatusOr<SimulationResult> result =
        Simulate(*cluster, workload, scheduler, RealClock(), options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(SimulationResult());
  }
};

TEST_F(PlainTest, APlainJobBeginsAnewWhenItWasStopped) {
  std::vector<WorkloadJob> workload = Load({"plain,0", "elastic,0"});
  workload[0].plain = true;
  // Both are stopped after the third minute, for a minute.
  Script script(
      [](const std::string& name, double now) {
        return now == 240 ? Placement() : Placement{{name == "plain" ? 0 : 1, 1}};
      },
      /*adaptive=*/true);
  const SimulationResult result = Run("2x1", workload, script);
  ASSERT_EQ(result.jobs.size(), 2u);
  // From 60 s: 30 s to start, 150 s of work for nothing, and from 300 s on 30 s and 300 s of work.
  EXPECT_EQ(result.jobs[0].completed, 630);
  EXPECT_EQ(result.jobs[0].lost_seconds, 150);
  EXPECT_TRUE(result.jobs[0].plain);
  EXPECT_LE(result.jobs[1].completed, 480);
  EXPECT_EQ(result.jobs[1].lost_seconds, 0);
}

TEST_F(PlainTest, FirstComeFirstServed) {
  const std::vector<WorkloadJob> workload = Load({"a,0", "b,10", "c,20"});
  Fifo fifo;
  const SimulationResult result = Run("1x2", workload, fifo);
  ASSERT_EQ(result.jobs.size(), 3u);
  EXPECT_EQ(result.jobs[0].started, 60);
  EXPECT_EQ(result.jobs[1].started, 60);
  // The next round after the others' 330 s.
  EXPECT_EQ(result.jobs[2].started, 420);
}

TEST_F(PlainTest, ABurstOfPlainJobsOnAFullClusterIsServedInOrderAndLosesNothing) {
  std::vector<std::string> lines;
  for (int i = 0; i < 12; ++i) lines.push_back(absl::StrCat("job-", i, ",", 8 * i));
  std::vector<WorkloadJob> workload = Load(lines);
  MakePlain(1, 1, &workload);
  const auto goodput = MakeScheduler("goodput", {});
  ASSERT_TRUE(goodput.ok());
  const SimulationResult result = Run("1x2", workload, **goodput, /*round_seconds=*/0);
  for (size_t i = 0; i < result.jobs.size(); ++i) {
    EXPECT_EQ(result.jobs[i].lost_seconds, 0) << i;
    EXPECT_EQ(result.jobs[i].restarts, 0) << i;
    if (i > 0) {
      EXPECT_GE(result.jobs[i].started, result.jobs[i - 1].started) << i;
    }
  }
}

// The published workloads, a quarter of the jobs being plain.
class QuarterPlainTest : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(QuarterPlainTest, TakesNoLongerOnAverageThanFirstComeFirstServed) {
  SKIP_WITHOUT_PEERS();
  const auto& [load, number] = GetParam();
  const absl::StatusOr<Cluster> cluster = Cluster::Parse("16x4");
  ASSERT_TRUE(cluster.ok());
  absl::StatusOr<std::vector<WorkloadJob>> workload =
      LoadWorkload({.path = absl::StrCat(PolluxFolder(), "/workloads", load == "1.0" ? "" : "-" + load,
                                         "/workload-", number, ".csv"),
                    .trace_folders = {PolluxFolder()},
                    .gpu_types = cluster->gpu_types()});
  ASSERT_TRUE(workload.ok()) << workload.status();
  MakePlain(0.25, 1, &*workload);
  struct Means {
    double all = 0;
    double plain = 0;
  };
  const auto means = [&](const std::string& policy, bool known) {
    Means sum;
    int plain = 0;
    const auto scheduler = MakeScheduler(
        policy, {.seed = 1, .remaining_work = known ? RemainingWork::kKnown : RemainingWork::kUnknown});
    const absl::StatusOr<SimulationResult> result =
        Simulate(*cluster, *workload, **scheduler, RealClock(), {});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return sum;
    for (const JobOutcome& job : result->jobs) {
      sum.all += job.jct() / static_cast<double>(result->jobs.size());
      if (!job.plain) continue;
      EXPECT_EQ(job.lost_seconds, 0) << policy << " " << job.name;
      sum.plain += job.jct();
      ++plain;
    }
    sum.plain /= plain;
    return sum;
  };
  const Means in_order = means("fifo", true);
  for (const bool known : {true, false}) {
    const Means ours = means("goodput", known);
    EXPECT_LE(ours.all, in_order.all) << known;
    EXPECT_LE(ours.plain, in_order.plain) << known;
  }
}

INSTANTIATE_TEST_SUITE_P(Workloads, QuarterPlainTest,
                         testing::Combine(testing::Values("1.0", "1.5", "2.0"), testing::Values(1, 3, 6)),
                         [](const auto& info) {
                           const std::string& load = std::get<0>(info.param);
                           return absl::StrCat(load.substr(0, 1), "_", load.substr(2), "_",
                                               std::get<1>(info.param));
                         });

}  // namespace
}  // namespace adaptdl::simulator
