#include "libs/nodepools/composition.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/nodepools/demands.h"

namespace adaptdl::nodepools {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

KindOffer Offer(double price, int most, int there = 0, absl::Duration start = absl::ZeroDuration()) {
  return {{{price, static_cast<double>(most)}}, there, start};
}

double CostAtOne(const std::vector<int>& nodes, const std::vector<double>&) {
  double cost = 0;
  for (const int count : nodes) cost += count;
  return cost;
}

Composition ComposeFor(const Target& target, const std::vector<JobView>& jobs,
                       const std::vector<KindOffer>& offers) {
  return Compose(target, jobs, offers, CostAtOne, kNow);
}

Target Band(double low, double high) {
  Target target;
  target.utility_low = low;
  target.utility_high = high;
  target.least_use = 0;
  return target;
}

TEST(CompositionTest, WithoutJobsNothingIsWanted) {
  for (const TargetMode mode :
       {TargetMode::kBand, TargetMode::kBudget, TargetMode::kDeadline, TargetMode::kCost}) {
    Target target;
    target.mode = mode;
    target.budget_per_hour = 10;
    target.goodput_per_price = 1;
    const Composition composition = ComposeFor(target, {}, {Offer(1, 10, 4)});
    EXPECT_THAT(composition.grow, ElementsAre(0)) << TargetModeName(mode);
    EXPECT_THAT(composition.keep, ElementsAre(0)) << TargetModeName(mode);
  }
}

TEST(CompositionTest, FromZeroEveryModeStartsWhatWaits) {
  for (const TargetMode mode :
       {TargetMode::kBand, TargetMode::kBudget, TargetMode::kDeadline, TargetMode::kCost}) {
    Target target;
    target.mode = mode;
    target.budget_per_hour = 10;
    target.goodput_per_price = 100;
    const Composition composition = ComposeFor(target, {Waiting("a", {On(0, 1)})}, {Offer(1, 10)});
    EXPECT_THAT(composition.grow, ElementsAre(1)) << TargetModeName(mode);
    EXPECT_EQ(composition.waiting_jobs, 1);
  }
}

TEST(CompositionTest, CostBuysWhatBringsEnoughAndKeepsALittleMore) {
  Target target;
  target.mode = TargetMode::kCost;
  // A node costs 2: it must bring 0.25. Speed-ups sqrt(k): the fourth brings 0.268, the fifth 0.236; kept down to 0.125.
  target.goodput_per_price = 0.125;
  const Composition composition =
      ComposeFor(target, {Running("a", {On(0, 32, 0.5)}, 0, 1)}, {Offer(2, 100, 1)});
  EXPECT_THAT(composition.grow, ElementsAre(4));
  EXPECT_THAT(composition.keep, ElementsAre(16));
}

TEST(CompositionTest, NothingIsBoughtForAJobThatEndsBeforeItIsThere) {
  Target target;
  target.mode = TargetMode::kCost;
  target.goodput_per_price = 0.01;
  JobView job = Running("a", {On(0, 8)}, 0, 1);
  job.demand.remaining_seconds = 100;
  EXPECT_THAT(ComposeFor(target, {job}, {Offer(1, 100, 1, absl::Seconds(180))}).grow, ElementsAre(1));
  EXPECT_THAT(ComposeFor(target, {job}, {Offer(1, 100, 1, absl::Seconds(10))}).grow, ElementsAre(8));
  // What is there already is used to the end.
  EXPECT_THAT(ComposeFor(target, {job}, {Offer(1, 100, 8, absl::Seconds(180))}).keep, ElementsAre(8));
}

TEST(CompositionTest, BandStaysWhereItIsWithin) {
  // Sqrt scaling: at 4 nodes the utility is 0.5.
  const std::vector<JobView> jobs = {Running("a", {On(0, 64, 0.5)}, 0, 2)};
  const Composition composition = ComposeFor(Band(0.35, 0.65), jobs, {Offer(1, 100, 4)});
  EXPECT_THAT(composition.grow, ElementsAre(4));
  EXPECT_THAT(composition.keep, ElementsAre(4));
  EXPECT_THAT(composition.utility.value(), DoubleNear(0.5, 1e-6));
  EXPECT_THAT(ComposeFor(Band(0.35, 0.65), jobs, {Offer(1, 100, 3)}).grow, ElementsAre(3));
}

TEST(CompositionTest, BandGoesToItsMiddleFromOutside) {
  const std::vector<JobView> jobs = {Running("a", {On(0, 64, 0.5)}, 0, 1)};
  EXPECT_THAT(ComposeFor(Band(0.35, 0.65), jobs, {Offer(1, 100, 1)}).grow, ElementsAre(4));
  EXPECT_THAT(ComposeFor(Band(0.35, 0.65), jobs, {Offer(1, 100, 40)}).keep, ElementsAre(4));
}

TEST(CompositionTest, BandAsksForNoNodeThatIsHardlyUsed) {
  Target target;
  target.least_use = 0.35;
  // The third of sqrt(k) brings 0.318.
  const std::vector<JobView> jobs = {Running("a", {On(0, 64, 0.5)}, 0, 1)};
  EXPECT_THAT(ComposeFor(target, jobs, {Offer(1, 100, 1)}).grow, ElementsAre(2));
}

TEST(CompositionTest, BudgetBuysAllThatIsWellUsedWithinIt) {
  Target target;
  target.mode = TargetMode::kBudget;
  target.budget_per_hour = 5;
  const std::vector<JobView> jobs = {Waiting("a", {On(0, 64)}), Waiting("b", {On(0, 64, 0.9)})};
  const Composition composition = ComposeFor(target, jobs, {Offer(1, 100)});
  EXPECT_LE(composition.grow[0], 5);
  EXPECT_GE(composition.grow[0], 2);
}

TEST(CompositionTest, BudgetThatIsTooSmallStartsThoseThatComeFirst) {
  Target target;
  target.mode = TargetMode::kBudget;
  target.budget_per_hour = 2;
  std::vector<JobView> jobs = {Waiting("a", {On(0, 1)}), Waiting("b", {On(0, 1)}), Waiting("c", {On(0, 1)})};
  jobs[2].demand.priority = 1;
  const Composition composition = ComposeFor(target, jobs, {Offer(1, 100)});
  EXPECT_THAT(composition.grow, ElementsAre(2));
  EXPECT_THAT(composition.reason, HasSubstr("too little for 1 of 3 jobs"));
}

TEST(CompositionTest, DeadlineBuysWhatLetsJobsEndInTime) {
  Target target;
  target.mode = TargetMode::kDeadline;
  target.deadline = kNow + absl::Seconds(1000);
  std::vector<JobView> jobs = {Waiting("a", {On(0, 64)}), Waiting("unknown", {On(0, 64)})};
  jobs[0].demand.remaining_seconds = 3800;
  // 3.8 times as fast as one replica, and a margin.
  EXPECT_THAT(ComposeFor(target, jobs, {Offer(1, 100)}).grow, ElementsAre(4 + 1));
}

TEST(CompositionTest, AJobsOwnDeadlineCountsInEveryMode) {
  Target target;
  target.mode = TargetMode::kCost;
  target.goodput_per_price = 1000;
  std::vector<JobView> jobs = {Waiting("a", {On(0, 64)})};
  jobs[0].demand.remaining_seconds = 3800;
  jobs[0].demand.deadline = kNow + absl::Seconds(1000);
  EXPECT_THAT(ComposeFor(target, jobs, {Offer(1, 100)}).grow, ElementsAre(4));
  jobs[0].demand.deadline = kNow - absl::Seconds(1);
  EXPECT_THAT(ComposeFor(target, jobs, {Offer(1, 100)}).grow, ElementsAre(64));
}

TEST(CompositionTest, JobsThatFitNoKindAreCounted) {
  Target target;
  const Composition composition =
      ComposeFor(target, {Waiting("a", {On(0, 1)}), Waiting("b", {})}, {Offer(1, 10)});
  EXPECT_EQ(composition.unplaced_jobs, 1);
  EXPECT_THAT(composition.grow, ElementsAre(1));
}

TEST(CompositionTest, PartsOfNodesArePackedTogether) {
  Target target;
  target.mode = TargetMode::kCost;
  target.goodput_per_price = 1000;
  std::vector<JobView> jobs;
  for (int i = 0; i < 6; ++i) jobs.push_back(Waiting("a", {On(0, 4, 1, 1, /*per_node=*/4)}));
  const Composition composition = ComposeFor(target, jobs, {Offer(1, 10)});
  EXPECT_THAT(composition.grow, ElementsAre(2));
  EXPECT_THAT(composition.floor, ElementsAre(DoubleNear(1.5, 1e-9)));
}

}  // namespace
}  // namespace adaptdl::nodepools
