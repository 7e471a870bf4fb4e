#include "simulator/placement_check.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/simulated_job.h"
#include "tests/simulator/toy.h"

namespace adaptdl::simulator {
namespace {

using testing::HasSubstr;

class PlacementCheckTest : public ToyTest {
 protected:
  // Two jobs on two nodes of different types, two GPUs each.
  absl::Status Check(const std::vector<Placement>& placements, const std::vector<NodeStatus>& status = {}) {
    const auto cluster = Cluster::Parse("aws:1x2,slow:1x2");
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    WriteTraces("toy", "placements-slow.csv", 2);
    const std::vector<WorkloadJob> workload = Load({"a,0", "b,0"}, cluster->gpu_types());
    const SimulatedJob a(workload[0], 2, {});
    const SimulatedJob b(workload[1], 2, {});
    const SimulatedJob* const jobs[] = {&a, &b};
    return CheckPlacements({0, *cluster, jobs, {}, status}, placements);
  }
  std::string Problem(const std::vector<Placement>& placements, const std::vector<NodeStatus>& status = {}) {
    const absl::Status result = Check(placements, status);
    EXPECT_EQ(result.code(), absl::StatusCode::kInternal);
    return std::string(result.message());
  }
};

TEST_F(PlacementCheckTest, WhatFitsIsFine) {
  EXPECT_TRUE(Check({{{0, 1}}, {{0, 1}}}).ok());
  EXPECT_TRUE(Check({{{0, 2}}, {{1, 2}}}).ok());
  EXPECT_TRUE(Check({{}, {}}).ok());
}

TEST_F(PlacementCheckTest, EachJobNeedsAnAnswer) {
  EXPECT_THAT(Problem({{}}), HasSubstr("placed 1 jobs; there are 2"));
}

TEST_F(PlacementCheckTest, NodesAreGivenNoMoreThanTheyHave) {
  EXPECT_THAT(Problem({{{0, 1}}, {{0, 2}}}), HasSubstr("2 replicas of b on node 0, which has no room"));
  EXPECT_THAT(Problem({{{2, 1}}, {}}), HasSubstr("of a on node 2"));
  EXPECT_THAT(Problem({{{0, 0}}, {}}), HasSubstr("0 replicas of a"));
}

TEST_F(PlacementCheckTest, NodesThatAreAwayHaveNothing) {
  std::vector<NodeStatus> status(2);
  status[1].up = false;
  EXPECT_TRUE(Check({{{0, 1}}, {}}, status).ok());
  EXPECT_THAT(Problem({{}, {{1, 1}}}, status), HasSubstr("of b on node 1"));
}

TEST_F(PlacementCheckTest, AJobRunsOnOneTypeOfGpu) {
  EXPECT_THAT(Problem({{{0, 1}, {1, 1}}, {}}), HasSubstr("mixed GPU types for a"));
}

}  // namespace
}  // namespace adaptdl::simulator
