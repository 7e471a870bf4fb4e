#include "simulator/restart_times.h"

#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "simulator/engine.h"
#include "simulator/random.h"
#include "tests/simulator/script.h"
#include "tests/simulator/toy.h"

namespace adaptdl::simulator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(KeyedRandom, DependsOnSeedKeyAndNumberOnly) {
  EXPECT_EQ(KeyedUniform(1, "a", 0), KeyedUniform(1, "a", 0));
  const std::set<double> different = {KeyedUniform(1, "a", 0), KeyedUniform(2, "a", 0),
                                      KeyedUniform(1, "b", 0), KeyedUniform(1, "a", 1)};
  EXPECT_EQ(different.size(), 4u);
}

TEST(KeyedRandom, HasTheRightMean) {
  constexpr int kDraws = 20'000;
  double uniform = 0;
  double exponential = 0;
  for (int n = 0; n < kDraws; ++n) {
    const double u = KeyedUniform(7, "key", n);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    uniform += u / kDraws;
    exponential += KeyedExponential(7, "key", n, 50) / kDraws;
  }
  EXPECT_NEAR(uniform, 0.5, 0.01);
  EXPECT_NEAR(exponential, 50, 1.5);
}

TEST(RestartTimes, ApplicationsMayHaveTheirOwn) {
  const auto times = RestartTimes::Parse(R"({"pause_s": [10, 20.5], "applications": {"bert": [40]}})", "x");
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(times->Of("bert"), ElementsAre(40));
  EXPECT_THAT(times->Of("toy"), ElementsAre(10, 20.5));
  EXPECT_EQ(times->Mean("toy"), 15.25);
  const auto only = RestartTimes::Parse(R"({"applications": {"bert": [40]}})", "x");
  ASSERT_TRUE(only.ok()) << only.status();
  EXPECT_THAT(only->Of("toy"), IsEmpty());
}

TEST(RestartTimes, WhatIsWrongIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"[1]", "no JSON object"},
      {"{}", "there are no times"},
      {R"({"pause_s": []})", "\"pause_s\" is no list of numbers"},
      {R"({"pause_s": [3, -1]})", "\"pause_s\" contains -1"},
      {R"({"pause_s": ["x"]})", "\"pause_s\" contains \"x\""},
      {R"({"applications": {"bert": 3}})", "\"bert\" is no list"},
      {R"({"pauses": [3]})", "\"pauses\" has no meaning"},
      {R"({"pause_s": [3], "state_bytes": 8})", "the second above 0"},
      {R"({"pause_s": [3], "state_bytes": 8, "bytes_per_second": 0})", "the second above 0"},
      {R"({"pause_s": [3], "state_bytes": "8", "bytes_per_second": 1})", "the second above 0"},
  };
  for (const auto& [text, message] : cases) {
    const auto times = RestartTimes::Parse(text, "file.json");
    EXPECT_EQ(times.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(times.status().message()), HasSubstr(message));
    EXPECT_THAT(std::string(times.status().message()), HasSubstr("--restart-times file.json"));
  }
  EXPECT_EQ(RestartTimes::Load("/nowhere/at.all").status().code(), absl::StatusCode::kNotFound);
}

TEST(RestartTimes, AreLongerByTheTimeOfTheState) {
  const auto times = RestartTimes::Parse(
      R"({"source": "a test", "pause_s": [1, 2], "applications": {"bert": [3]}, "state_bytes": 8e8, "bytes_per_second": 4e8})",
      "file.json");
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(times->Of("ncf"), ElementsAre(3, 4));
  EXPECT_THAT(times->Of("bert"), ElementsAre(5));
}

class MeasuredRestartsTest : public ToyTest {
 protected:
  // Two jobs that change their node each minute.
  absl::StatusOr<SimulationResult> Run(const std::string& times, uint64_t seed,
                                       const std::vector<std::string>& jobs = {"a,0", "b,60"}) {
    const auto parsed = RestartTimes::Parse(times, "file.json");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    const auto cluster = Cluster::Parse("2x4");
    EXPECT_TRUE(cluster.ok());
    workload_ = Load(jobs, cluster->gpu_types());
    Script script([this](const std::string&, double now) {
      return Placement{{static_cast<int>(now / 60) % 2, 1}};
    });
    const auto result = Simulate(*cluster, workload_, script, RealClock(),
                                 {.restart_times = std::make_shared<RestartTimes>(*parsed), .seed = seed});
    expected_ = script.expected_restarts;
    return result;
  }

  std::vector<WorkloadJob> workload_;
  std::vector<double> expected_;
};

TEST_F(MeasuredRestartsTest, AreDrawnFromTheFileAndExpectedAsTheirMean) {
  const auto result = Run(R"({"pause_s": [10, 20]})", 1);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const JobOutcome& job : result->jobs) {
    const double restarting = job.gpu_seconds - 300;
    EXPECT_GT(restarting, 10.0 * (job.restarts + 1));  // otherwise all draws are equal
    EXPECT_LT(restarting, 20.0 * (job.restarts + 1));
    EXPECT_EQ(std::fmod(restarting, 10), 0);
  }
  EXPECT_THAT(expected_, testing::Each(15));
}

TEST_F(MeasuredRestartsTest, FollowTheSeedAndNotTheOtherJobs) {
  const std::string times = R"({"pause_s": [1, 2, 4, 8, 16]})";
  const auto first = Run(times, 1);
  const auto again = Run(times, 1);
  const auto other = Run(times, 2);
  const auto alone = Run(times, 1, {"b,60"});
  ASSERT_TRUE(first.ok() && again.ok() && other.ok() && alone.ok());
  EXPECT_EQ(first->jobs[0].completed, again->jobs[0].completed);
  EXPECT_EQ(first->jobs[1].completed, again->jobs[1].completed);
  EXPECT_EQ(first->jobs[1].completed, alone->jobs[0].completed);
  EXPECT_NE(first->jobs[0].completed, other->jobs[0].completed);
}

TEST_F(MeasuredRestartsTest, AnApplicationWithoutTimesIsNamed) {
  const auto result = Run(R"({"applications": {"bert": [31]}})", 1);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("there are no times of toy"));
}

// Changes that keep a node are cheap, all others and the first start are restarts.
TEST_F(MeasuredRestartsTest, ChangesInPlaceTakeTheirOwnTimes) {
  const auto in_place = RestartTimes::Parse(R"({"pause_s": [2]})", "file.json");
  ASSERT_TRUE(in_place.ok());
  const auto cluster = Cluster::Parse("2x4");
  workload_ = Load({"a,0"}, cluster->gpu_types());
  // Starts after a minute, grows on its node after another, and moves to the other node after a third.
  Script script([](const std::string&, double now) {
    return Placement{{now < 180 ? 0 : 1, now < 120 ? 1 : 2}};
  });
  const auto seconds_left = [&](bool with) {
    SimulationOptions options = {.restart_seconds = 10};
    if (with) options.in_place_times = std::make_shared<RestartTimes>(*in_place);
    const auto result = Simulate(*cluster, workload_, script, RealClock(), options);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->jobs[0].restarts, 2);
    EXPECT_EQ(script.expected_restarts.back(), with ? 2 : 10);
    return result->jobs[0].completed;
  };
  EXPECT_NEAR(seconds_left(false) - seconds_left(true), 10 - 2, 1e-6);
}

// The job trains on at its old speed until they are there; where nobody comes nothing is waited for.
TEST_F(MeasuredRestartsTest, AChangeInPlaceWaitsForItsNewcomers) {
  const auto cluster = Cluster::Parse("1x4");
  workload_ = Load({"a,0"}, cluster->gpu_types());
  const auto completed = [&](int from, int to, double newcomers) {
    Script script([&](const std::string&, double now) { return Placement{{0, now < 120 ? from : to}}; });
    SimulationOptions options = {.restart_seconds = 10};
    options.in_place_times = std::make_shared<RestartTimes>(*RestartTimes::Parse(R"({"pause_s": [2]})", "a"));
    if (newcomers > 0) {
      options.newcomer_times = std::make_shared<RestartTimes>(
          *RestartTimes::Parse(absl::StrCat(R"({"pause_s": [)", newcomers, "]}"), "b"));
    }
    const auto result = Simulate(*cluster, workload_, script, RealClock(), options);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->jobs[0].restarts, 1);
    return result->jobs[0].completed;
  };
  // 20 s at one step a second instead of two.
  EXPECT_NEAR(completed(1, 2, 20) - completed(1, 2, 0), 10, 1);
  EXPECT_EQ(completed(2, 1, 20), completed(2, 1, 0));
}

}  // namespace
}  // namespace adaptdl::simulator
