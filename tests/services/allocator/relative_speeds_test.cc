#include "services/allocator/relative_speeds.h"

#include <optional>

#include "gtest/gtest.h"

namespace adaptdl::allocator {
namespace {

TEST(RelativeSpeeds, AreTheMedianOfTheJobsThatKnowBoth) {
  RelativeSpeeds speeds;
  EXPECT_EQ(speeds.Ratio("a", "b"), std::nullopt);
  speeds.Add({{"a", 1.0}});
  EXPECT_EQ(speeds.Ratio("a", "b"), std::nullopt);
  speeds.Add({{"a", 2.0}, {"b", 1.0}});
  speeds.Add({{"a", 3.0}, {"b", 1.0}});
  speeds.Add({{"a", 1000.0}, {"b", 1.0}});
  EXPECT_NEAR(*speeds.Ratio("a", "b"), 3, 0.08);
  EXPECT_NEAR(*speeds.Ratio("b", "a"), 1 / 3.0, 0.01);
  EXPECT_DOUBLE_EQ(*speeds.Ratio("a", "a"), 1);
}

TEST(RelativeSpeeds, GoByWayOfOtherTypes) {
  RelativeSpeeds speeds;
  speeds.Add({{"a", 4.0}, {"b", 2.0}});
  speeds.Add({{"b", 3.0}, {"c", 1.0}});
  speeds.Add({{"x", 1.0}, {"y", 1.0}});
  EXPECT_NEAR(*speeds.Ratio("a", "c"), 6, 0.16);
  EXPECT_EQ(speeds.Ratio("a", "x"), std::nullopt);
}

TEST(RelativeSpeeds, NoiseChangesNothing) {
  RelativeSpeeds one;
  one.Add({{"a", 2.01}, {"b", 1.0}});
  RelativeSpeeds other;
  other.Add({{"a", 2.0}, {"b", 1.001}});
  EXPECT_EQ(one.Ratio("a", "b"), other.Ratio("a", "b"));
}

}  // namespace
}  // namespace adaptdl::allocator
