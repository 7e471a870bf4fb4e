// Who starts, who waits and who keeps his place under the default policy, where jobs have not measured
// themselves.

#include "libs/scheduling/goodput/queue.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Decision Decide(const ClusterView& view) { return GoodputPolicy({}).Decide(view, 1); }

std::vector<NodeInfo> Slots(int count) {
  std::vector<NodeInfo> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(Node(absl::StrCat("node-", i)));
  return nodes;
}

// Nothing is known of it: it may be a plain program.
JobInfo Unknown(const std::string& key, int replicas = 1) {
  JobInfo job = Job(key, replicas);
  job.min_replicas = replicas;
  job.elastic = false;
  return job;
}

JobInfo Plain(const std::string& key, const Nodes& nodes, double seconds) {
  JobInfo job = Unknown(key, static_cast<int>(nodes.size()));
  job.allocation = nodes;
  job.run_seconds = job.unsaved_seconds = seconds;
  return job;
}

JobInfo Elastic(const std::string& key, const Nodes& nodes, double done = 3600) {
  JobInfo job = Job(key, 1);
  job.allocation = nodes;
  job.run_seconds = job.done_seconds.emplace(done);
  return job;
}

Nodes RunningJobs(const ClusterView& view, const Decision& decision) {
  Nodes running;
  for (size_t i = 0; i < view.jobs.size(); ++i) {
    if (!decision.jobs[i].allocation.empty()) running.push_back(view.jobs[i].key);
  }
  return running;
}

Nodes RunningJobs(const ClusterView& view) { return RunningJobs(view, Decide(view)); }

TEST(Queue, PlainJobsRunToTheirEndInTheOrderOfSubmission) {
  ClusterView view =
      View(Slots(1), {Plain("first", {"node-0"}, 8), Unknown("second"), Unknown("third"), Unknown("fourth")});
  EXPECT_THAT(RunningJobs(view), ElementsAre("first"));
  view.jobs[0] = Plain("first", {"node-0"}, 1e6);
  EXPECT_THAT(RunningJobs(view), ElementsAre("first"));
  view.jobs.erase(view.jobs.begin());
  EXPECT_THAT(RunningJobs(view), ElementsAre("second"));
}

TEST(Queue, WhatNeedsNoCoreTakesNoneFromOthers) {
  std::vector<NodeInfo> nodes = {Node("node-0")};
  nodes[0].capacity = {{kCpu, 2000}, {kMemory, 24'000}};
  JobInfo tuner = Plain("tuner", {"node-0"}, 8);
  tuner.request = {{kMemory, 512}};
  JobInfo one = Unknown("one");
  JobInfo two = Unknown("two");
  one.request = two.request = {{kCpu, 1000}};
  EXPECT_THAT(RunningJobs(View(nodes, {tuner, one, two})), ElementsAre("tuner", "one", "two"));
  nodes = Slots(2);
  EXPECT_THAT(RunningJobs(View(nodes, {tuner, one, two})), ElementsAre("tuner", "one", "two"));
}

TEST(Queue, NewcomersStartInTheOrderOfSubmission) {
  const ClusterView view =
      View(Slots(3), {Unknown("a"), Unknown("b"), Unknown("c"), Unknown("d"), Unknown("e")});
  EXPECT_THAT(RunningJobs(view), ElementsAre("a", "b", "c"));
}

TEST(Queue, AJobThatUsesTheLibraryKeepsItsPlaceWhileItMeasuresItself) {
  ClusterView view = View(Slots(2), {Unknown("a"), Unknown("b"), Unknown("c"), Unknown("d")});
  for (int i = 0; i < 2; ++i) {
    view.jobs[i].elastic = true;
    view.jobs[i].allocation = {absl::StrCat("node-", i)};
    view.jobs[i].run_seconds = 299;
  }
  EXPECT_THAT(RunningJobs(view), ElementsAre("a", "b"));
  // They had their time. One of the two places is tried by the next.
  for (int i = 0; i < 2; ++i) view.jobs[i].run_seconds = 301;
  const Decision decision = Decide(view);
  const Nodes running = RunningJobs(view, decision);
  EXPECT_THAT(running, SizeIs(2));
  EXPECT_THAT(running, Contains("c"));
  // Who was stopped for it gets more time next: slow starters come to an end of their measuring.
  for (int i = 0; i < 2; ++i) view.jobs[i].restarts = 1;
  EXPECT_THAT(RunningJobs(view), ElementsAre("a", "b"));
  for (int i = 0; i < 2; ++i) view.jobs[i].run_seconds = 901;
  EXPECT_THAT(RunningJobs(view), Contains("c"));
}

TEST(Queue, AHigherPriorityTakesThePlaceOfWhoLosesLeast) {
  ClusterView view =
      View(Slots(2), {Plain("a", {"node-0"}, 100), Plain("b", {"node-1"}, 5000), Unknown("c")});
  view.jobs[2].priority = 1;
  EXPECT_THAT(RunningJobs(view), ElementsAre("b", "c"));
  view.jobs[0].priority = 1;
  EXPECT_THAT(RunningJobs(view), ElementsAre("a", "c"));
  view.jobs[1].priority = 1;
  EXPECT_THAT(RunningJobs(view), ElementsAre("a", "b"));
  view.jobs[2].priority = 2;
  EXPECT_THAT(RunningJobs(view), ElementsAre("b", "c"));
}

TEST(Queue, AQuotaTakesThePlaceOfWhoLosesLeast) {
  ClusterView view =
      View(Slots(2), {Plain("a", {"node-0"}, 100), Plain("b", {"node-1"}, 5000), Unknown("c")});
  view.jobs[0].name_space = view.jobs[1].name_space = view.jobs[2].name_space = "team";
  view.namespaces["team"].gpu_quota = 1;
  EXPECT_THAT(RunningJobs(view), ElementsAre("b"));
  view.jobs[2].name_space = "others";
  EXPECT_THAT(RunningJobs(view), ElementsAre("b", "c"));
}

TEST(Queue, WhoMustLeaveADrainingNodeComesBeforeNewcomers) {
  ClusterView view = View(
      Slots(3), {Unknown("new"), Plain("a", {"node-0"}, 100), Plain("b", {"node-1"}, 100), Unknown("d")});
  view.nodes[0].draining = true;
  const Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[1].allocation, ElementsAre("node-2"));
  EXPECT_THAT(decision.jobs[2].allocation, ElementsAre("node-1"));
  EXPECT_THAT(decision.jobs[0].allocation, IsEmpty());
}

TEST(Queue, NewcomersLeaveHalfOfTheRoomToJobsThatCompete) {
  std::vector<JobInfo> jobs;
  for (int i = 0; i < 4; ++i)
    jobs.push_back(Elastic(absl::StrCat("elastic-", i), {absl::StrCat("node-", i)}));
  for (int i = 0; i < 6; ++i) jobs.push_back(Unknown(absl::StrCat("new-", i)));
  ClusterView view = View(Slots(4), jobs);
  // Round after round, as newcomers turn out to be plain: the others never have less.
  for (int round = 0; round < 5; ++round) {
    const Decision decision = Decide(view);
    const Nodes running = RunningJobs(view, decision);
    EXPECT_THAT(running, SizeIs(4));
    EXPECT_THAT(running, Contains("new-0"));
    EXPECT_THAT(running, Contains("new-1"));
    view = After(view, decision);
    for (JobInfo& job : view.jobs) {
      if (!job.allocation.empty()) job.run_seconds += 600;
      if (!job.elastic && !job.allocation.empty()) job.unsaved_seconds += 600;
    }
  }
}

TEST(Queue, OneLongElasticJobShrinksForNewcomersAndIsNotStopped) {
  ClusterView view = View(Slots(4), {Elastic("long", {"node-0", "node-1", "node-2", "node-3"}, 1e6)});
  view.jobs[0].max_replicas = 4;
  for (int i = 0; i < 9; ++i) view.jobs.push_back(Unknown(absl::StrCat("new-", i)));
  const Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, SizeIs(1));
  EXPECT_THAT(RunningJobs(view, decision), ElementsAre("long", "new-0", "new-1", "new-2"));
  EXPECT_THAT(decision.jobs[4].reason, HasSubstr("start in their turn"));
  EXPECT_THAT(decision.jobs[4].explanation, Contains(HasSubstr("next to start")));
  EXPECT_THAT(decision.jobs[6].explanation, Contains(HasSubstr("2 jobs are to start before it")));
  EXPECT_EQ(decision.jobs[4].reason, decision.jobs[6].reason);
}

TEST(Queue, NobodyPassesAJobThatNeedsMoreRoomAtOnce) {
  ClusterView view = View(Slots(4), {Plain("a", {"node-0"}, 10), Plain("b", {"node-1"}, 10),
                                     Unknown("four", 4), Unknown("single")});
  EXPECT_THAT(RunningJobs(view), ElementsAre("a", "b"));
  view.jobs.erase(view.jobs.begin());
  EXPECT_THAT(RunningJobs(view), ElementsAre("b"));
  view.jobs.erase(view.jobs.begin());
  EXPECT_THAT(RunningJobs(view), ElementsAre("four"));
}

TEST(Queue, AJobThatCannotStartBesideEarlierOnesHoldsUpNobody) {
  ClusterView view = View(
      Slots(4), {Elastic("long", {"node-0"}), Unknown("all", 4), Unknown("too-many", 5), Unknown("single")});
  EXPECT_THAT(RunningJobs(view), ElementsAre("long", "single"));
  view.jobs.erase(view.jobs.begin());
  EXPECT_THAT(RunningJobs(view), ElementsAre("all"));
}

TEST(Queue, EqualsThatHaveMeasuredThemselvesStayInTheOrderOfSubmission) {
  ClusterView view =
      View(Slots(2), {Elastic("a", {"node-0"}, 60), Elastic("b", {"node-1"}, 60), Elastic("c", {}, 60)});
  EXPECT_THAT(RunningJobs(view), ElementsAre("a", "b"));
}

TEST(Queue, WorkThatIsInNoCheckpointIsNotGivenUpForALittle) {
  ClusterView view =
      View(Slots(2), {Elastic("a", {"node-0"}, 1e5), Elastic("b", {}, 60), Elastic("c", {"node-1"}, 60)});
  EXPECT_THAT(RunningJobs(view), ElementsAre("b", "c"));
  // Its checkpoints fail.
  view.jobs[0].unsaved_seconds = 3600;
  const Decision decision = Decide(view);
  EXPECT_THAT(RunningJobs(view, decision), Contains("a"));
  EXPECT_THAT(decision.jobs[0].explanation, Contains(HasSubstr("60 min of work would be lost")));
}

TEST(Queue, SaysWhoKeepsItsPlaceAndForHowLong) {
  ClusterView view = View(
      Slots(2), {Plain("plain", {"node-0"}, 7200), Unknown("slow"), Elastic("elastic", {}), Unknown("new")});
  view.jobs[1].elastic = true;
  view.jobs[1].allocation = {"node-1"};
  view.jobs[1].run_seconds = 60;
  const Decision decision = Decide(view);
  EXPECT_THAT(RunningJobs(view, decision), ElementsAre("plain", "slow"));
  EXPECT_THAT(decision.jobs[0].explanation, Contains(HasSubstr("taken for a plain program")));
  EXPECT_THAT(decision.jobs[0].explanation, Contains(HasSubstr("2.0 h of work would be lost")));
  EXPECT_THAT(decision.jobs[1].explanation, Contains(HasSubstr("keeps its place for at most 4 min")));
  EXPECT_THAT(
      decision.jobs[2].explanation,
      Contains("1 job keeps its place until the end, as a plain program, whose work would be lost; 1 job "
               "keeps its place until measured, which may take 4 min more."));
  EXPECT_THAT(decision.jobs[3].explanation, Contains(HasSubstr("next to start")));
  EXPECT_THAT(decision.jobs[3].explanation, Contains(HasSubstr("as a plain program")));
}

}  // namespace
}  // namespace adaptdl::scheduling
