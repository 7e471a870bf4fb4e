// Whole published workloads: the two deterministic baselines, job by job, and the default policy.

#include <string>
#include <tuple>

#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "simulator/engine.h"
#include "simulator/replay.h"
#include "simulator/schedulers/optimus.h"
#include "simulator/schedulers/tiresias.h"
#include "tests/simulator/peers.h"

namespace adaptdl::simulator {
namespace {

class ReplayTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(ReplayTest, EveryJobTakesExactlyAsLongAsPublished) {
  SKIP_WITHOUT_PEERS();
  const auto& [policy, load] = GetParam();
  const auto published =
      ReadJson(PolluxFolder() + "/results-jobload/" + policy + "-" + load + "/summary.json");
  const absl::StatusOr<Cluster> cluster = Cluster::Parse("16x4");
  ASSERT_TRUE(cluster.ok());
  const RealClock clock;
  for (int number = 1; number <= 6; ++number) {
    const std::string name = "workload-" + std::to_string(number);
    const absl::StatusOr<std::vector<WorkloadJob>> workload = LoadWorkload(
        {.path = PolluxFolder() + "/workloads" + (load == "1.0" ? "" : "-" + load) + "/" + name + ".csv",
         .trace_folders = {PolluxFolder()},
         .gpu_types = cluster->gpu_types()});
    ASSERT_TRUE(workload.ok()) << workload.status();
    Tiresias tiresias;
    Optimus optimus;
    Scheduler& scheduler = policy == "tiresias" ? static_cast<Scheduler&>(tiresias) : optimus;
    const absl::StatusOr<SimulationResult> result = Simulate(*cluster, *workload, scheduler, clock, {});
    ASSERT_TRUE(result.ok()) << result.status();
    const auto& expected = published["jcts"][name];
    ASSERT_EQ(result->jobs.size(), expected.size());
    for (const JobOutcome& job : result->jobs) {
      EXPECT_EQ(job.jct(), expected[job.name].get<double>()) << name << " " << job.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllLoads, ReplayTest,
                         testing::Combine(testing::Values("tiresias", "optimus"),
                                          testing::Values("0.5", "1.0", "1.5", "2.0")),
                         [](const auto& info) {
                           const std::string& load = std::get<1>(info.param);
                           return std::get<0>(info.param) + "_" + load[0] + "_" + load[2];
                         });

TEST(DefaultPolicyTest, IsDeterministicAndFinishesJobsSoonerThanPollux) {
  SKIP_WITHOUT_PEERS();
  ReplayOptions options;
  options.workload = PolluxFolder() + "/workloads/workload-6.csv";
  options.traces = {PolluxFolder()};
  options.policy = "goodput";
  options.format = OutputFormat::kJson;
  const absl::StatusOr<std::string> first = Replay(options);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::StatusOr<std::string> second = Replay(options);
  ASSERT_TRUE(second.ok()) << second.status();
  const nlohmann::json result = nlohmann::json::parse(*first);
  EXPECT_EQ(result["jcts"], nlohmann::json::parse(*second)["jcts"]);
  const nlohmann::json published = ReadJson(PolluxFolder() + "/results-jobload/pollux-1.0/summary.json");
  EXPECT_LT(result["avg_jct_s"].get<double>(), published["avgs"]["workload-6"].get<double>());
}

}  // namespace
}  // namespace adaptdl::simulator
