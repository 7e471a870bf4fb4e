#include "simulator/policies/pollux/pollux_policy.h"

#include <map>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::simulator::pollux {

void PrintTo(Variant variant, std::ostream* out) { *out << (variant == Variant::kOsdi ? "osdi" : "master"); }

namespace {

using scheduling::After;
using scheduling::ClusterView;
using scheduling::Decision;
using scheduling::Job;
using scheduling::JobDecision;
using scheduling::JobInfo;
using scheduling::kGpu;
using scheduling::NodeInfo;
using scheduling::Scaling;

using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

PolluxOptions Options(Variant variant, bool warm = true) {
  return {.search = {.variant = variant}, .warm_start = warm};
}

NodeInfo GpuNode(const std::string& id, int gpus, const std::string& type = "a") {
  NodeInfo node;
  node.id = id;
  node.capacity = {{kGpu, gpus}};
  node.gpu_type = type;
  return node;
}

JobInfo GpuJob(const std::string& key, int most = 64,
               std::shared_ptr<const goodput::SpeedupTable> speedup = Scaling(0.3)) {
  JobInfo job = Job(key, most, std::move(speedup));
  job.request = {{kGpu, 1}};
  return job;
}

ClusterView GpuView(int jobs, int nodes, int gpus) {
  ClusterView view;
  view.now = absl::UnixEpoch() + absl::Hours(1);
  for (int n = 0; n < nodes; ++n) view.nodes.push_back(GpuNode(absl::StrFormat("n%02d", n), gpus));
  for (int j = 0; j < jobs; ++j) {
    view.jobs.push_back(GpuJob(absl::StrFormat("j%02d", j), 8));
    view.jobs.back().created = absl::UnixEpoch() + absl::Seconds(j);
  }
  return view;
}

int CountRunning(const Decision& decision) {
  int running = 0;
  for (const JobDecision& job : decision.jobs) running += !job.allocation.empty();
  return running;
}

void ExpectKeepsTheRules(const ClusterView& view, const Decision& decision) {
  std::map<std::string, int64_t> used;
  std::map<std::string, int> distributed;
  ASSERT_EQ(decision.jobs.size(), view.jobs.size());
  for (size_t j = 0; j < view.jobs.size(); ++j) {
    const JobInfo& job = view.jobs[j];
    const std::vector<std::string>& nodes = decision.jobs[j].allocation;
    EXPECT_FALSE(decision.jobs[j].reason.empty());
    if (nodes.empty()) continue;
    EXPECT_GE(static_cast<int>(nodes.size()), job.min_replicas);
    EXPECT_LE(static_cast<int>(nodes.size()), job.max_replicas);
    for (const std::string& node : nodes) used[node] += job.request.at(kGpu);
    const std::set<std::string> distinct(nodes.begin(), nodes.end());
    for (const std::string& node : distinct) distributed[node] += distinct.size() > 1;
  }
  for (const NodeInfo& node : view.nodes) {
    EXPECT_LE(used[node.id], node.capacity.at(kGpu)) << node.id;
    EXPECT_LE(distributed[node.id], 1) << node.id;
  }
}

class BothVariants : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Pollux, BothVariants, testing::Values(Variant::kOsdi, Variant::kMaster),
                         [](const auto& info) { return info.param == Variant::kOsdi ? "osdi" : "master"; });

TEST_P(BothVariants, KeepTheRulesRoundAfterRound) {
  const PolluxPolicy policy(Options(GetParam()));
  ClusterView view = GpuView(10, 4, 4);
  view.jobs[3].min_replicas = 3;
  view.jobs[5].request = {{kGpu, 2}};
  for (uint64_t round = 0; round < 4; ++round) {
    const Decision decision = policy.Decide(view, round);
    ExpectKeepsTheRules(view, decision);
    view = After(std::move(view), decision);
    // Some go, some come.
    view.jobs.erase(view.jobs.begin());
    view.jobs.push_back(GpuJob(absl::StrCat("new", round), 4));
    view.jobs.back().created = view.now;
    view.now += absl::Minutes(1);
  }
}

TEST_P(BothVariants, TheSameSequenceGivesTheSameDecisions) {
  const PolluxPolicy one(Options(GetParam()));
  const PolluxPolicy other(Options(GetParam()));
  ClusterView view = GpuView(6, 3, 4);
  for (uint64_t round = 0; round < 3; ++round) {
    const Decision a = one.Decide(view, round);
    const Decision b = other.Decide(view, round);
    for (size_t j = 0; j < a.jobs.size(); ++j) EXPECT_EQ(a.jobs[j].allocation, b.jobs[j].allocation);
    EXPECT_EQ(a.value, b.value);
    view = After(std::move(view), a);
  }
}

TEST_P(BothVariants, WithoutWarmStartADecisionDependsOnItsViewAlone) {
  const PolluxPolicy policy(Options(GetParam(), /*warm=*/false));
  const ClusterView view = GpuView(6, 3, 4);
  const Decision first = policy.Decide(view, 5);
  policy.Decide(GpuView(3, 2, 2), 6);
  const Decision again = policy.Decide(view, 5);
  for (size_t j = 0; j < first.jobs.size(); ++j) {
    EXPECT_EQ(first.jobs[j].allocation, again.jobs[j].allocation);
  }
}

TEST_P(BothVariants, MayBeAskedByManyAtOnce) {
  const PolluxPolicy policy(Options(GetParam()));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&policy, i] {
      const ClusterView view = GpuView(2 + i, 2, 2);
      for (uint64_t round = 0; round < 3; ++round) ExpectKeepsTheRules(view, policy.Decide(view, round));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(BothVariants, Defect42JobsThatAskForNothingAndSeveralGpuTypesAreSaidToBe) {
  const PolluxPolicy policy(Options(GetParam()));
  ClusterView view = GpuView(2, 2, 2);
  view.jobs[0].request.clear();
  const Decision decision = policy.Decide(view, 1);
  EXPECT_TRUE(decision.jobs[0].unschedulable);
  EXPECT_THAT(decision.jobs[0].reason, HasSubstr("asks for no resources"));
  EXPECT_THAT(decision.jobs[1].allocation, testing::Not(IsEmpty()));

  view = GpuView(2, 2, 2);
  view.nodes[1].gpu_type = "b";
  view.jobs[1].allocation = {"n01"};
  const Decision refused = policy.Decide(view, 1);
  EXPECT_THAT(refused.jobs[0].allocation, IsEmpty());
  EXPECT_THAT(refused.jobs[1].allocation, ElementsAre("n01"));
  EXPECT_THAT(refused.jobs[0].reason, HasSubstr("knows one GPU type only, the cluster has a, b"));
}

TEST_P(BothVariants, LeaveJobsThatCantBeMovedAndDrainingNodesAlone) {
  const PolluxPolicy policy(Options(GetParam()));
  ClusterView view = GpuView(3, 3, 4);
  view.nodes[0].draining = true;
  view.jobs[0].preemptible = false;
  view.jobs[0].allocation = {"n00", "n00"};
  view.jobs[1].allocation = {"n00"};
  const Decision decision = policy.Decide(view, 1);
  EXPECT_THAT(decision.jobs[0].allocation, ElementsAre("n00", "n00"));
  EXPECT_THAT(decision.jobs[1].allocation, Each(AnyOf("n01", "n02")));
  ExpectKeepsTheRules(view, decision);
}

TEST_P(BothVariants, SayWhatCanNeverRun) {
  const PolluxPolicy policy(Options(GetParam()));
  ClusterView view = GpuView(2, 2, 2);
  view.jobs[0].request = {{kGpu, 8}};
  const Decision decision = policy.Decide(view, 1);
  EXPECT_TRUE(decision.jobs[0].unschedulable);
  EXPECT_THAT(decision.jobs[0].reason, HasSubstr("8 GPUs"));
  EXPECT_FALSE(decision.jobs[1].unschedulable);
}

TEST_P(BothVariants, NoJobsAndNoNodesAreFine) {
  const PolluxPolicy policy(Options(GetParam()));
  EXPECT_THAT(policy.Decide(GpuView(0, 2, 2), 1).jobs, IsEmpty());
  EXPECT_THAT(policy.Decide(GpuView(2, 0, 2), 1).jobs, SizeIs(2));
  EXPECT_THAT(policy.Decide(ClusterView(), 1).jobs, IsEmpty());
}

TEST(Master, Defect37RunsEverybodyFromAnEmptyStart) {
  for (const auto& [jobs, nodes] : std::vector<std::pair<int, int>>{{16, 4}, {24, 16}, {32, 16}}) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const PolluxPolicy policy(Options(Variant::kMaster));
      const ClusterView view = GpuView(jobs, nodes, 4);
      const Decision decision = policy.Decide(view, seed);
      ExpectKeepsTheRules(view, decision);
      EXPECT_GE(CountRunning(decision), jobs * 3 / 4) << jobs << " x " << nodes << ", seed " << seed;
    }
  }
}

TEST(Master, Defect38ThePresentAllocationIsAlwaysAmongTheFirst) {
  PolluxOptions options = Options(Variant::kMaster);
  options.search.generations = 1;
  const PolluxPolicy policy(options);
  ClusterView view = GpuView(2, 2, 4);
  policy.Decide(view, 1);
  // Somebody else gave both jobs as much as there is.
  view.jobs[0].allocation = {"n00", "n00", "n00", "n00"};
  view.jobs[1].allocation = {"n01", "n01", "n01", "n01"};
  const Decision decision = policy.Decide(view, 2);
  EXPECT_EQ(decision.jobs[0].allocation, view.jobs[0].allocation);
  EXPECT_EQ(decision.jobs[1].allocation, view.jobs[1].allocation);
}

TEST(Selection, Defect40WhatDoesNotFitIsNeverTaken) {
  // All that fits is worth nothing; what is worth something does not fit.
  const std::vector<Candidate> candidates = {{{-5, 9}, 0.5}, {{0, 0}, 0}};
  EXPECT_EQ(BestWithin(candidates, 4), 1);
  EXPECT_EQ(BestWithin({candidates[0]}, 4), std::nullopt);
}

TEST(Osdi, DoesNotMoveAYoungJobThatWasRestartedOften) {
  const PolluxPolicy policy(Options(Variant::kOsdi));
  ClusterView view = GpuView(1, 2, 4);
  view.jobs[0].created = view.now - absl::Seconds(60);
  view.jobs[0].restarts = 2;
  view.jobs[0].allocation = {"n00", "n00"};
  EXPECT_THAT(policy.Decide(view, 1).jobs[0].allocation, ElementsAre("n00", "n00"));
  view.now += absl::Hours(10);
  EXPECT_THAT(policy.Decide(view, 2).jobs[0].allocation.size(), testing::Gt(2u));
}

}  // namespace
}  // namespace adaptdl::simulator::pollux
