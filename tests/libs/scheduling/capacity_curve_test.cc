#include "libs/scheduling/capacity_curve.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "tests/libs/scheduling/random_cluster.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

// Sizes 1, 2, ... on nodes that hold `per_node` replicas, with the given speed-ups.
CurveJob Sizes(int per_node, const std::vector<double>& speedups,
               std::optional<double> remaining = std::nullopt) {
  CurveJob job;
  for (size_t i = 0; i < speedups.size(); ++i) {
    const int replicas = static_cast<int>(i) + 1;
    job.sizes.push_back({replicas, static_cast<double>(replicas) / per_node, speedups[i]});
  }
  job.remaining_seconds = remaining;
  return job;
}

std::vector<CapacityPoint> Curve(const std::vector<CurveJob>& jobs, int most) {
  CurveOptions options;
  options.most_nodes = most;
  return MakeCapacityCurve(jobs, options);
}

TEST(CapacityCurveTest, UtilityIsTheSpeedupPerReplicaThatTheNodesHold) {
  const auto curve = Curve({Sizes(1, {1, 1.8, 2.4})}, 4);
  ASSERT_EQ(curve.size(), 4u);
  EXPECT_EQ(curve[0].nodes, 1);
  EXPECT_NEAR(curve[0].utility, 1, 1e-12);
  EXPECT_NEAR(curve[1].utility, 0.9, 1e-12);
  EXPECT_NEAR(curve[2].utility, 0.8, 1e-12);
  EXPECT_NEAR(curve[3].utility, 0.6, 1e-12);
  EXPECT_NEAR(curve[1].marginal_use, 0.8, 1e-12);
  EXPECT_NEAR(curve[2].marginal_use, 0.6, 1e-12);
  EXPECT_EQ(curve[3].marginal_use, 0);
}

TEST(CapacityCurveTest, PartOfANodeCountsAsPart) {
  const auto curve = Curve({Sizes(4, {1}), Sizes(4, {1})}, 1);
  EXPECT_NEAR(curve[0].utility, 0.5, 1e-12);
  EXPECT_NEAR(curve[0].marginal_use, 1, 1e-12);
}

TEST(CapacityCurveTest, CountsNoPartOfAJobThatDoesNotFit) {
  CurveJob large;
  large.sizes = {{3, 3, 3}};
  const auto curve = Curve({large, Sizes(1, {0.5})}, 4);
  EXPECT_NEAR(curve[0].utility, 0.5, 1e-12);
  EXPECT_NEAR(curve[1].utility, 0.25, 1e-12);
  EXPECT_NEAR(curve[2].utility, 1, 1e-12);
  EXPECT_NEAR(curve[3].utility, 3.5 / 4, 1e-12);
}

TEST(CapacityCurveTest, FullUseIsThatOfOneReplica) {
  CurveJob fast = Sizes(1, {2, 3});
  fast.full_use = 2;
  const auto curve = Curve({fast}, 2);
  EXPECT_NEAR(curve[0].utility, 1, 1e-12);
  EXPECT_NEAR(curve[1].utility, 0.75, 1e-12);
}

TEST(CapacityCurveTest, WithoutJobsNothingIsOfUse) {
  for (const CapacityPoint& point : Curve({}, 3)) {
    EXPECT_EQ(point.utility, 0);
    EXPECT_EQ(point.marginal_use, 0);
    EXPECT_FALSE(point.makespan_seconds.has_value());
  }
  EXPECT_EQ(StartNodes({}), 0);
}

TEST(CapacityCurveTest, MakespanGivesNodesToWhoEndsLast) {
  const auto curve = Curve({Sizes(1, {1, 2, 3, 4}, 400.0), Sizes(1, {1, 2, 3, 4}, 100.0)}, 6);
  // One node: they take turns.
  EXPECT_NEAR(*curve[0].makespan_seconds, 500, 1e-9);
  EXPECT_NEAR(*curve[1].makespan_seconds, 400, 1e-9);
  EXPECT_NEAR(*curve[2].makespan_seconds, 200, 1e-9);
  EXPECT_NEAR(*curve[4].makespan_seconds, 100, 1e-9);
  // The longest has no larger size.
  EXPECT_NEAR(*curve[5].makespan_seconds, 100, 1e-9);
}

TEST(CapacityCurveTest, MakespanLeavesRoomForJobsOfUnknownLength) {
  const auto curve = Curve({Sizes(1, {1, 2}, 100.0), Sizes(1, {1, 2})}, 3);
  EXPECT_FALSE(curve[0].makespan_seconds.has_value());
  EXPECT_NEAR(*curve[1].makespan_seconds, 100, 1e-9);
  EXPECT_NEAR(*curve[2].makespan_seconds, 50, 1e-9);
}

TEST(CapacityCurveTest, OtherNodesShiftTheNumbersAndBoundTheMakespan) {
  const auto curve = MakeCapacityCurve({Sizes(1, {1, 2}, 100.0)},
                                       {.most_nodes = 2, .other_nodes = 3, .other_makespan_seconds = 70.0});
  EXPECT_EQ(curve[0].nodes, 4);
  EXPECT_NEAR(*curve[0].makespan_seconds, 100, 1e-9);
  EXPECT_NEAR(*curve[1].makespan_seconds, 70, 1e-9);
}

class RandomJobs {
 public:
  explicit RandomJobs(uint32_t seed) : random_(seed) {}

  // Concave or not, with gaps in the sizes.
  std::vector<CurveJob> Make(int count) {
    std::vector<CurveJob> jobs;
    for (int j = 0; j < count; ++j) {
      const int per_node = 1 << random_() % 3;
      CurveJob job;
      int replicas = 0;
      double speedup = 0;
      for (int k = 1 + static_cast<int>(random_() % 4); k > 0; --k) {
        const int more = 1 + static_cast<int>(random_() % 3);
        replicas += more;
        speedup += more * (0.05 + 0.95 * (random_() % 1000) / 1000.0);
        job.sizes.push_back({replicas, static_cast<double>(replicas) / per_node, speedup});
      }
      if (random_() % 3 > 0) job.remaining_seconds = 1 + random_() % 1000;
      jobs.push_back(job);
    }
    return jobs;
  }

 private:
  std::mt19937 random_;
};

// Goes through all choices of one size per job, or none.
class Exhaustive {
 public:
  Exhaustive(const std::vector<CurveJob>& jobs, int nodes) : jobs_(jobs), nodes_(nodes) {
    Try(0, 0, 0, 0, true);
  }
  double most_worth = 0;
  // Of those where all jobs run.
  double least_makespan = HUGE_VAL;

 private:
  void Try(size_t j, double nodes, double worth, double makespan, bool all) {
    if (nodes > nodes_ + 1e-9) return;
    if (j == jobs_.size()) {
      most_worth = std::max(most_worth, worth);
      if (all) least_makespan = std::min(least_makespan, makespan);
      return;
    }
    Try(j + 1, nodes, worth, makespan, false);
    for (const CurveSize& size : jobs_[j].sizes) {
      Try(j + 1, nodes + size.nodes, worth + size.nodes * size.speedup / size.replicas,
          std::max(makespan, jobs_[j].remaining_seconds.value_or(0) / size.speedup), all);
    }
  }

  const std::vector<CurveJob>& jobs_;
  const int nodes_;
};

// The most that one step of one job can gain, steps of no less use than the one before made into one.
double LargestStep(const std::vector<CurveJob>& jobs) {
  double largest = 0;
  for (const CurveJob& job : jobs) {
    const CurveSize& last = job.sizes.back();
    largest = std::max(largest, last.nodes * last.speedup / last.replicas);
  }
  return largest;
}

TEST(CapacityCurvePropertyTest, IsWithinOneStepOfTheBestChoiceAndExactForTheMakespan) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const std::vector<CurveJob> jobs = RandomJobs(seed).Make(1 + seed % 5);
    bool any_known = false;
    for (const CurveJob& job : jobs) any_known |= job.remaining_seconds.has_value();
    const auto curve = Curve(jobs, 12);
    for (const CapacityPoint& point : curve) {
      const Exhaustive best(jobs, point.nodes);
      const double worth = point.utility * point.nodes;
      EXPECT_LE(worth, best.most_worth + 1e-9) << seed << " " << point.nodes;
      EXPECT_GE(worth, best.most_worth - LargestStep(jobs) - 1e-9) << seed << " " << point.nodes;
      if (!any_known || best.least_makespan == HUGE_VAL) continue;
      ASSERT_TRUE(point.makespan_seconds.has_value()) << seed << " " << point.nodes;
      EXPECT_NEAR(*point.makespan_seconds, best.least_makespan, 1e-6) << seed << " " << point.nodes;
    }
  }
}

void CheckShape(const std::vector<CapacityPoint>& curve, const std::string& where) {
  double worth = 0;
  double marginal = HUGE_VAL;
  double makespan = HUGE_VAL;
  for (size_t i = 0; i < curve.size(); ++i) {
    const CapacityPoint& point = curve[i];
    if (i > 0) {
      ASSERT_EQ(point.nodes, curve[i - 1].nodes + 1) << where;
    }
    const int here = static_cast<int>(i) + 1;
    ASSERT_GE(point.utility * here, worth - 1e-9) << where << ": more nodes, less speed-up at " << here;
    ASSERT_LE(point.marginal_use, marginal) << where << " at " << here;
    ASSERT_LE(point.makespan_seconds.value_or(HUGE_VAL), makespan + 1e-9) << where << " at " << here;
    worth = point.utility * here;
    marginal = point.marginal_use;
    makespan = point.makespan_seconds.value_or(HUGE_VAL);
  }
}

TEST(CapacityCurvePropertyTest, MoreNodesNeverSpeedUpLess) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    CheckShape(Curve(RandomJobs(seed).Make(40), 60), absl::StrCat("seed ", seed));
    if (HasFatalFailure()) return;
  }
}

class PolicyCurveTest : public ::testing::Test {
 protected:
  CapacityDecision Decide(const ClusterView& view) { return GoodputPolicy({}).Decide(view, 1).capacity; }
};

TEST_F(PolicyCurveTest, SaysWhatOtherNumbersOfNodesWouldBring) {
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("a", 4), Job("b", 1)});
  view.jobs[0].remaining_seconds = 1200;
  const CapacityDecision decision = Decide(view);
  EXPECT_EQ(decision.start_nodes, 2);
  ASSERT_EQ(decision.curve.size(), 5u);
  EXPECT_NEAR(decision.curve[4].utility, 1, 1e-9);
  EXPECT_FALSE(decision.curve[0].makespan_seconds.has_value());
  EXPECT_NEAR(decision.curve[1].makespan_seconds.value(), 1200, 1e-9);
  EXPECT_NEAR(decision.curve[4].makespan_seconds.value(), 300, 1e-9);
}

TEST_F(PolicyCurveTest, OneSizeJobLeavesFurtherNodesUseless) {
  const CapacityDecision decision = Decide(View({Node("n0"), Node("n1"), Node("n2")}, {Job("a", 1)}));
  ASSERT_EQ(decision.curve.size(), 3u);
  EXPECT_NEAR(decision.curve[0].utility, 1, 1e-9);
  EXPECT_EQ(decision.curve[1].marginal_use, 0);
  EXPECT_NEAR(decision.curve[2].utility, 1.0 / 3, 1e-9);
}

TEST_F(PolicyCurveTest, APinnedJobKeepsItsSize) {
  ClusterView view = View({Node("n0"), Node("n1")}, {Job("a", 4)});
  view.jobs[0].allocation = {"n0"};
  view.jobs[0].preemptible = false;
  const CapacityDecision decision = Decide(view);
  ASSERT_EQ(decision.curve.size(), 2u);
  EXPECT_NEAR(decision.curve[0].utility, 1, 1e-9);
  EXPECT_NEAR(decision.curve[1].utility, 0.5, 1e-9);
}

TEST_F(PolicyCurveTest, WithoutNodesThereIsNoCurve) {
  const CapacityDecision decision = Decide(View({}, {Job("a", 4)}));
  EXPECT_EQ(decision.start_nodes, 1);
  EXPECT_TRUE(decision.curve.empty());
}

TEST_F(PolicyCurveTest, IsMadeWhenItIsAskedFor) {
  ClusterView view = View({Node("n0")}, {Job("a", 4)});
  const CapacityDecision asked = Decide(view);
  view.capacity_curve = false;
  const CapacityDecision decision = Decide(view);
  EXPECT_TRUE(decision.curve.empty());
  EXPECT_EQ(decision.desired_nodes, asked.desired_nodes);
  EXPECT_EQ(decision.start_nodes, asked.desired_nodes);
}

TEST_F(PolicyCurveTest, HasItsShapeOnRandomClusters) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    RandomCluster random(seed);
    const ClusterView view = random.Make();
    const CapacityDecision decision = Decide(view);
    CheckShape(decision.curve, absl::StrCat("seed ", seed));
    if (HasFatalFailure()) return;
    EXPECT_LE(decision.start_nodes, decision.desired_nodes) << seed;
    EXPECT_GE(decision.start_nodes, 0) << seed;
  }
}

}  // namespace
}  // namespace adaptdl::scheduling
