#include "services/allocator/allocation_round.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "tests/services/allocator/snapshots.h"
#include "tests/services/allocator/steady_policy.h"

namespace adaptdl::allocator {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class AllocationRoundTest : public ::testing::Test {
 protected:
  AllocationRoundTest() {
    snapshot_.set_version(7);
    *snapshot_.add_nodes() = MakeNode("n0");
    *snapshot_.add_nodes() = MakeNode("n1");
  }

  // As the supervisor stores it.
  void Store(const v1::ApplyAllocationsRequest& request) {
    for (const v1::JobAllocation& allocation : request.allocations()) {
      for (v1::Job& job : *snapshot_.mutable_jobs()) {
        if (job.uid() != allocation.job_uid()) continue;
        *job.mutable_status()->mutable_desired_allocation() = allocation.node_ids();
        job.mutable_status()->set_allocation_reason(allocation.reason());
        *job.mutable_status()->mutable_allocation_explanation() = allocation.explanation();
      }
    }
  }

  scheduling::GoodputPolicy policy_{{}};
  AllocationRound round_{&policy_};
  v1::ClusterSnapshot snapshot_;
};

// Such a job was accepted by an earlier version.
TEST_F(AllocationRoundTest, AJobThatCanNeverBeScheduledIsToldWhy) {
  *snapshot_.add_jobs() = MakeJob("a");
  snapshot_.mutable_jobs(0)->mutable_spec()->set_min_replicas(20'000);
  const RoundResult first = round_.Decide(snapshot_, kNow);
  ASSERT_EQ(first.request.allocations_size(), 1);
  EXPECT_EQ(first.request.allocations(0).job_uid(), "uid-a");
  EXPECT_TRUE(first.request.allocations(0).unschedulable());
  EXPECT_THAT(first.request.allocations(0).node_ids(), ElementsAre());
  EXPECT_THAT(first.request.allocations(0).reason(), HasSubstr("spec.min_replicas: 20000"));
  EXPECT_EQ(first.jobs.at("refused"), 1);
  Store(first.request);
  EXPECT_EQ(round_.Decide(snapshot_, kNow).request.allocations_size(), 0);
}

TEST_F(AllocationRoundTest, SendsWhatChangesAndNothingTwice) {
  const SteadyPolicy policy;
  AllocationRound round(&policy);
  *snapshot_.add_jobs() = MakeJob("a");
  const RoundResult first = round.Decide(snapshot_, kNow);
  EXPECT_EQ(first.request.snapshot_version(), 7);
  ASSERT_EQ(first.request.allocations_size(), 1);
  EXPECT_EQ(first.request.allocations(0).job_uid(), "uid-a");
  EXPECT_THAT(first.request.allocations(0).node_ids(), ElementsAre("n0"));
  EXPECT_FALSE(first.request.allocations(0).reason().empty());
  ASSERT_EQ(first.moves.size(), 1u);
  EXPECT_EQ(first.moves[0].replicas_after, 1);
  EXPECT_EQ(first.jobs.at("running"), 1);
  Store(first.request);
  EXPECT_EQ(round.Decide(snapshot_, kNow).request.allocations_size(), 0);
}

TEST_F(AllocationRoundTest, SendsANewReasonOnce) {
  *snapshot_.add_jobs() = MakeJob("a");
  Store(round_.Decide(snapshot_, kNow).request);
  snapshot_.mutable_jobs(0)->mutable_spec()->set_max_replicas(1);
  *snapshot_.mutable_jobs(0)->mutable_status()->mutable_hints() = MakeHints(1);
  const RoundResult second = round_.Decide(snapshot_, kNow);
  ASSERT_EQ(second.request.allocations_size(), 1);
  EXPECT_THAT(second.request.allocations(0).reason(), HasSubstr("maxReplicas is 1"));
  EXPECT_TRUE(second.moves.empty());
  Store(second.request);
  EXPECT_EQ(round_.Decide(snapshot_, kNow).request.allocations_size(), 0);
}

// Gives every job all nodes.
class AllNodesPolicy final : public scheduling::AllocationPolicy {
 public:
  absl::string_view name() const override { return "all nodes"; }
  scheduling::Decision Decide(const scheduling::ClusterView& view, uint64_t /*seed*/) const override {
    scheduling::Decision decision;
    for (const scheduling::JobInfo& job : view.jobs) {
      decision.jobs.emplace_back();
      decision.jobs.back().key = job.key;
      for (const scheduling::NodeInfo& node : view.nodes) decision.jobs.back().allocation.push_back(node.id);
    }
    return decision;
  }
};

TEST_F(AllocationRoundTest, NoJobGetsTwoNodesThatDoNotReachEachOther) {
  const AllNodesPolicy policy;
  AllocationRound round(&policy);
  *snapshot_.add_jobs() = MakeJob("a");
  snapshot_.mutable_nodes(0)->mutable_status()->add_unreachable_nodes("n1");
  snapshot_.mutable_nodes(1)->mutable_status()->add_unreachable_nodes("n0");
  const RoundResult first = round.Decide(snapshot_, kNow);
  ASSERT_EQ(first.request.allocations_size(), 1);
  EXPECT_THAT(first.request.allocations(0).node_ids(), ElementsAre("n0"));
  EXPECT_THAT(first.request.allocations(0).reason(), HasSubstr("not on node n1"));
  Store(first.request);
  EXPECT_EQ(round.Decide(snapshot_, kNow).request.allocations_size(), 0);
}

// Two nodes of one job, of which one may be taken away.
class FadingNodeTest : public AllocationRoundTest {
 protected:
  FadingNodeTest() {
    *snapshot_.add_jobs() = MakeJob("a");
    v1::Job& job = *snapshot_.mutable_jobs(0);
    *job.mutable_status()->mutable_hints() = MakeHints(4);
    job.mutable_spec()->set_max_replicas(2);
    Store(round_.Decide(snapshot_, kNow).request);
    job.mutable_status()->set_phase(v1::JOB_PHASE_RUNNING);
    EXPECT_THAT(job.status().desired_allocation(), ElementsAre("n0", "n1"));
    v1::Node& node = *snapshot_.mutable_nodes(1);
    node.mutable_status()->set_phase(v1::NODE_PHASE_DRAINING);
    node.add_taints()->set_key("adaptdl.petuum.com/likely-to-leave");
  }
};

TEST_F(FadingNodeTest, AJobKeepsItWhileThereIsNoOther) {
  const RoundResult result = round_.Decide(snapshot_, kNow);
  EXPECT_TRUE(result.moves.empty());
  Store(result.request);
  EXPECT_THAT(snapshot_.jobs(0).status().desired_allocation(), ElementsAre("n0", "n1"));
  EXPECT_THAT(snapshot_.jobs(0).status().allocation_reason(), HasSubstr("may be taken away"));
  EXPECT_EQ(round_.Decide(snapshot_, kNow).request.allocations_size(), 0);
  EXPECT_EQ(result.capacity.current_nodes, 1);
  EXPECT_EQ(result.capacity.desired_nodes, 2) << "another one is wished for";
}

TEST_F(FadingNodeTest, AJobLeavesItWhenThereIsAnother) {
  *snapshot_.add_nodes() = MakeNode("n2");
  Store(round_.Decide(snapshot_, kNow).request);
  EXPECT_THAT(snapshot_.jobs(0).status().desired_allocation(), ElementsAre("n0", "n2"));
}

TEST_F(FadingNodeTest, AJobLeavesItWhenItGoesAway) {
  snapshot_.mutable_nodes(1)->mutable_status()->mutable_preemption_time()->set_seconds(1'700'000'030);
  Store(round_.Decide(snapshot_, kNow).request);
  EXPECT_THAT(snapshot_.jobs(0).status().desired_allocation(), ElementsAre("n0"));
}

TEST_F(FadingNodeTest, AJobThatHasNoOtherNodeKeepsItAndAsksForOne) {
  snapshot_.mutable_nodes()->DeleteSubrange(0, 1);
  snapshot_.mutable_jobs(0)->mutable_status()->clear_desired_allocation();
  snapshot_.mutable_jobs(0)->mutable_status()->add_desired_allocation("n1");
  const RoundResult result = round_.Decide(snapshot_, kNow);
  EXPECT_TRUE(result.moves.empty());
  EXPECT_EQ(result.unplaced.size(), 1u);
}

TEST_F(FadingNodeTest, OneThatWaitsHasNothingToKeepThere) {
  snapshot_.mutable_jobs(0)->mutable_status()->set_phase(v1::JOB_PHASE_PENDING);
  Store(round_.Decide(snapshot_, kNow).request);
  EXPECT_THAT(snapshot_.jobs(0).status().desired_allocation(), ElementsAre("n0"));
}

// Gives every job the first node, and says what it is told to.
class TalkingPolicy final : public scheduling::AllocationPolicy {
 public:
  absl::string_view name() const override { return "talking"; }
  scheduling::Decision Decide(const scheduling::ClusterView& view, uint64_t) const override {
    scheduling::Decision decision;
    for (const scheduling::JobInfo& job : view.jobs) {
      scheduling::JobDecision decided;
      decided.key = job.key;
      decided.allocation = {view.nodes[0].id};
      decided.reason = "because";
      decided.explanation = explanation;
      decision.jobs.push_back(std::move(decided));
    }
    return decision;
  }
  std::vector<std::string> explanation;
};

TEST_F(AllocationRoundTest, SendsANewExplanationOnce) {
  TalkingPolicy policy;
  policy.explanation = {"1 replica brings 1.", "A second would bring 0.8."};
  AllocationRound round(&policy);
  *snapshot_.add_jobs() = MakeJob("a");
  const RoundResult first = round.Decide(snapshot_, kNow);
  ASSERT_EQ(first.request.allocations_size(), 1);
  EXPECT_THAT(first.request.allocations(0).explanation(),
              ElementsAre("1 replica brings 1.", "A second would bring 0.8."));
  Store(first.request);
  EXPECT_EQ(round.Decide(snapshot_, kNow).request.allocations_size(), 0);
  policy.explanation[1] = "A second would bring 0.7.";
  const RoundResult second = round.Decide(snapshot_, kNow);
  ASSERT_EQ(second.request.allocations_size(), 1);
  EXPECT_TRUE(second.moves.empty());
  Store(second.request);
  EXPECT_EQ(round.Decide(snapshot_, kNow).request.allocations_size(), 0);
}

TEST_F(AllocationRoundTest, BoundsExplanations) {
  TalkingPolicy policy;
  policy.explanation = std::vector<std::string>(9, "A sentence.");
  policy.explanation[0] = std::string(301, 'x');
  AllocationRound round(&policy);
  *snapshot_.add_jobs() = MakeJob("a");
  EXPECT_THAT(round.Decide(snapshot_, kNow).request.allocations(0).explanation(),
              ElementsAreArray(std::vector<std::string>(8, "A sentence.")));
}

TEST_F(AllocationRoundTest, SaysAtOnceThatAJobFitsNowhere) {
  *snapshot_.add_jobs() = MakeJob("big");
  snapshot_.mutable_jobs(0)->mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(4000);
  const RoundResult result = round_.Decide(snapshot_, kNow);
  ASSERT_EQ(result.request.allocations_size(), 1);
  EXPECT_TRUE(result.request.allocations(0).unschedulable());
  EXPECT_EQ(result.request.allocations(0).reason(),
            "one replica needs 4 CPUs; the largest node offers 1 CPU");
  EXPECT_EQ(result.jobs.at("unschedulable"), 1);
}

TEST_F(AllocationRoundTest, SaysWhatNoNodeCouldHoldOnce) {
  for (const char* name : {"a", "b", "c"}) *snapshot_.add_jobs() = MakeJob(name);
  EXPECT_THAT(round_.Decide(snapshot_, kNow).unplaced, ElementsAre());
  for (int j : {0, 1})
    snapshot_.mutable_jobs(j)->mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(1);
  const RoundResult result = round_.Decide(snapshot_, kNow);
  ASSERT_EQ(result.unplaced.size(), 1u);
  EXPECT_EQ(result.unplaced[0].resources().gpus(), 1);
  snapshot_.clear_nodes();
  EXPECT_EQ(round_.Decide(snapshot_, kNow).unplaced.size(), 2u) << "without a node all that waits";
}

TEST_F(AllocationRoundTest, ABadJobHurtsNoOther) {
  *snapshot_.add_jobs() = MakeJob("bad");
  snapshot_.mutable_jobs(0)->mutable_spec()->set_min_replicas(-3);
  *snapshot_.add_jobs() = MakeJob("good");
  const RoundResult result = round_.Decide(snapshot_, kNow);
  // The bad one is told why it gets nothing.
  for (const v1::JobAllocation& allocation : result.request.allocations()) {
    const bool bad = allocation.name() == "bad";
    EXPECT_EQ(allocation.unschedulable(), bad);
    EXPECT_EQ(allocation.node_ids().empty(), bad);
  }
  EXPECT_EQ(result.request.allocations_size(), 2);
  EXPECT_EQ(result.refusals.size(), 1u);
  EXPECT_EQ(result.jobs.at("refused"), 1);
}

}  // namespace
}  // namespace adaptdl::allocator
