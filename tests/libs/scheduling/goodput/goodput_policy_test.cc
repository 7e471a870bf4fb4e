#include "libs/scheduling/goodput/goodput_policy.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Decision Decide(const ClusterView& view) { return GoodputPolicy({}).Decide(view, 1); }

std::vector<NodeInfo> GpuNodes(int count, int gpus, const std::string& type = "") {
  std::vector<NodeInfo> nodes;
  for (int i = 0; i < count; ++i) {
    nodes.push_back(Node(absl::StrCat("node-", type, 100 + i), 64000, gpus));
    nodes.back().gpu_type = type;
  }
  return nodes;
}

JobInfo GpuJob(const std::string& key, int most, double network = 0.1) {
  JobInfo job = Job(key, most, Scaling(network, 64, network / 2));
  job.request = {{kGpu, 1}};
  return job;
}

int NodesOf(const JobDecision& job) {
  return static_cast<int>(std::set<std::string>(job.allocation.begin(), job.allocation.end()).size());
}

TEST(GoodputPolicy, TellsTheStoryOfTwoJobsOnTwoSlots) {
  ClusterView view = View({Node("a"), Node("b")}, {Job("first", 1)});
  Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, SizeIs(1));
  // It has measured itself.
  view = After(view, decision);
  view.jobs[0].max_replicas = 2;
  view.jobs[0].done_seconds = 60;
  decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, SizeIs(2));
  // Another arrives.
  view = After(view, decision);
  view.jobs.push_back(Job("second", 1));
  decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, SizeIs(1));
  EXPECT_THAT(decision.jobs[1].allocation, SizeIs(1));
  // And goes.
  view = After(view, decision);
  view.jobs.pop_back();
  EXPECT_THAT(Decide(view).jobs[0].allocation, SizeIs(2));
}

// Of cores there are as many; of memory, and of what other pods leave, one has less, and more than enough.
TEST(GoodputPolicy, WhatNoJobCouldUseUpIsNotScarce) {
  NodeInfo small = Node("a");
  NodeInfo large = Node("b");
  small.capacity["memory"] = 4 << 20;
  large.capacity["memory"] = 32 << 20;
  small.capacity["pods"] = 10;
  large.capacity["pods"] = 110;
  ClusterView view = View({small, large}, {Job("job", 2)});
  view.jobs[0].request["memory"] = 1 << 20;
  view.jobs[0].request["pods"] = 1;
  view.jobs[0].done_seconds = 60;
  EXPECT_THAT(Decide(view).jobs[0].allocation, SizeIs(2));
}

TEST(GoodputPolicy, DoesNotRescaleForALittle) {
  // A second replica gains 3 %; the change would cost 30 s of the next ten minutes.
  ClusterView view = View({Node("a"), Node("b")}, {Job("job", 2, Scaling(0.47))});
  view.jobs[0].allocation = {"a"};
  view.jobs[0].done_seconds = 60;
  EXPECT_THAT(Decide(view).jobs[0].allocation, ElementsAre("a"));
  // A change that costs nothing pays.
  view.jobs[0].rescale_seconds = 0;
  EXPECT_THAT(Decide(view).jobs[0].allocation, SizeIs(2));
}

TEST(GoodputPolicy, ShortJobsGoFirstWhereThatIsKnown) {
  ClusterView view = View(GpuNodes(1, 4), {GpuJob("long", 4), GpuJob("short", 4)});
  view.jobs[0].remaining_seconds = 100'000;
  view.jobs[1].remaining_seconds = 1'000;
  const Decision decision = Decide(view);
  EXPECT_GT(decision.jobs[1].allocation.size(), decision.jobs[0].allocation.size());
}

TEST(GoodputPolicy, WhoseKindIsShortGoesFirstWhereNothingElseIsKnown) {
  ClusterView view = View(GpuNodes(1, 4), {GpuJob("long", 4), GpuJob("short", 4)});
  for (JobInfo& job : view.jobs) job.done_seconds = 100;
  view.jobs[0].expected_seconds = 100'000;
  view.jobs[1].expected_seconds = 1'000;
  const Decision decision = Decide(view);
  EXPECT_GT(decision.jobs[1].allocation.size(), decision.jobs[0].allocation.size());
  EXPECT_THAT(decision.jobs[1].explanation,
              Contains(HasSubstr("by what jobs of its kind took it counts as")));
  // What jobs say themselves counts more.
  view.jobs[0].remaining_seconds = 1'000;
  view.jobs[1].remaining_seconds = 100'000;
  const Decision known = Decide(view);
  EXPECT_GT(known.jobs[0].allocation.size(), known.jobs[1].allocation.size());
}

TEST(GoodputPolicy, ANewJobIsStartedAtOnceSoThatItCanMeasureItself) {
  ClusterView view = View({Node("a"), Node("b")}, {Job("short", 2, Scaling(0.25)), Job("new", 1)});
  view.jobs[0].allocation = {"a", "b"};
  view.jobs[0].done_seconds = 60;
  view.jobs[0].remaining_seconds = 60;
  view.jobs[0].rescale_seconds = 2;
  const Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, SizeIs(1));
  EXPECT_THAT(decision.jobs[1].allocation, SizeIs(1));
  EXPECT_THAT(decision.jobs[1].explanation, Contains(HasSubstr("not measured itself yet")));
}

TEST(GoodputPolicy, JobsThatHadMuchStandBackWhereNothingIsKnown) {
  ClusterView view = View(GpuNodes(1, 4), {GpuJob("old", 4), GpuJob("new", 4)});
  view.jobs[0].done_seconds = 1e6;
  view.jobs[1].done_seconds = 100;
  const Decision decision = Decide(view);
  EXPECT_GT(decision.jobs[1].allocation.size(), decision.jobs[0].allocation.size());
}

TEST(GoodputPolicy, AJobThatWaitedTooLongGetsItsTurn) {
  std::vector<JobInfo> jobs = {GpuJob("long", 4)};
  jobs[0].remaining_seconds = 1e6;
  jobs[0].created = absl::UnixEpoch();
  jobs[0].min_replicas = 4;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(GpuJob(absl::StrCat("short-", i), 1));
    jobs.back().remaining_seconds = 600;
    jobs.back().created = absl::UnixEpoch() + absl::Hours(200);
  }
  ClusterView view = View(GpuNodes(1, 4), jobs);
  view.now = absl::UnixEpoch() + absl::Minutes(10);
  EXPECT_THAT(Decide(view).jobs[0].allocation, IsEmpty());
  view.now = absl::UnixEpoch() + absl::Hours(200);
  EXPECT_THAT(Decide(view).jobs[0].allocation, SizeIs(4));
}

TEST(GoodputPolicy, AJobRunsOnOneGpuTypeTheOneThatSuitsIt) {
  ClusterView view = View(GpuNodes(2, 4, "slow"), {GpuJob("picky", 8), GpuJob("other", 8)});
  for (const NodeInfo& node : GpuNodes(1, 4, "fast")) view.nodes.push_back(node);
  std::sort(view.nodes.begin(), view.nodes.end(),
            [](const NodeInfo& a, const NodeInfo& b) { return a.id < b.id; });
  std::vector<double> row;
  for (int k = 0; k <= 64; ++k) row.push_back(6.0 * k);
  view.jobs[0].speedup_by_type["fast"] =
      std::make_shared<goodput::SpeedupTable>(goodput::SpeedupTable::FromRows(row, row));
  const Decision decision = Decide(view);
  for (const std::string& node : decision.jobs[0].allocation) EXPECT_THAT(node, HasSubstr("fast"));
  EXPECT_THAT(decision.jobs[0].allocation, SizeIs(4));
  for (const std::string& node : decision.jobs[1].allocation) EXPECT_THAT(node, HasSubstr("slow"));
  EXPECT_THAT(decision.jobs[1].allocation, SizeIs(8));
}

TEST(GoodputPolicy, AllowsOnlyTheSizesThatTheJobAllows) {
  ClusterView view = View(GpuNodes(2, 4), {GpuJob("job", 8)});
  view.jobs[0].allowed_replicas = {3, 6};
  EXPECT_THAT(Decide(view).jobs[0].allocation, SizeIs(6));
  view.nodes.pop_back();
  EXPECT_THAT(Decide(view).jobs[0].allocation, SizeIs(3));
}

TEST(GoodputPolicy, PrioritiesComeFirst) {
  ClusterView view = View({Node("a")}, {Job("low", 1), Job("high", 1)});
  view.jobs[0].allocation = {"a"};
  view.jobs[1].priority = 1;
  view.jobs[1].remaining_seconds = 1e6;
  const Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, IsEmpty());
  EXPECT_THAT(decision.jobs[1].allocation, ElementsAre("a"));
}

TEST(GoodputPolicy, NamespacesStayWithinTheirQuotas) {
  ClusterView view = View(GpuNodes(2, 4), {GpuJob("a/one", 8), GpuJob("a/two", 8), GpuJob("b/one", 1)});
  view.jobs[0].name_space = view.jobs[1].name_space = "a";
  view.namespaces["a"].gpu_quota = 3;
  const Decision decision = Decide(view);
  EXPECT_LE(decision.jobs[0].allocation.size() + decision.jobs[1].allocation.size(), 3);
  EXPECT_GE(decision.jobs[0].allocation.size() + decision.jobs[1].allocation.size(), 2);
  EXPECT_THAT(decision.jobs[2].allocation, SizeIs(1));
}

// The nodes differ, so that leaving everybody in place is considered: not more than the quota allows.
TEST(GoodputPolicy, ANamespaceAboveItsQuotaGivesTheRestBack) {
  ClusterView view =
      View({Node("a", 8000, 4), Node("b", 64000, 2)}, {GpuJob("a/one", 4), GpuJob("b/one", 1)});
  view.jobs[0].request[kCpu] = 2000;
  view.jobs[0].allocation = {"a", "a", "a", "a"};
  view.jobs[0].name_space = "a";
  view.jobs[0].rescale_seconds = 1e4;
  view.namespaces["a"].gpu_quota = 2;
  EXPECT_LE(Decide(view).jobs[0].allocation.size(), 2);
}

TEST(GoodputPolicy, GivesAllOfTheMinimumOrNothing) {
  ClusterView view = View(GpuNodes(1, 4), {GpuJob("gang", 8)});
  view.jobs[0].min_replicas = 6;
  const Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, IsEmpty());
  EXPECT_THAT(decision.jobs[0].reason, HasSubstr("needs 6 replicas at once"));
}

TEST(GoodputPolicy, NeverTouchesAJobThatIsNotPreemptible) {
  ClusterView view = View(GpuNodes(1, 4), {GpuJob("fixed", 4), GpuJob("other", 4)});
  view.jobs[0].preemptible = false;
  view.jobs[0].allocation = {"node-100", "node-100"};
  view.jobs[1].remaining_seconds = 10;
  const Decision decision = Decide(view);
  EXPECT_EQ(decision.jobs[0].allocation, view.jobs[0].allocation);
  EXPECT_THAT(decision.jobs[1].allocation, SizeIs(2));
}

TEST(GoodputPolicy, JobsOnSeveralNodesDoNotShareThem) {
  ClusterView view = View(GpuNodes(4, 4), {GpuJob("one", 8), GpuJob("two", 8)});
  const Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, SizeIs(8));
  EXPECT_THAT(decision.jobs[1].allocation, SizeIs(8));
  for (const std::string& node : decision.jobs[0].allocation) {
    EXPECT_THAT(decision.jobs[1].allocation, ::testing::Not(Contains(node)));
  }
}

TEST(GoodputPolicy, MovesJobsTogetherToMakeRoomForALargeOne) {
  ClusterView view = View(GpuNodes(2, 4), {GpuJob("a", 1), GpuJob("b", 1), GpuJob("large", 4, 0.5)});
  view.jobs[0].allocation = {"node-100"};
  view.jobs[1].allocation = {"node-101"};
  view.jobs[0].done_seconds = view.jobs[1].done_seconds = 60;
  view.jobs[2].min_replicas = 4;
  const Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[2].allocation, SizeIs(4));
  EXPECT_EQ(NodesOf(decision.jobs[2]), 1);
  EXPECT_THAT(decision.jobs[0].allocation, SizeIs(1));
  EXPECT_EQ(decision.jobs[0].allocation, decision.jobs[1].allocation);
}

TEST(GoodputPolicy, EmptiesDrainingNodes) {
  ClusterView view = View({Node("a"), Node("b")}, {Job("job", 1)});
  view.jobs[0].allocation = {"a"};
  view.nodes[0].draining = true;
  EXPECT_THAT(Decide(view).jobs[0].allocation, ElementsAre("b"));
}

TEST(GoodputPolicy, PrefersLastingNodesForWhatCannotBeMoved) {
  ClusterView view = View({Node("a"), Node("b")}, {Job("job", 1)});
  view.nodes[0].preemptible = true;
  view.jobs[0].preemptible = false;
  EXPECT_THAT(Decide(view).jobs[0].allocation, ElementsAre("b"));
}

// Two nodes of three may be taken away; which one lasts is given by its place.
class MixedClusterTest : public testing::TestWithParam<int> {
 protected:
  MixedClusterTest() : view_(View({Node("n0"), Node("n1"), Node("n2")}, {Job("job", 2)})) {
    for (int i = 0; i < 3; ++i) view_.nodes[i].preemptible = i != GetParam();
  }
  std::string lasting() const { return view_.nodes[GetParam()].id; }
  // Nodes of the first job that last.
  int Lasting(const Decision& decision) const {
    const Nodes& nodes = decision.jobs[0].allocation;
    return static_cast<int>(std::count(nodes.begin(), nodes.end(), lasting()));
  }

  ClusterView view_;
};

TEST_P(MixedClusterTest, TheLeastThatAJobNeedsLiesOnNodesThatLast) {
  const Decision decision = Decide(view_);
  EXPECT_THAT(decision.jobs[0].allocation, SizeIs(2));
  EXPECT_EQ(Lasting(decision), 1);
}

TEST_P(MixedClusterTest, SoDoesTheOnlyReplica) {
  view_.jobs[0].max_replicas = 1;
  EXPECT_THAT(Decide(view_).jobs[0].allocation, ElementsAre(lasting()));
}

TEST_P(MixedClusterTest, WhatGoesBeyondThatLeavesThemToOthers) {
  for (NodeInfo& node : view_.nodes) node.preemptible = node.id == "n1";
  view_.jobs[0].min_replicas = 1;
  const Nodes nodes = Decide(view_).jobs[0].allocation;
  EXPECT_THAT(nodes, SizeIs(2));
  EXPECT_EQ(std::count(nodes.begin(), nodes.end(), "n1"), 1);
}

TEST_P(MixedClusterTest, NobodyMovesForIt) {
  const std::string fleeting = lasting() == "n0" ? "n1" : "n0";
  view_.jobs[0].max_replicas = 1;
  view_.jobs[0].allocation = {fleeting};
  EXPECT_THAT(Decide(view_).jobs[0].allocation, ElementsAre(fleeting));
}

TEST_P(MixedClusterTest, FewerNodesCountMore) {
  for (NodeInfo& node : view_.nodes) node.capacity[kCpu] = node.id == lasting() ? 1000 : 4000;
  view_.jobs[0].min_replicas = view_.jobs[0].max_replicas = 4;
  const Decision decision = Decide(view_);
  EXPECT_EQ(NodesOf(decision.jobs[0]), 1);
  EXPECT_EQ(Lasting(decision), 0);
}

INSTANTIATE_TEST_SUITE_P(ByPlace, MixedClusterTest, testing::Range(0, 3));

TEST(GoodputPolicy, FindsNodesWithAndWithoutGpusForEachJob) {
  ClusterView view =
      View({Node("big", 16000), Node("gpu", 4000, 2)}, {GpuJob("needs-gpu", 2), Job("needs-cores", 4)});
  const Decision decision = Decide(view);
  EXPECT_THAT(decision.jobs[0].allocation, ElementsAre("gpu", "gpu"));
  EXPECT_THAT(decision.jobs[1].allocation, ElementsAre("big", "big", "big", "big"));
}

TEST(GoodputPolicy, SaysWhatNoNodeOffers) {
  ClusterView view = View({Node("a")}, {Job("job", 1)});
  view.jobs[0].request = {{kCpu, 4000}};
  const Decision decision = Decide(view);
  EXPECT_TRUE(decision.jobs[0].unschedulable);
  EXPECT_THAT(decision.jobs[0].reason, HasSubstr("4 CPUs"));
}

TEST(GoodputPolicy, WaitsForANodeInAnEmptyCluster) {
  const Decision decision = Decide(View({}, {Job("job", 1)}));
  EXPECT_THAT(decision.jobs[0].allocation, IsEmpty());
  EXPECT_FALSE(decision.jobs[0].unschedulable);
  EXPECT_THAT(decision.jobs[0].reason, HasSubstr("waits for a node"));
  EXPECT_EQ(decision.capacity.desired_nodes, 1);
}

TEST(GoodputPolicy, WhatWasNotMeasuredIsSaidToBeExpected) {
  ClusterView view = View(GpuNodes(1, 4), {GpuJob("a", 4)});
  view.jobs[0].allocation = {"node-100"};
  view.jobs[0].remaining_seconds = 3600;
  view.jobs[0].max_replicas = 2;
  view.jobs[0].measured_replicas = 2;
  EXPECT_THAT(Decide(view).jobs[0].reason, HasSubstr("2 replicas on 1 node, 1."));
  view.jobs[0].measured_replicas = 1;
  EXPECT_THAT(Decide(view).jobs[0].reason, HasSubstr("2 replicas on 1 node, expected to be 1."));
  view.jobs[0].measured_replicas = 0;
  EXPECT_THAT(Decide(view).jobs[0].reason, HasSubstr("2 replicas on 1 node: "));
}

TEST(GoodputPolicy, ExplainsWhatMoreAndLessWouldDo) {
  ClusterView view = View(GpuNodes(1, 4), {GpuJob("a", 4), GpuJob("b", 4)});
  view.jobs[0].allocation = {"node-100"};
  view.jobs[0].remaining_seconds = 3600;
  view.jobs[0].max_replicas = 2;
  view.jobs[1].done_seconds = 1e5;
  const Decision decision = Decide(view);
  ASSERT_THAT(decision.jobs[0].allocation, SizeIs(2));
  EXPECT_THAT(decision.jobs[1].explanation, Contains(HasSubstr("With 4 replicas it would be")));
  EXPECT_THAT(decision.jobs[0].explanation, Contains(HasSubstr("With 1 replica it would be 0.")));
  EXPECT_THAT(decision.jobs[0].explanation,
              Contains(HasSubstr("The change from 1 replica costs about 30 s")));
  EXPECT_THAT(decision.jobs[0].explanation, Contains(HasSubstr("of training steps are left")));
  EXPECT_THAT(decision.jobs[0].explanation, Contains(HasSubstr("To other jobs")));
  EXPECT_THAT(decision.jobs[1].explanation, Contains(HasSubstr("not known")));
}

}  // namespace
}  // namespace adaptdl::scheduling
