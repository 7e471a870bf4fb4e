// From a cluster's history to models, and what they say about other clusters.

#include "simulator/history/what_if.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/goodput/fit.h"
#include "simulator/engine.h"
#include "simulator/history/node_changes.h"
#include "simulator/replay.h"
#include "simulator/schedulers/factory.h"

namespace adaptdl::simulator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr goodput::PerfParams kPerf = {.alpha_c = 0.05,
                                       .beta_c = 0.005,
                                       .alpha_n = 0.1,
                                       .beta_n = 0.002,
                                       .alpha_r = 0.02,
                                       .beta_r = 0.001,
                                       .gamma = 1.5};

RecordedJob AnyJob(const std::string& name, double submitted) {
  RecordedJob job;
  job.name = name;
  job.submitted = submitted;
  job.init_batch_size = 128;
  job.max_batch_size = 1024;
  job.min_local = 16;
  job.max_local = 256;
  job.accumulation = true;
  job.perf["T4"] = kPerf;
  job.gradient = goodput::GradParams{.sqr = 1, .var = 3};
  job.steps_total = 4000;
  job.rescale_seconds = 12;
  return job;
}

// Nodes of four T4.
History AnyHistory(int nodes, int jobs) {
  History history;
  for (int i = 0; i < nodes; ++i) {
    history.nodes.push_back({absl::StrCat("n", i), "T4", {{"gpu", 4}, {"cpu", 16'000}}});
  }
  for (int i = 0; i < jobs; ++i) {
    RecordedJob job = AnyJob(absl::StrCat("default/job-", i), 1e9 + 120.0 * i);
    job.steps_total = 1000 + 800 * (i % 5);
    history.jobs.push_back(std::move(job));
  }
  return history;
}

// Lets the jobs run by their models and records what happened.
void LetHappen(History* history) {
  const absl::StatusOr<Cluster> cluster = ToCluster(*history);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const FittedWorkload workload = FitWorkload(*history, cluster->gpu_types(), {});
  const absl::StatusOr<std::unique_ptr<Scheduler>> scheduler = MakeScheduler("goodput", {});
  SimulationOptions options;
  options.round_seconds = 0;
  options.restart_seconds.reset();
  options.search = BatchSearch::kLibrary;
  const RealClock clock;
  const auto result = Simulate(*cluster, workload.jobs, **scheduler, clock, options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->jobs.size(), history->jobs.size());
  const double begin = history->jobs.front().submitted;
  for (size_t i = 0; i < result->jobs.size(); ++i) {
    RecordedJob& job = history->jobs[workload.recorded[i]];
    job.started = begin + result->jobs[i].started;
    job.completed = begin + result->jobs[i].completed;
    job.end = RecordedEnd::kSucceeded;
    job.steps_done = job.steps_total;
    job.replica_seconds = result->jobs[i].gpu_seconds;
    job.restarts = result->jobs[i].restarts;
  }
}

// The model that a job would fit to what it measures at the sizes that it has run with.
goodput::PerfParams Refitted(const goodput::PerfParams& truth) {
  std::vector<goodput::Measurement> profile;
  const std::pair<int, int> sizes[] = {{1, 1}, {1, 2}, {1, 4}, {2, 8}};
  for (const auto& [nodes, replicas] : sizes) {
    for (const int64_t local : {32, 96, 256}) {
      profile.push_back(
          {.nodes = nodes,
           .replicas = replicas,
           .atomic_batch_size = local,
           .accum_time = goodput::AccumTime(truth, static_cast<double>(local)),
           .optim_time = goodput::OptimTime(truth, {nodes, replicas}, static_cast<double>(local))});
    }
  }
  const absl::StatusOr<goodput::PerfParams> fitted = goodput::FitPerfParams(profile);
  EXPECT_TRUE(fitted.ok()) << fitted.status();
  return fitted.value_or(truth);
}

TEST(WhatIf, AHistoryReproducesItself) {
  History history = AnyHistory(3, 20);
  LetHappen(&history);
  // What is left of the truth is what jobs report.
  for (RecordedJob& job : history.jobs) job.perf["T4"] = Refitted(job.perf["T4"]);
  const auto report = WhatIf(history, {});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->recorded.has_value());
  EXPECT_EQ(report->recorded->jobs, 20);
  EXPECT_NEAR(report->before.avg_jct_s / report->recorded->avg_jct_s, 1, 0.03);
  EXPECT_NEAR(report->before.makespan_s / report->recorded->makespan_s, 1, 0.03);
  EXPECT_NEAR(report->before.used_hours / report->recorded->used_hours, 1, 0.05);
  EXPECT_LT(report->median_error, 0.05);
  EXPECT_DOUBLE_EQ(report->modelled_jct_s, report->before.avg_jct_s);
  // Nothing was changed.
  EXPECT_DOUBLE_EQ(report->after.avg_jct_s, report->before.avg_jct_s);
  EXPECT_TRUE(report->left_out.empty());
  EXPECT_TRUE(report->notes.empty());
}

TEST(WhatIf, MoreNodesShortenJobsAndCostMorePerHour) {
  History history = AnyHistory(1, 12);
  LetHappen(&history);
  const auto report = WhatIf(history, {.added = {"3xT4x4"}, .prices = {{"t4", 2}}});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LT(report->after.avg_jct_s, 0.8 * report->before.avg_jct_s);
  EXPECT_LE(report->after.avg_wait_s, report->before.avg_wait_s);
  EXPECT_NEAR(*report->before.cost, 2 * report->before.makespan_s / 3600, 1e-9);
  EXPECT_NEAR(*report->after.cost, 8 * report->after.makespan_s / 3600, 1e-9);
  EXPECT_NEAR(report->after.offered_hours, 16 * report->after.makespan_s / 3600, 1e-9);
  const auto fewer = WhatIf(AnyHistory(2, 12), {.removed = {"n1"}});
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_FALSE(fewer->recorded.has_value());
  EXPECT_GT(fewer->after.avg_jct_s, fewer->before.avg_jct_s);
  EXPECT_FALSE(fewer->after.cost.has_value());
}

TEST(WhatIf, AnotherPolicyMayBeAskedFor) {
  const auto report = WhatIf(AnyHistory(2, 8), {.policy_after = "pollux"});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_NE(report->after.avg_jct_s, report->before.avg_jct_s);
  EXPECT_THAT(std::string(WhatIf(AnyHistory(2, 8), {.policy_after = "best"}).status().message()),
              HasSubstr("there is no policy \"best\""));
}

TEST(WhatIf, FasterGpusAreAsFastAsGivenOrMeasured) {
  const History slow = AnyHistory(1, 4);
  const auto assumed = WhatIf(slow, {.added = {"2xA100x4"}});
  ASSERT_TRUE(assumed.ok()) << assumed.status();
  EXPECT_THAT(assumed->notes, ElementsAre(HasSubstr("no job has measured itself on A100")));
  const auto given = WhatIf(slow, {.added = {"2xA100x4"}, .speeds = {{"A100", 3}}});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_TRUE(given->notes.empty());
  EXPECT_LT(given->after.avg_jct_s, assumed->after.avg_jct_s);
  EXPECT_DOUBLE_EQ(given->before.avg_jct_s, assumed->before.avg_jct_s);

  History measured = AnyHistory(1, 4);
  goodput::PerfParams fast = kPerf;
  fast.alpha_c /= 3;
  fast.beta_c /= 3;
  measured.jobs[0].perf["A100"] = fast;
  const FittedWorkload workload = FitWorkload(measured, {"A100"}, {});
  ASSERT_EQ(workload.jobs.size(), 4u);
  EXPECT_TRUE(workload.notes.empty());
  const auto step = [&](int job) {
    return workload.jobs[job].application->step_times[0].Resolve({1}).At(64)->step;
  };
  EXPECT_NEAR(step(1), step(0), 1e-6);
}

TEST(WhatIf, SaysWhichJobsAreLeftOut) {
  History history = AnyHistory(1, 6);
  history.jobs[0].perf.clear();
  history.jobs[1].end = RecordedEnd::kFailed;
  history.jobs[1].gradient.reset();
  history.jobs[2].steps_total = 0;
  history.jobs[3].demand.min_replicas = 5;
  history.jobs[4].perf["T4"].gamma = 0;
  const auto report = WhatIf(history, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->before.jobs, 1);
  std::vector<std::string> reasons;
  for (const LeftOut& job : report->left_out) reasons.push_back(absl::StrCat(job.job, ": ", job.reason));
  EXPECT_THAT(reasons,
              ElementsAre("default/job-0: it has not measured itself",
                          "default/job-1: it ended before it had measured its gradients",
                          HasSubstr("job-2: it has not ended, and its program does not say how much"),
                          HasSubstr("job-4: gamma is 0"),
                          HasSubstr("job-3: it needs 5 replicas of 1 GPU; the cluster holds 4")));
}

TEST(WhatIf, AHistoryWithoutAJobToReplayIsRefused) {
  History history = AnyHistory(1, 5);
  for (RecordedJob& job : history.jobs) job.perf.clear();
  const auto report = WhatIf(history, {});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("it has not measured itself"));
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("and 2 more"));
  EXPECT_EQ(WhatIf(AnyHistory(1, 0), {}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(WhatIf(AnyHistory(0, 1), {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(WhatIf, WrongOptionsAreNamed) {
  const History history = AnyHistory(2, 1);
  const auto message = [&](const WhatIfOptions& options) {
    const auto report = WhatIf(history, options);
    EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(report.status().message());
  };
  for (const char* bad : {"", "4", "4xA100", "xA100x8", "0xA100x8", "4xA100x0", "4xA100x", "-1xA100x8"}) {
    EXPECT_THAT(message({.added = {bad}}), HasSubstr(absl::StrCat("\"", bad, "\" is no group of nodes")));
  }
  EXPECT_THAT(message({.removed = {"3xT4x4"}}),
              HasSubstr("there are 2 nodes with 4 T4; 3xT4x4 asks for more"));
  EXPECT_THAT(message({.removed = {"n7"}}), HasSubstr("or a node's id"));
  EXPECT_THAT(message({.removed = {"2xT4x4"}}), HasSubstr("has no nodes"));
  EXPECT_THAT(message({.prices = {{"H100", 3}}}), HasSubstr("price of H100: no node has such GPUs"));
  EXPECT_THAT(message({.prices = {{"T4", 0}}}), HasSubstr("price of T4 is 0"));
  EXPECT_THAT(message({.added = {"1xA100x8"}, .prices = {{"T4", 1}}}), HasSubstr("give one for A100, too"));
}

TEST(WhatIf, CoresAreCountedWhereThereAreNoGpus) {
  History history = AnyHistory(0, 4);
  history.nodes = {{"local-0", "cpu", {{"cpu", 1000}}}, {"local-1", "cpu", {{"cpu", 1000}}}};
  for (RecordedJob& job : history.jobs) {
    job.perf = {{"cpu", kPerf}};
    job.demand.request = {{"cpu", 500}};
  }
  LetHappen(&history);
  const auto report = WhatIf(history, {.added = {"1xcpux2"}});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->gpus);
  EXPECT_NEAR(report->before.offered_hours, 2 * report->before.makespan_s / 3600, 1e-9);
  EXPECT_NEAR(report->after.offered_hours, 4 * report->after.makespan_s / 3600, 1e-9);
  EXPECT_LE(report->before.used_hours, report->before.offered_hours);
  EXPECT_LT(report->after.avg_jct_s, report->before.avg_jct_s);
}

TEST(NodeChanges, TypesMayBeWrittenShort) {
  std::vector<RecordedNode> nodes = {{"a", "NVIDIA A100-SXM4-40GB", {{"gpu", 8}, {"cpu", 96'000}}},
                                     {"b", "Quadro RTX 6000", {{"gpu", 4}}},
                                     {"c", "Quadro RTX 8000", {{"gpu", 4}}}};
  EXPECT_EQ(*FindGpuType(nodes, "a100"), "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(*FindGpuType(nodes, "H100"), "H100");
  EXPECT_EQ(FindGpuType(nodes, "rtx").status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(AddNodes("2xa100x8", &nodes).ok());
  EXPECT_EQ(nodes[4].gpu_type, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(nodes[4].capacity, nodes[0].capacity);
  ASSERT_TRUE(AddNodes("1xa100x4", &nodes).ok());
  EXPECT_EQ(nodes[5].capacity.at("gpu"), 4);
  ASSERT_TRUE(AddNodes("1xRTX 6000x4", &nodes).ok());
  EXPECT_EQ(nodes[6].gpu_type, "Quadro RTX 6000");
  ASSERT_TRUE(RemoveNodes("3xa100x8", &nodes).ok());
  EXPECT_EQ(nodes.size(), 4u);
  EXPECT_EQ(nodes[0].id, "b");
}

TEST(History, IsReadBackAsItWasWritten) {
  History history = AnyHistory(2, 3);
  LetHappen(&history);
  history.jobs[1].demand.allowed_replicas = {1, 2, 4};
  history.jobs[1].demand.max_replicas = 4;
  history.jobs[1].demand.preemptible = false;
  history.jobs[2].completed.reset();
  history.jobs[2].gradient.reset();
  history.jobs[2].rescale_seconds.reset();
  history.jobs[2].end = RecordedEnd::kNotYet;
  const std::string text = ToJson(history);
  const absl::StatusOr<History> read = ParseHistory(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToJson(*read), text);
  EXPECT_EQ(read->jobs[1].demand.allowed_replicas, history.jobs[1].demand.allowed_replicas);
  EXPECT_FALSE(read->jobs[2].gradient.has_value());
}

TEST(History, CanBeReplayedByTheSimulator) {
  History history = AnyHistory(2, 3);
  history.jobs[1].perf.clear();
  const std::string file = absl::StrCat(testing::TempDir(), "/history.", ::getpid(), ".json");
  ASSERT_TRUE(WriteFileAtomically(file, ToJson(history)).ok());
  ReplayOptions options;
  options.history = file;
  options.policy = "goodput";
  const auto table = Replay(options);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(*table, HasSubstr("left out: default/job-1: it has not measured itself"));
  options.format = OutputFormat::kCsv;
  EXPECT_THAT(*Replay(options), HasSubstr("default/job-2"));
  options.policy = "tiresias";
  EXPECT_THAT(std::string(Replay(options).status().message()), HasSubstr("tiresias knows no elastic jobs"));
  options.policy = "goodput";
  history.jobs.resize(2);
  history.jobs[0].perf.clear();
  ASSERT_TRUE(WriteFileAtomically(file, ToJson(history)).ok());
  EXPECT_EQ(Replay(options).status().code(), absl::StatusCode::kFailedPrecondition);
  std::filesystem::remove(file);
}

TEST(History, WhatIsNoneIsRefused) {
  const auto message = [](const std::string& text) {
    const auto history = ParseHistory(text);
    EXPECT_EQ(history.status().code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(history.status().message());
  };
  EXPECT_THAT(message("jobs"), HasSubstr("history: "));
  EXPECT_THAT(message("{}"), HasSubstr("format"));
  EXPECT_THAT(message("{\"format\": 2}"), HasSubstr("the format is 2"));
  EXPECT_THAT(message("{\"format\": 1, \"nodes\": []}"), HasSubstr("jobs"));
  History twice = AnyHistory(1, 1);
  twice.jobs.push_back(twice.jobs[0]);
  EXPECT_THAT(message(ToJson(twice)), HasSubstr("two jobs are called default/job-0"));
}

}  // namespace
}  // namespace adaptdl::simulator
