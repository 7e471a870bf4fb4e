#include "libs/nodepools/market.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/nodepools/demands.h"

namespace adaptdl::nodepools {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

class MarketTest : public ::testing::Test {
 protected:
  void Add(scheduling::JobDemand demand, double worth, int present_kind = -1, double least_speedup = 0) {
    demands_.push_back(std::move(demand));
    worth_.push_back({nullptr, worth, present_kind, least_speedup});
  }

  Bargain Run(const std::vector<Supply>& supplies) {
    for (size_t j = 0; j < demands_.size(); ++j) worth_[j].demand = &demands_[j];
    return Trade(worth_, supplies);
  }

  std::vector<scheduling::JobDemand> demands_;
  std::vector<Buyer> worth_;
};

TEST_F(MarketTest, JobsTakeTheirSmallestSizeThoughItIsWorthNothing) {
  Add(Demand("a", {On(0, 8)}), 0);
  const Bargain bargain = Run({{{2, 100}}});
  EXPECT_THAT(bargain.nodes, ElementsAre(1));
  EXPECT_EQ(bargain.purchases[0].size, 0);
}

TEST_F(MarketTest, TheyGrowAsLongAsTheLastNodeIsWorthItsPrice) {
  // Speed-ups sqrt(k): the fourth node brings 0.268, the fifth 0.236.
  Add(Demand("a", {On(0, 16, 0.5)}), 1);
  EXPECT_THAT(Run({{{0.25, 100}}}).nodes, ElementsAre(4));
}

TEST_F(MarketTest, TheyGoWhereSpeedIsCheapest) {
  // Kind 1 is three times as fast at twice the price.
  Add(Demand("a", {On(0, 1), On(1, 1, 1, 3)}), 1);
  const Bargain bargain = Run({{{1, 10}}, {{2, 10}}});
  EXPECT_EQ(bargain.purchases[0].kind, 1);
  EXPECT_THAT(bargain.nodes, ElementsAre(0, 1));
}

TEST_F(MarketTest, AKindThatRunsOutIsLeftToThoseThatGainMostThere) {
  Add(Demand("gains little", {On(0, 1), On(1, 1, 1, 1.5)}), 10);
  Add(Demand("gains much", {On(0, 1), On(1, 1, 1, 3)}), 10);
  const Bargain bargain = Run({{{1, 10}}, {{1, 1}}});
  EXPECT_EQ(bargain.purchases[0].kind, 0);
  EXPECT_EQ(bargain.purchases[1].kind, 1);
}

TEST_F(MarketTest, NobodyTakesMoreThanThereIs) {
  Add(Demand("a", {On(0, 16)}), 100);
  Add(Demand("b", {On(0, 16, 0.5)}), 100);
  const Bargain bargain = Run({{{1, 6}}});
  EXPECT_THAT(bargain.nodes, ElementsAre(6));
}

TEST_F(MarketTest, ADearerTierIsUsedWhereItIsStillWorthIt) {
  Add(Demand("a", {On(0, 8, 0.5)}), 1);
  // Two for 0.1, then for 0.3: the third node brings 0.318, the fourth 0.268.
  EXPECT_THAT(Run({{{0.1, 2}, {0.3, 10}}}).nodes, ElementsAre(3));
  // Nothing beyond the cheap ones is worth 0.5, and these are all worth having.
  EXPECT_THAT(Run({{{0.1, 2}, {0.5, 10}}}).nodes, ElementsAre(DoubleNear(2, 1e-6)));
}

TEST_F(MarketTest, WhatMustBeFastEnoughTakesTheSizeForIt) {
  Add(Demand("a", {On(0, 16, 0.5)}), 0, -1, /*least_speedup=*/3);
  EXPECT_THAT(Run({{{1, 100}}}).nodes, ElementsAre(9));
}

TEST_F(MarketTest, WhatNoSizeIsFastEnoughForTakesTheFastest) {
  Add(Demand("a", {On(0, 4, 0.5)}), 0, -1, /*least_speedup=*/30);
  EXPECT_THAT(Run({{{1, 100}}}).nodes, ElementsAre(4));
}

TEST_F(MarketTest, AJobStaysOnItsKindForALittleGain) {
  Add(Demand("a", {On(0, 1), On(1, 1, 1, 1.02)}), 10, /*present_kind=*/0);
  EXPECT_EQ(Run({{{1, 10}}, {{1, 10}}}).purchases[0].kind, 0);
}

TEST_F(MarketTest, SmallestSizesThatDoNotFitAreWantedAllTheSame) {
  Add(Demand("a", {On(0, 4)}), 1);
  Add(Demand("b", {On(0, 4)}), 1);
  Add(Demand("c", {On(0, 4)}), 1);
  EXPECT_THAT(Run({{{1, 2}}}).nodes, ElementsAre(3));
}

TEST_F(MarketTest, ThoseThatCanGoElsewhereLeaveAKindThatIsTooSmall) {
  Add(Demand("can", {On(0, 1, 1, 2), On(1, 1)}), 1);
  Add(Demand("can not", {On(0, 1)}), 1);
  const Bargain bargain = Run({{{1, 1}}, {{1, 5}}});
  EXPECT_EQ(bargain.purchases[0].kind, 1);
  EXPECT_EQ(bargain.purchases[1].kind, 0);
}

TEST_F(MarketTest, AKindThatThereIsNoneOfIsTakenByNobody) {
  Add(Demand("a", {On(0, 1)}), 1);
  const Bargain bargain = Run({{}});
  EXPECT_EQ(bargain.purchases[0].kind, -1);
  EXPECT_THAT(bargain.nodes, ElementsAre(0));
}

}  // namespace
}  // namespace adaptdl::nodepools
