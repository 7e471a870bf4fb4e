#include "services/autoscaler/capacity_target.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

Demand UtilityOf(const std::vector<double>& utilities, int desired, int start = 1) {
  Demand demand{desired, "jobs", start};
  for (size_t i = 0; i < utilities.size(); ++i) {
    demand.points.push_back({static_cast<int>(i) + 1, utilities[i]});
  }
  return demand;
}

int Choose(const CapacityTarget& target, const Demand& demand, int current) {
  return ChooseSize(target, demand, current, kNow).nodes;
}

TEST(BandTest, StaysWithinTheBand) {
  const Demand demand = UtilityOf({1, 0.8, 0.64, 0.5, 0.36, 0.3}, 6);
  for (const int nodes : {3, 4, 5}) EXPECT_EQ(Choose({}, demand, nodes), nodes);
}

TEST(BandTest, GoesToTheMiddleFromOutside) {
  const Demand demand = UtilityOf({1, 0.8, 0.64, 0.5, 0.36, 0.3}, 6);
  EXPECT_EQ(Choose({}, demand, 1), 4);
  EXPECT_EQ(Choose({}, demand, 2), 4);
  EXPECT_EQ(Choose({}, demand, 6), 4);
  EXPECT_EQ(Choose({}, demand, 20), 4);
  EXPECT_EQ(Choose({}, demand, 0), 4);
}

TEST(BandTest, OfEquallyGoodSizesTakesTheLargest) {
  EXPECT_EQ(Choose({}, UtilityOf({0.9, 0.5, 0.5, 0.4}, 4), 1), 3);
  EXPECT_EQ(Choose({}, UtilityOf({1, 1, 1}, 3), 1), 3);
}

TEST(BandTest, AsksForNoNodeThatWouldBeOfHardlyAnyUse) {
  // One job of one size: a second node would bring utility 0.5, and nothing else.
  EXPECT_EQ(Choose({}, UtilityOf({1, 0.5}, 1), 1), 1);
  EXPECT_EQ(Choose({}, UtilityOf({1, 0.5}, 1), 2), 1);
}

TEST(BandTest, JobsThatWaitGetTheirNodes) {
  // Below the band, and yet no smaller.
  EXPECT_EQ(Choose({}, UtilityOf({0.6, 0.5, 0.4, 0.3}, 4, 4), 2), 4);
  EXPECT_EQ(Choose({}, UtilityOf({0.6, 0.5, 0.4, 0.3}, 4, 4), 6), 4);
}

TEST(BandTest, WithoutAUsefulSizeKeepsWhatJobsNeedToStart) {
  EXPECT_EQ(Choose({}, UtilityOf({0.2, 0.15, 0.1}, 3, 2), 3), 2);
  EXPECT_EQ(Choose({}, UtilityOf({0, 0}, 0, 0), 2), 0);
}

TEST(BandTest, WithoutACurveFollowsTheAllocator) {
  const TargetSize size = ChooseSize({}, Demand{7, "jobs"}, 2, kNow);
  EXPECT_EQ(size.nodes, 7);
  EXPECT_THAT(size.note, IsEmpty());
}

TEST(BandTest, SaysWhyItIsNotWhatTheAllocatorWouldUse) {
  const Demand demand = UtilityOf({1, 0.8, 0.64, 0.5, 0.36, 0.3}, 6);
  EXPECT_EQ(ChooseSize({}, demand, 2, kNow).note, "4 nodes for a utility of 0.50, the band is 0.35 to 0.65");
  EXPECT_THAT(ChooseSize({}, UtilityOf({1, 0.5}, 1), 1, kNow).note, IsEmpty());
}

TEST(UtilityTest, FallsBeyondTheCurve) {
  Demand demand = UtilityOf({1, 0.5}, 1);
  EXPECT_DOUBLE_EQ(*UtilityAt(demand, 4), 0.25);
  EXPECT_FALSE(UtilityAt(demand, 0).has_value());
  EXPECT_FALSE(UtilityAt(Demand{1, ""}, 1).has_value());
  // Three nodes of another kind are part of every size.
  for (SizePoint& point : demand.points) point.nodes += 3;
  EXPECT_DOUBLE_EQ(*UtilityAt(demand, 4), 1);
  EXPECT_DOUBLE_EQ(*UtilityAt(demand, 7), 0.25);
}

// Curves as the allocator makes them: what all nodes bring together never falls.
class RandomDemand {
 public:
  explicit RandomDemand(uint32_t seed) : random_(seed) {}

  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  double Real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }

  Demand Make() {
    std::vector<double> utilities;
    double worth = 0;
    const int count = Int(0, 20);
    for (int n = 1; n <= count; ++n) {
      worth = std::min<double>(n, worth + (Int(0, 3) == 0 ? 0 : Real(0, 1.5)));
      utilities.push_back(worth / n);
    }
    const int desired = Int(0, 20);
    return UtilityOf(utilities, desired, Int(0, desired));
  }

 private:
  std::mt19937 random_;
};

TEST(BandPropertyTest, StaysWhereItWentAndWithinWhatIsUseful) {
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    RandomDemand random(seed);
    const Demand demand = random.Make();
    CapacityTarget target;
    target.utility_low = random.Real(0.05, 0.6);
    target.utility_high = target.utility_low + random.Real(0.01, 0.39);
    ASSERT_TRUE(CheckTarget(target, 0).ok());
    const int current = random.Int(0, 25);
    const int first = Choose(target, demand, current);
    EXPECT_GE(first, demand.start_nodes) << seed;
    EXPECT_LE(first, demand.desired_nodes) << seed;
    EXPECT_EQ(Choose(target, demand, first), first) << seed << " from " << current;
  }
}

class DeadlineTest : public ::testing::Test {
 protected:
  DeadlineTest() { target_.mode = TargetMode::kDeadline; }

  // One to four nodes end in 8 h, 4 h, 3 h, 3 h.
  Demand Work(int start = 1) {
    Demand demand = UtilityOf({1, 1, 0.9, 0.7}, 2, start);
    for (int i = 0; i < 4; ++i) demand.points[i].makespan = absl::Hours(i == 0 ? 8 : i == 1 ? 4 : 3);
    return demand;
  }

  TargetSize Within(absl::Duration time, const Demand& demand) {
    target_.deadline = kNow + time;
    return ChooseSize(target_, demand, 1, kNow);
  }

  CapacityTarget target_;
};

TEST_F(DeadlineTest, TakesTheFewestNodesThatAreInTime) {
  EXPECT_EQ(Within(absl::Hours(9), Work()).nodes, 1);
  EXPECT_EQ(Within(absl::Hours(8), Work()).nodes, 1);
  EXPECT_EQ(Within(absl::Hours(5), Work()).nodes, 2);
  // More than the allocator would make good use of.
  EXPECT_EQ(Within(absl::Hours(3), Work()).nodes, 3);
  EXPECT_EQ(Within(absl::Hours(5), Work()).note, "2 nodes to end in 4h, the deadline is in 5h");
}

TEST_F(DeadlineTest, TooLateItTakesTheFewestThatEndEarliest) {
  EXPECT_EQ(Within(absl::Hours(2), Work()).nodes, 3);
  EXPECT_THAT(Within(absl::Hours(2), Work()).note, HasSubstr("too late for the deadline in 2h"));
  EXPECT_EQ(Within(-absl::Hours(2), Work()).nodes, 3);
  EXPECT_THAT(Within(-absl::Hours(2), Work()).note, HasSubstr("the deadline has passed"));
}

TEST_F(DeadlineTest, JobsThatWaitGetTheirNodes) { EXPECT_EQ(Within(absl::Hours(9), Work(3)).nodes, 3); }

TEST_F(DeadlineTest, SizesAtWhichJobsCannotRunAreNone) {
  Demand demand = Work();
  demand.points[0].makespan.reset();
  EXPECT_EQ(Within(absl::Hours(9), demand).nodes, 2);
}

TEST_F(DeadlineTest, WithoutKnownWorkFollowsTheAllocator) {
  const TargetSize size = Within(absl::Hours(1), UtilityOf({1, 0.5}, 2));
  EXPECT_EQ(size.nodes, 2);
  EXPECT_THAT(size.note, HasSubstr("no job says how much work it has left"));
}

TEST_F(DeadlineTest, EarlierDeadlinesNeverTakeFewerNodes) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    RandomDemand random(seed);
    Demand demand = random.Make();
    double hours = 100;
    for (SizePoint& point : demand.points) {
      if (random.Int(0, 4) == 0 && hours == 100) continue;
      hours = random.Real(hours / 2, hours);
      point.makespan = absl::Hours(hours);
    }
    int last = 0;
    for (const int left : {120, 60, 30, 10, 3, 1}) {
      const int nodes = Within(absl::Hours(left), demand).nodes;
      EXPECT_GE(nodes, last) << seed << " " << left;
      last = nodes;
    }
  }
}

TEST(BudgetTest, PaysForWholeNodes) {
  CapacityTarget target;
  EXPECT_FALSE(NodesInBudget(target).has_value());
  target.mode = TargetMode::kBudget;
  target.node_price_per_hour = 0.1;
  for (const auto& [budget, nodes] : {std::pair{0.3, 3}, {0.39, 3}, {0.05, 0}, {1e12, 1'000'000}}) {
    target.budget_per_hour = budget;
    EXPECT_EQ(*NodesInBudget(target), nodes) << budget;
  }
}

TEST(BudgetTest, AsksForWhatIsMadeGoodUseOf) {
  CapacityTarget target;
  target.mode = TargetMode::kBudget;
  EXPECT_EQ(Choose(target, UtilityOf({0.2, 0.2, 0.2}, 2), 3), 2);
}

TEST(CheckTargetTest, SaysWhichFlagIsWrong) {
  const auto error = [](const CapacityTarget& target, int min_nodes = 1) {
    return std::string(CheckTarget(target, min_nodes).message());
  };
  EXPECT_THAT(error({}), IsEmpty());
  CapacityTarget target;
  target.utility_low = 0.7;
  EXPECT_THAT(error(target), HasSubstr("--utility-low 0.7 and --utility-high 0.65"));
  target.utility_low = 0;
  EXPECT_THAT(error(target), HasSubstr("0 < low < high <= 1"));
  target = {};
  target.utility_high = 1.5;
  EXPECT_THAT(error(target), HasSubstr("--utility-high 1.5"));
  target = {};
  target.node_price_per_hour = -1;
  EXPECT_THAT(error(target), HasSubstr("--node-price-per-hour -1"));
  target = {};
  target.mode = TargetMode::kBudget;
  EXPECT_THAT(error(target), HasSubstr("needs --budget-per-hour and --node-price-per-hour"));
  target.budget_per_hour = 2;
  target.node_price_per_hour = 0.6;
  EXPECT_THAT(error(target, 3), IsEmpty());
  EXPECT_THAT(error(target, 4), HasSubstr("pays for 3 nodes, --min-nodes is 4"));
}

}  // namespace
}  // namespace adaptdl::autoscaler
