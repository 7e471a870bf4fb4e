// Decisions keep to the rules of placement.

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jobspec/placement.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "services/allocator/allocation_round.h"
#include "services/allocator/places.h"
#include "tests/services/allocator/snapshots.h"

namespace adaptdl::allocator {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

v1::Node NodeIn(const std::string& id, const std::string& zone, const std::string& taint = "") {
  v1::Node node = MakeNode(id);
  (*node.mutable_labels())["zone"] = zone;
  if (!taint.empty()) *node.add_taints() = jobspec::ParseTaint(taint).value();
  return node;
}

v1::Placement* PlacementOf(v1::Job* job) {
  return job->mutable_spec()->mutable_template_()->mutable_placement();
}

class PlacesTest : public ::testing::Test {
 protected:
  v1::Job* AddJob(const std::string& name, int measured = 4) {
    *snapshot_.add_jobs() = MakeJob(name);
    v1::Job* job = snapshot_.mutable_jobs(snapshot_.jobs_size() - 1);
    if (measured > 0) *job->mutable_status()->mutable_hints() = MakeHints(measured);
    return job;
  }

  // Node of each replica, by job.
  std::map<std::string, v1::JobAllocation> Decide() {
    scheduling::GoodputPolicy policy{{}};
    AllocationRound round(&policy);
    std::map<std::string, v1::JobAllocation> decided;
    const RoundResult result = round.Decide(snapshot_, kNow);
    for (const v1::JobAllocation& allocation : result.request.allocations()) {
      decided[allocation.name()] = allocation;
    }
    return decided;
  }

  v1::ClusterSnapshot snapshot_;
};

TEST_F(PlacesTest, AJobGoesWhereItMay) {
  for (int i = 0; i < 6; ++i) *snapshot_.add_nodes() = NodeIn(absl::StrCat("a", i), "a");
  for (int i = 0; i < 2; ++i) *snapshot_.add_nodes() = NodeIn(absl::StrCat("b", i), "b");
  (*PlacementOf(AddJob("picky"))->mutable_node_selector())["zone"] = "b";
  AddJob("easy");
  auto decided = Decide();
  EXPECT_GE(decided["picky"].node_ids_size(), 1);
  EXPECT_THAT(decided["picky"].node_ids(), Each(::testing::StartsWith("b")));
  EXPECT_GE(decided["easy"].node_ids_size(), 4) << "a rule of one job takes no room from the other";
}

TEST_F(PlacesTest, TaintsKeepOthersOff) {
  *snapshot_.add_nodes() = NodeIn("n1", "a");
  *snapshot_.add_nodes() = NodeIn("n2", "a", "gpu=a100:NoSchedule");
  AddJob("plain");
  PlacementOf(AddJob("bears"))->add_tolerations()->set_any_value(true);
  auto decided = Decide();
  EXPECT_THAT(decided["plain"].node_ids(), Each(::testing::Eq("n1")));
  EXPECT_GE(decided["plain"].node_ids_size(), 1);
  EXPECT_GE(decided["bears"].node_ids_size(), 1);
}

TEST_F(PlacesTest, WhyThereIsNoNode) {
  *snapshot_.add_nodes() = NodeIn("n1", "a");
  *snapshot_.add_nodes() = NodeIn("n2", "a");
  *snapshot_.add_nodes() = NodeIn("n3", "b", "gpu:NoExecute");
  (*PlacementOf(AddJob("picky"))->mutable_node_selector())["zone"] = "b";
  const v1::JobAllocation decided = Decide()["picky"];
  EXPECT_TRUE(decided.unschedulable());
  EXPECT_EQ(
      decided.reason(),
      "there is no node that it may be placed on: 2 nodes, each of which has not the label zone=b; 1 node "
      "has the taint gpu:NoExecute");
}

TEST_F(PlacesTest, AJobLeavesANodeThatMayNotHaveItAnyMore) {
  *snapshot_.add_nodes() = NodeIn("n1", "a", "gone:NoExecute");
  *snapshot_.add_nodes() = NodeIn("n2", "a");
  v1::Job* job = AddJob("a");
  job->mutable_status()->set_phase(v1::JOB_PHASE_RUNNING);
  job->mutable_status()->add_allocation("n1");
  job->mutable_status()->add_desired_allocation("n1");
  auto decided = Decide();
  EXPECT_GE(decided["a"].node_ids_size(), 1);
  EXPECT_THAT(decided["a"].node_ids(), Each(::testing::Eq("n2")));
}

TEST(PlacesOfNodesTest, CostNothingWhereThereAreNoRules) {
  const v1::Node node = NodeIn("n1", "a");
  std::vector<scheduling::NodeInfo> nodes(1);
  Places places({&node}, &nodes);
  EXPECT_EQ(places.ResourceFor({}), "");
  v1::Placement everywhere;
  (*everywhere.mutable_node_selector())["zone"] = "a";
  EXPECT_EQ(places.ResourceFor(everywhere), "") << "it is met by all nodes";
  EXPECT_THAT(nodes[0].capacity, SizeIs(0));
}

// Whatever the cluster and the rules: nobody is where he may not be, and who fits nowhere is told so.
TEST_F(PlacesTest, NoDecisionBreaksARule) {
  std::mt19937 random(5);
  const auto pick = [&](int count) { return static_cast<int>(random() % count); };
  const std::vector<std::string> kZones = {"a", "b", "c"};
  for (int round = 0; round < 60; ++round) {
    snapshot_.Clear();
    for (int n = pick(8) + 1; n > 0; --n) {
      *snapshot_.add_nodes() =
          NodeIn(absl::StrCat("n", n), kZones[pick(3)], pick(4) == 0 ? "gpu=a100:NoSchedule" : "");
    }
    for (int j = pick(6) + 1; j > 0; --j) {
      v1::Job* job = AddJob(absl::StrCat("job", j), pick(5));
      if (pick(2) == 0) (*PlacementOf(job)->mutable_node_selector())["zone"] = kZones[pick(3)];
      if (pick(3) == 0) PlacementOf(job)->add_tolerations()->set_key("gpu");
      if (pick(3) == 0) PlacementOf(job)->add_tolerations()->set_any_value(true);
    }
    const auto decided = Decide();
    for (const v1::Job& job : snapshot_.jobs()) {
      const v1::Placement& rule = job.spec().template_().placement();
      const auto admits = [&](const v1::Node& node) { return jobspec::Fits(rule, node); };
      const auto found = decided.find(job.name());
      if (found == decided.end()) continue;
      const bool possible = std::any_of(snapshot_.nodes().begin(), snapshot_.nodes().end(), admits);
      EXPECT_EQ(found->second.unschedulable(), !possible) << round << " " << job.name();
      for (const std::string& id : found->second.node_ids()) {
        const auto node = std::find_if(snapshot_.nodes().begin(), snapshot_.nodes().end(),
                                       [&](const v1::Node& n) { return n.node_id() == id; });
        EXPECT_EQ(jobspec::WhyNot(rule, *node), "") << round << " " << job.name() << " on " << id;
      }
    }
  }
}

}  // namespace
}  // namespace adaptdl::allocator
