#include "libs/scheduling/job_demand.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<JobDemand> DemandsOf(const ClusterView& view, const std::vector<NodeKind>& kinds) {
  return MakeJobDemands(view, GoodputPolicy({}).Decide(view, 1), kinds, {});
}

NodeKind Kind(int64_t cpu_millis, const std::string& gpu_type = "") {
  NodeKind kind;
  kind.capacity = {{kCpu, cpu_millis}};
  kind.gpu_type = gpu_type;
  return kind;
}

std::vector<int> SizesOf(const KindDemand& demand) {
  std::vector<int> sizes;
  for (const DemandSize& size : demand.sizes) sizes.push_back(size.replicas);
  return sizes;
}

TEST(JobDemandTest, WithoutAnyNodeJobsStillSayWhatTheyCouldUse) {
  const std::vector<JobDemand> demands = DemandsOf(View({}, {Job("a", 8)}), {Kind(4000)});
  ASSERT_THAT(demands, SizeIs(1));
  ASSERT_THAT(demands[0].kinds, SizeIs(1));
  EXPECT_EQ(demands[0].kinds[0].per_node, 4);
  EXPECT_EQ(demands[0].kinds[0].sizes.front().replicas, 1);
  EXPECT_EQ(demands[0].kinds[0].sizes.back().replicas, 8);
  EXPECT_NEAR(demands[0].kinds[0].sizes.back().speedup, 8, 1e-9);
}

TEST(JobDemandTest, OnlySizesOnTheUpperHullAreTold) {
  // Perfect scaling is one line: its ends say all.
  const std::vector<JobDemand> linear = DemandsOf(View({}, {Job("a", 8)}), {Kind(4000)});
  EXPECT_THAT(SizesOf(linear[0].kinds[0]), ElementsAre(1, 8));
  const std::vector<JobDemand> bending = DemandsOf(View({}, {Job("a", 32, Scaling(0.3, 32))}), {Kind(4000)});
  const std::vector<DemandSize>& sizes = bending[0].kinds[0].sizes;
  ASSERT_GE(sizes.size(), 3u);
  double slope = HUGE_VAL;
  for (size_t i = 1; i < sizes.size(); ++i) {
    const double next =
        (sizes[i].speedup - sizes[i - 1].speedup) / (sizes[i].replicas - sizes[i - 1].replicas);
    EXPECT_LT(next, slope);
    EXPECT_GT(next, 0);
    slope = next;
  }
}

TEST(JobDemandTest, KindsThatHoldNoReplicaOrAreNotAdmittedAreLeftOut) {
  const ClusterView view = View({}, {Job("a")});
  EXPECT_THAT(DemandsOf(view, {Kind(500)})[0].kinds, IsEmpty());
  DemandOptions options;
  options.admits = [](int, int kind) { return kind == 1; };
  const auto demands =
      MakeJobDemands(view, GoodputPolicy({}).Decide(view, 1), {Kind(1000), Kind(2000)}, options);
  ASSERT_THAT(demands[0].kinds, SizeIs(1));
  EXPECT_EQ(demands[0].kinds[0].kind, 1);
}

TEST(JobDemandTest, SpeedsAreThoseOfTheKindsGpus) {
  JobInfo job = Job("a", 1);
  job.speedup_by_type["fast"] =
      std::make_shared<goodput::SpeedupTable>(goodput::SpeedupTable::FromRows({0, 3}, {0, 3}));
  const auto demands = DemandsOf(View({}, {job}), {Kind(1000, "slow"), Kind(1000, "fast")});
  EXPECT_EQ(demands[0].kinds[0].sizes[0].speedup, 1);
  EXPECT_EQ(demands[0].kinds[1].sizes[0].speedup, 3);
}

TEST(JobDemandTest, AQuotaBoundsWhatItsJobsAskFor) {
  ClusterView view = View({}, {Job("a", 8), Job("b", 8), Job("c", 8)});
  for (JobInfo& job : view.jobs) job.name_space = "small";
  view.jobs[2].priority = 1;
  view.namespaces["small"].gpu_quota = 2;
  const auto demands = DemandsOf(view, {Kind(1000)});
  EXPECT_THAT(SizesOf(demands[0].kinds[0]), ElementsAre(1));
  EXPECT_THAT(demands[1].kinds, IsEmpty());
  EXPECT_THAT(SizesOf(demands[2].kinds[0]), ElementsAre(1));
}

TEST(JobDemandTest, CarriesWhatTheJobSaysAndWhereItIs) {
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("a", 2)});
  view.jobs[0].deadline = absl::FromUnixSeconds(7);
  view.jobs[0].remaining_seconds = 5;
  view.jobs[0].weight = 2;
  view.jobs[0].name_space = "heavy";
  view.namespaces["heavy"].weight = 3;
  const auto demands = DemandsOf(view, {Kind(1000)});
  EXPECT_EQ(demands[0].deadline, absl::FromUnixSeconds(7));
  EXPECT_EQ(demands[0].remaining_seconds, 5);
  EXPECT_EQ(demands[0].weight, 6);
  EXPECT_THAT(demands[0].nodes, ElementsAre("n0", "n1"));
  EXPECT_FALSE(demands[0].pinned);
}

}  // namespace
}  // namespace adaptdl::scheduling
