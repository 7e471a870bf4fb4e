// A small fleet from end to end, and the command.

#include "simulator/fleet/fleet.h"

#include <array>
#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "simulator/fleet/report.h"

namespace adaptdl::simulator {
namespace {

using testing::HasSubstr;

FleetOptions Small() {
  FleetOptions options;
  options.clusters = 4;
  options.kinds = {"a100:4x4", "v100:6x4"};
  options.jobs_per_hour = 8;
  options.duration = 4 * 3600;
  options.simulation.restart_seconds.reset();
  options.simulation.search = BatchSearch::kLibrary;
  return options;
}

// Without what depends on the machine.
nlohmann::json Figures(const FleetResult& result) {
  nlohmann::json json = nlohmann::json::parse(ToJson(result));
  for (const char* part : {"routed", "full"}) {
    for (const char* timed : {"cpu_s", "jobs_per_cpu_s", "decision_ms"}) json[part].erase(timed);
  }
  return json;
}

TEST(Fleet, EveryJobIsRoutedOnceAndEnds) {
  const absl::StatusOr<FleetResult> result = SimulateFleet(Small());
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->full.size(), 4);
  EXPECT_EQ(result->gpus, 2 * 16 + 2 * 24);
  size_t ended = 0;
  int64_t routed = 0;
  for (const FullCluster& cluster : result->full) {
    ended += cluster.jcts.size();
    routed += result->routed[cluster.cluster].jobs;
    EXPECT_EQ(static_cast<int64_t>(cluster.jcts.size()), result->routed[cluster.cluster].jobs);
    EXPECT_LE(cluster.utilisation, 1);
  }
  EXPECT_GT(result->jobs, 10);
  EXPECT_EQ(static_cast<int64_t>(ended), result->jobs);
  EXPECT_EQ(routed, result->jobs);
}

TEST(Fleet, ThreadsAndTheSampleChangeNothing) {
  FleetOptions options = Small();
  const absl::StatusOr<FleetResult> alone = SimulateFleet(options);
  options.threads = 3;
  const absl::StatusOr<FleetResult> parallel = SimulateFleet(options);
  options.simulated = 2;
  const absl::StatusOr<FleetResult> sample = SimulateFleet(options);
  ASSERT_TRUE(alone.ok() && parallel.ok() && sample.ok());
  EXPECT_EQ(Figures(*alone), Figures(*parallel));
  EXPECT_EQ(Figures(*alone)["routed"], Figures(*sample)["routed"]);
  ASSERT_EQ(sample->full.size(), 2);
  for (const FullCluster& cluster : sample->full) EXPECT_EQ(cluster.jcts, alone->full[cluster.cluster].jcts);
}

TEST(Fleet, FailuresCostWork) {
  FleetOptions options = Small();
  options.simulation.nodes.mtbf = 20 * 3600;
  const absl::StatusOr<FleetResult> result = SimulateFleet(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(Figures(*result)["full"]["node_failures"], 0);
}

TEST(Fleet, WrongOptionsAreNamed) {
  const auto error = [](auto change) {
    FleetOptions options = Small();
    change(&options);
    return std::string(SimulateFleet(options).status().message());
  };
  EXPECT_THAT(error([](FleetOptions* o) { o->clusters = 0; }), HasSubstr("--clusters is 0"));
  EXPECT_THAT(error([](FleetOptions* o) { o->simulated = 5; }), HasSubstr("--simulate is 5; there are 4"));
  EXPECT_THAT(error([](FleetOptions* o) { o->jobs_per_hour = 1e12; }), HasSubstr("--jobs-per-hour"));
  EXPECT_THAT(error([](FleetOptions* o) { o->kinds = {"many"}; }),
              HasSubstr("\"many\" is no group of nodes"));
  EXPECT_THAT(error([](FleetOptions* o) { o->front.replicas = 0; }), HasSubstr("--fronts"));
  EXPECT_THAT(error([](FleetOptions* o) { o->policy = "magic"; }), HasSubstr("no policy \"magic\""));
}

std::string Output(const std::string& arguments) {
  const std::string command =
      std::string(ADAPTDL_BINARY_DIR) + "/bin/adaptdl-sim fleet " + arguments + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 4096> buffer;
  for (size_t read = 0; (read = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), read);
  }
  ::pclose(pipe);
  return output;
}

TEST(FleetCommand, OptionsReachTheSimulation) {
  FleetOptions options = Small();
  options.front.router = Router::kShard;
  options.front.report_seconds = 120;
  options.seed = 7;
  options.duration = 24 * 3600;
  const absl::StatusOr<FleetResult> result = SimulateFleet(options);
  ASSERT_TRUE(result.ok()) << result.status();
  const std::string flags =
      "--clusters 4 --cluster a100:4x4 --cluster v100:6x4 --jobs-per-hour 8 --duration 1d --router shard "
      "--report-period 2m --seed 7 ";
  nlohmann::json json = nlohmann::json::parse(Output(flags + "-o json"));
  EXPECT_EQ(json["full"]["avg_jct_s"], Figures(*result)["full"]["avg_jct_s"]);
  EXPECT_EQ(json["by_cluster"], Figures(*result)["by_cluster"]);
  EXPECT_THAT(Output(flags + "--simulate 1"), HasSubstr("1 clusters simulated in full"));
}

TEST(FleetCommand, WrongUseIsExplained) {
  EXPECT_THAT(Output("--duration soon"), HasSubstr("\"soon\" is no duration"));
  EXPECT_THAT(Output("--router best"), HasSubstr("--router"));
  EXPECT_THAT(Output("--clusters 0"), HasSubstr("--clusters is 0"));
}

}  // namespace
}  // namespace adaptdl::simulator
