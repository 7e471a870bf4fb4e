#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "simulator/replay.h"
#include "simulator/report/fairness.h"
#include "simulator/report/summary.h"
#include "tests/simulator/toy.h"

namespace adaptdl::simulator {
namespace {

using testing::HasSubstr;

JobOutcome Outcome(const std::string& name, double submitted, double completed) {
  return {.name = name,
          .application = "toy",
          .submitted = submitted,
          .started = submitted + 10,
          .completed = completed,
          .gpu_seconds = 3600,
          .restarts = 2};
}

TEST(Percentile, IsLinearBetweenValues) {
  EXPECT_EQ(Percentile({}, 50), 0);
  EXPECT_EQ(Percentile({3}, 99), 3);
  EXPECT_EQ(Percentile({4, 1, 3, 2}, 50), 2.5);
  EXPECT_NEAR(Percentile({0, 100}, 99), 99, 1e-9);
  EXPECT_EQ(Percentile({5, 6, 7}, 100), 7);
}

TEST(Contention, IsTheMeanNumberOfJobsOverAJobsLife) {
  // b shares half of its life with a; a shares a third of its own with b.
  const std::vector<double> contention = MeanContention({Outcome("a", 0, 300), Outcome("b", 200, 400)});
  EXPECT_NEAR(contention[0], 1 + 100.0 / 300, 1e-12);
  EXPECT_NEAR(contention[1], 1.5, 1e-12);
}

TEST(Summary, AddsUp) {
  const auto cluster = Cluster::Parse("1x4");
  ASSERT_TRUE(cluster.ok());
  const SimulationResult result{{Outcome("a", 100, 400), Outcome("b", 200, 600)}, {}, {0.001, 0.003}};
  const Summary summary = Summarise("magic", *cluster, result, {0.5, 1.5}, 2);
  EXPECT_EQ(summary.avg_jct_s, 350);
  EXPECT_EQ(summary.p50_jct_s, 350);
  EXPECT_NEAR(summary.p99_jct_s, 399, 1e-9);
  EXPECT_EQ(summary.makespan_s, 500);
  EXPECT_EQ(summary.avg_wait_s, 10);
  EXPECT_EQ(summary.gpu_hours, 2);
  EXPECT_EQ(summary.utilisation, 7200.0 / (500 * 4));
  EXPECT_EQ(summary.restarts_per_job, 2);
  EXPECT_EQ(summary.worst_finish_time_fairness, 1.5);
  EXPECT_EQ(summary.unfair_fraction, 0.5);

  const nlohmann::json json = nlohmann::json::parse(ToJson(summary));
  EXPECT_EQ(json["avg_jct_s"], 350);
  EXPECT_NEAR(json["decision_ms"]["p50"].get<double>(), 2, 1e-9);
  EXPECT_NEAR(json["decision_ms"]["max"].get<double>(), 3, 1e-9);
  EXPECT_EQ(json["cpu_s"], 2);
  EXPECT_EQ(json["jcts"]["b"], 400);
  EXPECT_THAT(ToCsv(summary), HasSubstr("\na,toy,100.000,110.000,400.000,300.000,1.0000,2,0.5000\n"));
  EXPECT_THAT(ToTable(summary), HasSubstr("worst finish-time fairness 1.50, 50.0 % of the jobs above 1"));
}

class ReportTest : public ToyTest {
 protected:
  ReplayOptions Options(const std::string& policy) const {
    ReplayOptions options;
    options.workload = (folder_ / "workload.csv").string();
    options.traces = {folder_.string()};
    options.cluster = "1x4";
    options.policy = policy;
    options.format = OutputFormat::kJson;
    return options;
  }
};

TEST_F(ReportTest, AJobThatHadTheClusterForItselfWasTreatedFairly) {
  const auto cluster = Cluster::Parse("1x1");
  ASSERT_TRUE(cluster.ok());
  const std::vector<WorkloadJob> workload = Load({"a,0", "b,10000"});
  const SimulationResult result{{Outcome("a", 0, 330), Outcome("b", 10'000, 10'660)}, {}, {}};
  const std::vector<double> fairness = FinishTimeFairness(*cluster, workload, false, {}, result);
  EXPECT_NEAR(fairness[0], 1, 1e-9);  // alone: 30 s of restart, 300 s of work
  EXPECT_NEAR(fairness[1], 2, 1e-9);
}

TEST_F(ReportTest, ShareBelowOneGpuMeansPartOfItsSpeed) {
  const auto cluster = Cluster::Parse("1x1");
  ASSERT_TRUE(cluster.ok());
  const std::vector<WorkloadJob> workload = Load({"a,0", "b,0"});
  const SimulationResult result{{Outcome("a", 0, 660), Outcome("b", 0, 660)}, {}, {}};
  EXPECT_NEAR(FinishTimeFairness(*cluster, workload, false, {}, result)[0], 1, 1e-9);
}

TEST_F(ReportTest, AReplayGivesJsonAndATimeline) {
  Load({"a,0", "b,30"});
  ReplayOptions options = Options("tiresias");
  options.timeline = true;
  const auto output = Replay(options);
  ASSERT_TRUE(output.ok()) << output.status();
  const nlohmann::json json = nlohmann::json::parse(*output);
  // Both start at the first round after their submission: a with it, b half a minute later.
  EXPECT_EQ(json["jcts"]["a"], 60 + 330);
  EXPECT_EQ(json["jcts"]["b"], 30 + 330);
  for (const char* key : {"avg_jct_s", "p50_jct_s", "p99_jct_s", "makespan_s", "gpu_hours",
                          "restarts_per_job", "worst_finish_time_fairness", "decision_ms", "cpu_s"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["timeline"]["gpus"], 4);
  const nlohmann::json& a = json["timeline"]["jobs"][0];
  EXPECT_EQ(a["name"], "a");
  EXPECT_EQ(a["completed_s"], 60 + 330);
  ASSERT_EQ(a["segments"].size(), 1u);
  EXPECT_EQ(a["segments"][0],
            (nlohmann::json{{"start_s", 60}, {"end_s", 390}, {"gpus", 1}, {"gpu_type", "aws"}}));
  options.timeline = false;
  EXPECT_FALSE(nlohmann::json::parse(*Replay(options)).contains("timeline"));
}

TEST_F(ReportTest, WhatIsWrongIsNamed) {
  Load({"a,0"});
  ReplayOptions options = Options("tiresias");
  options.cluster = "many";
  EXPECT_THAT(std::string(Replay(options).status().message()), HasSubstr("\"many\" is no group of nodes"));
  options = Options("tiresias");
  options.traces.clear();
  EXPECT_THAT(std::string(Replay(options).status().message()), HasSubstr("traces: none given"));
  options = Options("tiresias");
  Write("workload.csv", "name,time,application,num_replicas,batch_size\na,0,toy,1,1000\n");
  EXPECT_THAT(std::string(Replay(options).status().message()), HasSubstr("a: batch_size is 1000"));
  Write("workload.csv", "name,time,application,num_replicas,batch_size\na,soon,toy,1,100\n");
  EXPECT_THAT(std::string(Replay(options).status().message()), HasSubstr("line 2: time is \"soon\""));
  Write("workload.csv", "name,time,application,batch_size\na,0,toy,100\n");
  EXPECT_THAT(std::string(Replay(options).status().message()), HasSubstr("no column \"num_replicas\""));
  Write("workload.csv", "name,time,application,num_replicas,batch_size\na,0,toy,1,100\na,1,toy,1,100\n");
  EXPECT_THAT(std::string(Replay(options).status().message()), HasSubstr("two jobs are called a"));
  Write("workload.csv", "name,time,application,num_replicas,batch_size\na,0,game,1,100\n");
  EXPECT_THAT(std::string(Replay(options).status().message()), HasSubstr("no folder traces/game"));
}

}  // namespace
}  // namespace adaptdl::simulator
