#include "libs/nodepools/split.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/nodepools/demands.h"

namespace adaptdl::nodepools {
namespace {

using ::testing::ElementsAre;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

std::vector<Pool> SpotAndLasting() {
  return {MakePool("lasting", 8, 0, 1.0), MakePool("spot", 4, 0, 0.3, true)};
}

TEST(SplitTest, TheCheapestPoolComesFirst) {
  EXPECT_THAT(SplitNodes(SpotAndLasting(), {6}, {2}, {0}, {false, kNow}), ElementsAre(2, 4));
}

TEST(SplitTest, WhatJobsNeedAtLeastIsOnNodesThatLast) {
  EXPECT_THAT(SplitNodes(SpotAndLasting(), {6}, {2.5}, {0}, {true, kNow}), ElementsAre(3, 3));
}

TEST(SplitTest, NodesOutsideThePoolsCountAndLast) {
  EXPECT_THAT(SplitNodes(SpotAndLasting(), {6}, {2.5}, {3}, {true, kNow}), ElementsAre(0, 3));
}

TEST(SplitTest, MinimaAreKept) {
  std::vector<Pool> pools = SpotAndLasting();
  pools[0].min_nodes = 2;
  EXPECT_THAT(SplitNodes(pools, {0}, {0}, {0}, {false, kNow}), ElementsAre(2, 0));
  EXPECT_THAT(SplitNodes(pools, {5}, {1}, {0}, {true, kNow}), ElementsAre(2, 3));
}

TEST(SplitTest, APoolWithoutCapacityKeepsWhatItHasAndTheNextOneStandsIn) {
  std::vector<Pool> pools = {MakePool("lasting", 8, 0, 1.0), MakePool("spot", 4, 1, 0.3, true)};
  pools[1].refused_until = kNow + absl::Seconds(1);
  EXPECT_THAT(SplitNodes(pools, {4}, {0}, {0}, {false, kNow}), ElementsAre(3, 1));
  EXPECT_THAT(SplitNodes(pools, {4}, {0}, {0}, {false, kNow + absl::Seconds(1)}), ElementsAre(0, 4));
}

TEST(SplitTest, NoPoolIsGivenMoreThanItMayHave) {
  EXPECT_THAT(SplitNodes(SpotAndLasting(), {100}, {50}, {0}, {true, kNow}), ElementsAre(8, 4));
}

TEST(SplitTest, PoolsOfEqualPriceThatLastComeFirst) {
  const std::vector<Pool> pools = {MakePool("spot", 4, 0, -1, true), MakePool("lasting", 4)};
  EXPECT_THAT(SplitNodes(pools, {5}, {0}, {0}, {false, kNow}), ElementsAre(1, 4));
}

TEST(SplitTest, SuppliesNameTheCheapestFirstAndWhatCostsNothing) {
  const std::vector<Supply> supplies = SuppliesOf(SpotAndLasting(), {2}, kNow);
  ASSERT_EQ(supplies[0].size(), 3u);
  EXPECT_EQ(supplies[0][0].price, 0);
  EXPECT_EQ(supplies[0][1].price, 0.3);
  EXPECT_EQ(supplies[0][2].nodes, 8);
}

}  // namespace
}  // namespace adaptdl::nodepools
