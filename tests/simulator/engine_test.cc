#include "simulator/engine.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "tests/simulator/script.h"
#include "tests/simulator/toy.h"

namespace adaptdl::simulator {
namespace {

using testing::HasSubstr;

class EngineTest : public ToyTest {
 protected:
  absl::StatusOr<SimulationResult> Run(const std::vector<std::string>& jobs, Script& script,
                                       const SimulationOptions& options = {},
                                       const std::string& nodes = "2x4") {
    const absl::StatusOr<Cluster> cluster = Cluster::Parse(nodes);
    EXPECT_TRUE(cluster.ok());
    workload_ = Load(jobs, cluster->gpu_types());
    return Simulate(*cluster, workload_, script, clock_, options);
  }

  const RealClock clock_;
  std::vector<WorkloadJob> workload_;
};

TEST_F(EngineTest, AJobStartsAtTheNextRoundAndPaysForItsStart) {
  Script script([](const std::string&, double) { return Placement{{0, 1}}; });
  const auto result = Run({"a,10"}, script);
  ASSERT_TRUE(result.ok()) << result.status();
  const JobOutcome& job = result->jobs[0];
  EXPECT_EQ(job.started, 60);
  EXPECT_EQ(job.completed, 60 + 30 + 300);
  EXPECT_EQ(job.jct(), 380);
  EXPECT_EQ(job.gpu_seconds, 330);
  EXPECT_EQ(job.restarts, 0);
  ASSERT_EQ(result->timeline.size(), 1u);
  EXPECT_EQ(result->timeline[0].start, 60);
  EXPECT_EQ(result->timeline[0].end, 390);
  EXPECT_EQ(result->timeline[0].gpus, 1);
}

TEST_F(EngineTest, RoundsWithoutJobsAreSkipped) {
  Script script([](const std::string&, double) { return Placement{{0, 4}}; });
  const auto result = Run({"a,0", "b,100000"}, script);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->jobs[1].started, 100'020);
  EXPECT_LT(script.times.size(), 10u);
}

TEST_F(EngineTest, EventsStartAJobAfterTheDebounce) {
  Script script([](const std::string&, double) { return Placement{{0, 1}}; });
  const auto result = Run({"a,10", "b,400"}, script, {.round_seconds = 0, .restart_seconds = 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->jobs[0].completed, 10.1 + 1 + 300, 1e-6);
  EXPECT_NEAR(result->jobs[1].started, 400.1, 1e-6);
  EXPECT_NEAR(script.times[0], 10.1, 1e-6);
  EXPECT_NEAR(script.times[1], 70.1, 1e-6);  // the interval
}

TEST_F(EngineTest, ACompletionIsAnEvent) {
  Script script([](const std::string& job, double now) {
    return (job == "a") == (now < 301) ? Placement{{0, 1}} : Placement{};
  });
  const auto result = Run({"a,0", "b,5"}, script, {.round_seconds = 0, .restart_seconds = 1}, "1x1");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->jobs[0].completed, 0.1 + 1 + 300, 1e-6);
  EXPECT_NEAR(result->jobs[1].started, 301.1 + 0.1, 1e-6);
}

TEST_F(EngineTest, EveryChangeOfNodesIsARestartUnlessMovesAreFree) {
  const auto move = [](const std::string&, double now) { return Placement{{now < 180 ? 0 : 1, 1}}; };
  Script paid(move);
  const auto result = Run({"a,0"}, paid);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->jobs[0].restarts, 1);
  EXPECT_EQ(result->jobs[0].completed, 60 + 30 + 300 + 30);
  Script free(move);
  const auto moved = Run({"a,0"}, free, {.free_moves = true});
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(moved->jobs[0].restarts, 0);
  EXPECT_EQ(moved->jobs[0].completed, result->jobs[0].completed - 30);
}

TEST_F(EngineTest, ASuspendedJobKeepsItsProgressAndRestartsOnce) {
  Script script([](const std::string&, double now) {
    return now >= 120 && now < 240 ? Placement{} : Placement{{0, 1}};
  });
  const auto result = Run({"a,60"}, script);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->jobs[0].restarts, 1);
  // 30 steps in the first minute, the others after the second start.
  EXPECT_EQ(result->jobs[0].completed, 240 + 30 + 270);
  EXPECT_EQ(result->jobs[0].gpu_seconds, 60 + 300);
  EXPECT_EQ(result->timeline.size(), 2u);
}

TEST_F(EngineTest, RestartsMayCostWhatTheApplicationSays) {
  Script script([](const std::string&, double) { return Placement{{0, 1}}; });
  SimulationOptions options;
  options.restart_seconds.reset();
  const auto result = Run({"a,0"}, script, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->jobs[0].gpu_seconds, workload_[0].application->restart_seconds + 300);
}

TEST_F(EngineTest, DistributedJobsOnOneNodeSlowEachOtherDown) {
  const auto place = [](const std::string& job, double) {
    return job == "a" ? Placement{{0, 1}, {1, 1}} : Placement{{1, 1}, {2, 1}};
  };
  Script quiet(place);
  const auto apart = Run({"a,0", "b,0"}, quiet, {}, "3x4");
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(apart->jobs[0].gpu_seconds, 2 * (30 + 180));
  Script loud(place);
  const auto together = Run({"a,0", "b,0"}, loud, {.interference = 0.5}, "3x4");
  ASSERT_TRUE(together.ok()) << together.status();
  EXPECT_EQ(together->jobs[0].gpu_seconds, 2 * (30 + 360));
}

TEST_F(EngineTest, GpuTypesHaveTheirOwnSpeeds) {
  WriteTraces("toy", "placements-slow.csv", 2);
  Script script([](const std::string& job, double) { return Placement{{job == "a" ? 0 : 1, 1}}; });
  const auto result = Run({"a,0", "b,0"}, script, {}, "aws:1x4,slow:1x4");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->jobs[0].gpu_seconds, 330);
  EXPECT_EQ(result->jobs[1].gpu_seconds, 630);
  EXPECT_EQ(result->timeline[1].gpu_type + result->timeline[0].gpu_type, 1);
}

TEST_F(EngineTest, AdaptiveJobsLearnAndFinishAtTheSameTimeInBothModes) {
  const auto place = [](const std::string&, double) { return Placement{{0, 4}}; };
  Script rounds(place, /*adaptive=*/true);
  const auto in_rounds = Run({"a,60"}, rounds);
  ASSERT_TRUE(in_rounds.ok()) << in_rounds.status();
  EXPECT_EQ(in_rounds->jobs[0].completed, 60 + 30 + 75);
  Script events(place, /*adaptive=*/true);
  const auto by_events = Run({"a,60"}, events, {.round_seconds = 0});
  ASSERT_TRUE(by_events.ok()) << by_events.status();
  EXPECT_NEAR(by_events->jobs[0].completed, 60.1 + 30 + 75, 1e-5);
}

TEST_F(EngineTest, AnswersThatDoNotFitTheClusterAreRefused) {
  Script crowded([](const std::string&, double) { return Placement{{0, 3}}; });
  const auto too_many = Run({"a,0", "b,0"}, crowded);
  EXPECT_EQ(too_many.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(too_many.status().message()), HasSubstr("3 replicas of b on node 0"));
  Script nowhere([](const std::string&, double) { return Placement{{7, 1}}; });
  EXPECT_EQ(Run({"a,0"}, nowhere).status().code(), absl::StatusCode::kInternal);
  WriteTraces("toy", "placements-slow.csv", 2);
  Script mixed([](const std::string&, double) { return Placement{{0, 1}, {1, 1}}; });
  const auto types = Run({"a,0"}, mixed, {}, "aws:1x4,slow:1x4");
  EXPECT_THAT(std::string(types.status().message()), HasSubstr("mixed GPU types"));
}

TEST_F(EngineTest, WhatTheTracesDoNotCoverIsRefused) {
  Script script([](const std::string&, double) { return Placement{{0, 3}}; });
  const auto result = Run({"a,0"}, script);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("3 replicas on 1 nodes"));
}

TEST_F(EngineTest, ASchedulerThatStartsNobodyIsFoundOut) {
  Script idle([](const std::string&, double) { return Placement{}; });
  for (const double round : {60.0, 0.0}) {
    const auto result = Run({"a,0"}, idle, {.round_seconds = round, .interval_seconds = 3600});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(EngineTest, OptionsOutOfRangeAreNamed) {
  Script script([](const std::string&, double) { return Placement{{0, 1}}; });
  EXPECT_THAT(std::string(Run({"a,0"}, script, {.round_seconds = -1}).status().message()),
              HasSubstr("round is -1"));
  EXPECT_THAT(std::string(Run({"a,0"}, script, {.interference = 1}).status().message()),
              HasSubstr("interference is 1"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(std::string(Run({"a,0"}, script, {.restart_seconds = nan}).status().message()),
              HasSubstr("restart is nan"));
}

TEST(Cluster, ParsesGroupsAndNamesWhatIsWrong) {
  const auto mixed = Cluster::Parse("aws:6x4,rtx:3x8,dgx-ext:2x8");
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_EQ(mixed->nodes().size(), 11u);
  EXPECT_EQ(mixed->total_gpus(), 64);
  EXPECT_EQ(mixed->total_gpus(1), 24);
  EXPECT_EQ(mixed->LargestNode(2, {{scheduling::kGpu, 2}}), 4);
  EXPECT_EQ(mixed->Pack(1, 11), (Placement{{6, 8}, {7, 3}}));
  for (const char* bad :
       {"", "16", "16x", "x4", "0x4", "4x0", "-1x4", "4x4x4", ":4x4", "a:4x4,a:4x4", "4x4,", "9999999x1"}) {
    EXPECT_EQ(Cluster::Parse(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace adaptdl::simulator
