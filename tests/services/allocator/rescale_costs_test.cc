#include "services/allocator/rescale_costs.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace adaptdl::allocator {
namespace {

TEST(RescaleCosts, BeforeAnythingIsKnownInPlaceIsShort) {
  const RescaleCosts costs;
  EXPECT_EQ(costs.Expect(true), 1);
  EXPECT_EQ(costs.Expect(false), 10);
}

TEST(RescaleCosts, TheMedianOfItsKind) {
  RescaleCosts costs;
  costs.Learn("a", {.in_place = true, .seconds = 0.2});
  EXPECT_EQ(costs.Expect(true), 0.2);
  EXPECT_EQ(costs.Expect(false), 10);
  costs.Learn("b", {.in_place = true, .seconds = 0.4});
  costs.Learn("c", {.in_place = true, .seconds = 60});
  costs.Learn("d", {.in_place = false, .seconds = 40});
  EXPECT_EQ(costs.Expect(true), 0.4);
  EXPECT_EQ(costs.Expect(false), 40);
  // Newer figures of the same job.
  costs.Learn("c", {.in_place = true, .seconds = 0.3});
  EXPECT_EQ(costs.Expect(true), 0.3);
}

TEST(RescaleCosts, WhatIsOldIsForgotten) {
  RescaleCosts costs;
  for (int i = 0; i < 1000; ++i) costs.Learn(absl::StrCat("old-", i), {.in_place = true, .seconds = 9});
  for (int i = 0; i < 1000; ++i) costs.Learn(absl::StrCat("new-", i), {.in_place = true, .seconds = 2});
  EXPECT_EQ(costs.Expect(true), 2);
}

}  // namespace
}  // namespace adaptdl::allocator
