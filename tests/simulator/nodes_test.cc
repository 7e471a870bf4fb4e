#include "simulator/nodes.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "simulator/engine.h"
#include "simulator/node_flags.h"
#include "simulator/report/cost.h"
#include "simulator/report/summary.h"
#include "simulator/schedulers/factory.h"
#include "tests/simulator/script.h"
#include "tests/simulator/toy.h"

namespace adaptdl::simulator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNever = std::numeric_limits<double>::infinity();

Cluster Parse(const std::string& text) {
  const absl::StatusOr<Cluster> cluster = Cluster::Parse(text);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return *cluster;
}

TEST(Nodes, StayIfNothingIsSaid) {
  const Cluster cluster = Parse("3x4");
  Nodes nodes(cluster, {}, 1);
  EXPECT_EQ(nodes.NextEvent(), kNever);
  for (const NodeStatus& status : nodes.status()) {
    EXPECT_TRUE(status.up && !status.draining && !status.spot);
  }
}

TEST(Nodes, FailAndComeBackAfterTheRepair) {
  const Cluster cluster = Parse("1x4");
  Nodes nodes(cluster, {.mtbf = 1000, .repair = 60}, 1);
  const double failure = nodes.NextEvent();
  ASSERT_LT(failure, kNever);
  EXPECT_EQ(failure, std::floor(failure));
  const auto failed = nodes.Advance(failure);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].change, Nodes::Change::kFailed);
  EXPECT_FALSE(nodes.status()[0].up);
  EXPECT_EQ(nodes.NextEvent(), failure + 60);
  EXPECT_EQ(nodes.Advance(failure + 60)[0].change, Nodes::Change::kArrived);
  EXPECT_TRUE(nodes.status()[0].up);
  const auto spans = nodes.CloseSpans(failure + 100);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].end, failure);
  EXPECT_EQ(spans[1].end - spans[1].start, 40);
}

TEST(Nodes, FailAsOftenAsIsSaidAndIndependentlyOfEachOther) {
  const auto failures = [](const std::string& text) {
    const Cluster cluster = Parse(text);
    Nodes nodes(cluster, {.mtbf = 1000, .repair = 0}, 1);
    std::map<int, std::vector<double>> times;
    while (nodes.NextEvent() < 200'000) {
      const double now = nodes.NextEvent();
      for (const Nodes::Event& event : nodes.Advance(now)) {
        if (event.change == Nodes::Change::kFailed) times[event.node].push_back(now);
      }
    }
    return times;
  };
  auto ten = failures("10x4");
  size_t count = 0;
  for (const auto& [node, times] : ten) count += times.size();
  EXPECT_NEAR(static_cast<double>(count), 2000, 150);
  EXPECT_EQ(ten[0], failures("1x4")[0]);
}

TEST(Nodes, SpotNodesAreTakenAwayAfterANotice) {
  const Cluster cluster = Parse("3x4");
  Nodes nodes(cluster, {.spot_nodes = {1}, .spot_lifetime = 1000, .spot_notice = 30, .spot_return = 300}, 1);
  EXPECT_FALSE(nodes.status()[1].spot);
  EXPECT_TRUE(nodes.status()[2].spot);
  const double notice = nodes.NextEvent();
  const auto noticed = nodes.Advance(notice);
  ASSERT_EQ(noticed.size(), 1u);
  EXPECT_EQ(noticed[0].node, 2);
  EXPECT_EQ(noticed[0].change, Nodes::Change::kNotice);
  EXPECT_TRUE(nodes.status()[2].up && nodes.status()[2].draining);
  EXPECT_EQ(nodes.NextEvent(), notice + 30);
  EXPECT_EQ(nodes.Advance(notice + 30)[0].change, Nodes::Change::kTaken);
  EXPECT_FALSE(nodes.status()[2].up);
  EXPECT_EQ(nodes.NextEvent(), notice + 330);
}

TEST(NodeFlags, ValuesMayBeGivenByType) {
  const Cluster cluster = Parse("aws:4x4,rtx:2x8");
  const auto scaling = ParseAutoscale("aws=1..8", cluster);
  ASSERT_TRUE(scaling.ok()) << scaling.status();
  EXPECT_EQ(scaling->cluster.total_gpus(0), 32);
  EXPECT_EQ(scaling->cluster.total_gpus(1), 16);
  EXPECT_EQ(scaling->pools[0].max, 8);
  EXPECT_EQ(scaling->pools[1].min, 2);
  EXPECT_THAT(*ParseSpotNodes("rtx=1", cluster), ElementsAre(0, 1));
  EXPECT_THAT(*ParseSpotNodes("2", cluster), ElementsAre(2, 2));
  const auto prices = ParsePrices("aws=12.24,rtx=8", "rtx=3", cluster);
  ASSERT_TRUE(prices.ok()) << prices.status();
  EXPECT_THAT(prices->lasting, ElementsAre(12.24, 8));
  EXPECT_THAT(prices->spot, ElementsAre(12.24, 3));
}

TEST(NodeFlags, WhatIsWrongIsNamed) {
  const Cluster cluster = Parse("aws:4x4,rtx:2x8");
  const auto message = [](const auto& result) { return std::string(result.status().message()); };
  EXPECT_THAT(message(ParseAutoscale("aws=5", cluster)),
              HasSubstr("--autoscale: \"5\" is no range of nodes"));
  EXPECT_THAT(message(ParseAutoscale("aws=5..8", cluster)), HasSubstr("does not contain the 4 nodes"));
  EXPECT_THAT(message(ParseAutoscale("dgx=5..8", cluster)), HasSubstr("\"dgx\" is no GPU type of --cluster"));
  EXPECT_THAT(message(ParseAutoscale("1..8,rtx=1..8", cluster)), HasSubstr("names no GPU type"));
  EXPECT_THAT(message(ParseSpotNodes("aws=1,aws=2", cluster)), HasSubstr("named twice"));
  EXPECT_THAT(message(ParseSpotNodes("some", cluster)), HasSubstr("is no number of nodes"));
  EXPECT_THAT(message(ParsePrices("aws=1", "", cluster)), HasSubstr("has no price for rtx"));
  EXPECT_THAT(message(ParsePrices("cheap", "", cluster)), HasSubstr("--price: \"cheap\" is no price"));
}

class DynamicNodesTest : public ToyTest {
 protected:
  absl::StatusOr<SimulationResult> Run(const std::vector<std::string>& jobs, const std::string& nodes,
                                       const std::string& policy, const SimulationOptions& options) {
    const auto scheduler = MakeScheduler(policy, {});
    EXPECT_TRUE(scheduler.ok());
    cluster_ = std::make_unique<Cluster>(Parse(nodes));
    workload_ = Load(jobs, cluster_->gpu_types());
    return Simulate(*cluster_, workload_, **scheduler, RealClock(), options);
  }

  std::unique_ptr<Cluster> cluster_;
  std::vector<WorkloadJob> workload_;
};

// Jobs of one GPU: all their time is restarts, work that counts, and work that was lost.
void ExpectWorkIsConserved(const SimulationResult& result, double restart, double tolerance) {
  for (const JobOutcome& job : result.jobs) {
    EXPECT_NEAR(job.gpu_seconds, 300 + job.lost_seconds + (job.restarts + 1) * restart,
                tolerance * (job.restarts + 1))
        << job.name;
  }
}

TEST_F(DynamicNodesTest, AFailureCostsWhatCameAfterTheLastCheckpoint) {
  for (const double round : {60.0, 0.0}) {
    const auto result = Run({"a,0", "b,30", "c,500"}, "2x1", "tiresias",
                            {.round_seconds = round,
                             .restart_seconds = 0,
                             .nodes = {.mtbf = 150, .repair = 60},
                             .checkpoint_seconds = 20,
                             .seed = 3});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_GT(result->node_failures, 3);
    int failures = 0;
    for (const JobOutcome& job : result->jobs) {
      EXPECT_GE(job.restarts, job.failures);
      EXPECT_LE(job.lost_seconds, 20.0 * job.failures);
      failures += job.failures;
    }
    EXPECT_GT(failures, 2);
    EXPECT_LE(failures, result->node_failures);
    // Epochs end on whole seconds with rounds.
    ExpectWorkIsConserved(*result, 0, round > 0 ? 1.5 : 1e-5);
  }
}

TEST_F(DynamicNodesTest, WithoutCheckpointsInTimeAllIsLost) {
  const SimulationOptions options = {.restart_seconds = 0, .nodes = {.mtbf = 200}, .checkpoint_seconds = 1e6};
  const auto result = Run({"a,0"}, "1x1", "tiresias", options);
  ASSERT_TRUE(result.ok()) << result.status();
  const JobOutcome& job = result->jobs[0];
  ASSERT_GT(job.failures, 0);
  EXPECT_GT(job.lost_seconds, 0);
  ExpectWorkIsConserved(*result, 0, 1e-6);
}

TEST_F(DynamicNodesTest, AnEvictionCostsNoWork) {
  for (const char* policy : {"tiresias", "goodput"}) {
    const auto result =
        Run({"a,0", "b,30"}, "2x1", policy,
            {.round_seconds = 0,
             .restart_seconds = 1,
             .nodes = {.spot_nodes = {2}, .spot_lifetime = 200, .spot_notice = 30, .spot_return = 60}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_GT(result->node_evictions, 0);
    int restarts = 0;
    for (const JobOutcome& job : result->jobs) {
      EXPECT_EQ(job.lost_seconds, 0);
      EXPECT_EQ(job.failures, 0);
      restarts += job.restarts;
    }
    EXPECT_GT(restarts, 0);
  }
}

TEST_F(DynamicNodesTest, ThePolicyClearsANodeBeforeItIsTaken) {
  // One job on the spot node's sister: room enough to leave in time.
  const auto result = Run({"a,0"}, "2x1", "goodput",
                          {.round_seconds = 0,
                           .restart_seconds = 1,
                           .nodes = {.spot_nodes = {2}, .spot_lifetime = 100, .spot_notice = 30}});
  ASSERT_TRUE(result.ok()) << result.status();
  // Never without GPUs between its start and its end, unless both nodes were away.
  double held = 0;
  for (const Segment& segment : result->timeline) held += segment.end - segment.start;
  EXPECT_LE(held, result->jobs[0].completed - result->jobs[0].started + 1e-6);
  EXPECT_GT(result->jobs[0].restarts, 0);
}

TEST_F(DynamicNodesTest, NodesThatAreAlwaysThereChangeNothing) {
  for (const char* policy : {"tiresias", "optimus", "goodput"}) {
    const std::vector<std::string> jobs = {"a,0", "b,30", "c,100", "d,400"};
    const auto plain = Run(jobs, "2x1", policy, {});
    const auto lasting = Run(jobs, "2x1", policy, {.nodes = {.mtbf = 1e15}});
    ASSERT_TRUE(plain.ok() && lasting.ok());
    for (size_t i = 0; i < jobs.size(); ++i) {
      EXPECT_EQ(plain->jobs[i].completed, lasting->jobs[i].completed) << policy;
      EXPECT_EQ(plain->jobs[i].gpu_seconds, lasting->jobs[i].gpu_seconds) << policy;
    }
  }
}

TEST_F(DynamicNodesTest, TheSameSeedGivesTheSameRun) {
  const auto run = [this](uint64_t seed) {
    const auto result = Run({"a,0", "b,30", "c,100"}, "2x1", "goodput",
                            {.nodes = {.mtbf = 300, .repair = 60}, .checkpoint_seconds = 60, .seed = seed});
    EXPECT_TRUE(result.ok()) << result.status();
    std::vector<double> times;
    for (const JobOutcome& job : result->jobs) times.push_back(job.completed);
    return times;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST_F(DynamicNodesTest, EndlessEffortIsFoundOut) {
  const auto result = Run({"a,0"}, "1x1", "tiresias", {.nodes = {.mtbf = 10, .repair = 30}});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("Raise --node-mtbf"));
}

TEST_F(DynamicNodesTest, TheClusterFollowsTheDemandAndIsPaidByTheHour) {
  const SimulationOptions options = {
      .restart_seconds = 1,
      .nodes = {.pools = {{.start = 1, .min = 0, .max = 2}}, .start = 60, .cooldown = 60}};
  const auto result = Run({"a,0", "b,0", "c,0", "d,7200"}, "2x1", "goodput", options);
  ASSERT_TRUE(result.ok()) << result.status();
  const double makespan = result->jobs[3].completed;
  const Prices prices{{10}, {10}};
  const ClusterCost total = MeasureCost(*cluster_, *result, makespan, &prices);
  EXPECT_NEAR(total.cost, total.node_hours * 10, 1e-9);
  EXPECT_EQ(total.gpu_hours, total.node_hours);
  double used = 0;
  int most = 0;
  for (const JobOutcome& job : result->jobs) used += job.gpu_seconds / 3600;
  for (const NodeSpan& span : result->nodes) most = std::max(most, span.node + 1);
  EXPECT_GE(total.gpu_hours, used);
  // Between the jobs there is nothing to pay: less than half of what two nodes would cost.
  EXPECT_LT(total.node_hours, makespan / 3600);
  EXPECT_EQ(most, 2);
}

TEST_F(DynamicNodesTest, JobsLeaveNodesThatAreDrainedAndLoseNothing) {
  for (const double round : {60.0, 0.0}) {
    const SimulationOptions options = {
        .round_seconds = round,
        .restart_seconds = 1,
        .nodes = {.pools = {{.start = 4, .min = 1, .max = 4}},
                  .start = 60,
                  .cooldown = 30,
                  .target = {.mode = nodepools::TargetMode::kCost, .goodput_per_price = 0.9},
                  .lasting_prices = {1},
                  .spot_prices = {1}}};
    // Two GPUs on two nodes are 0.83 times as fast for each as one: not worth their price.
    const auto result = Run({"a,0", "b,0", "c,5", "d,5"}, "4x1", "goodput", options);
    ASSERT_TRUE(result.ok()) << result.status();
    double gpu_seconds = 0;
    double node_seconds = 0;
    for (const JobOutcome& job : result->jobs) {
      EXPECT_EQ(job.lost_seconds, 0);
      gpu_seconds += job.gpu_seconds;
    }
    for (const NodeSpan& span : result->nodes) node_seconds += span.end - span.start;
    EXPECT_LT(node_seconds, gpu_seconds + 4 * (60 + 2 * round + 30));
  }
}

TEST_F(DynamicNodesTest, ABaselineCannotBeFollowed) {
  const auto result =
      Run({"a,0"}, "4x1", "tiresias", {.nodes = {.pools = {{.start = 1, .min = 0, .max = 4}}}});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("--autoscale"));
}

TEST_F(DynamicNodesTest, WhatIsWrongWithNodesIsNamed) {
  EXPECT_THAT(std::string(Run({"a,0"}, "1x1", "goodput", {.nodes = {.mtbf = -1}}).status().message()),
              HasSubstr("--node-mtbf is -1"));
  EXPECT_THAT(std::string(Run({"a,0"}, "1x1", "goodput", {.checkpoint_seconds = 0}).status().message()),
              HasSubstr("--checkpoint-period is 0"));
  EXPECT_THAT(std::string(Run({"a,0"}, "1x1", "goodput", {.nodes = {.spot_nodes = {2}}}).status().message()),
              HasSubstr("--spot-nodes: 2 spot nodes of a type; there are 0 to 1"));
  EXPECT_THAT(std::string(Run({"a,0"}, "1x1", "goodput", {.nodes = {.spot_lifetime = 9}}).status().message()),
              HasSubstr("--spot-lifetime: there are no spot nodes"));
}

TEST(ClusterCost, AFixedClusterCostsItsMakespan) {
  const Cluster cluster = Parse("aws:2x4,rtx:1x8");
  const Prices prices{{10, 20}, {10, 20}};
  const ClusterCost total = MeasureCost(cluster, {}, 7200, &prices);
  EXPECT_EQ(total.node_hours, 6);
  EXPECT_EQ(total.gpu_hours, 32);
  EXPECT_EQ(total.cost, 2 * 2 * 10 + 2 * 20);
}

}  // namespace
}  // namespace adaptdl::simulator
