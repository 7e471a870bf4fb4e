#include "libs/nodepools/refusals.h"

#include "gtest/gtest.h"

namespace adaptdl::nodepools {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

TEST(RefusalsTest, PausesDoubleUpToTheLongest) {
  Refusals refusals({absl::Seconds(30), absl::Seconds(100)});
  absl::Time now = kNow;
  for (const int pause : {30, 60, 100, 100}) {
    refusals.Refused("spot", "none left", now);
    EXPECT_EQ(refusals.Of("spot")->until, now + absl::Seconds(pause));
    now = refusals.Of("spot")->until;
  }
  EXPECT_EQ(refusals.Of("spot")->since, kNow);
  EXPECT_EQ(refusals.Of("spot")->why, "none left");
  EXPECT_FALSE(refusals.Of("other").has_value());
}

TEST(RefusalsTest, APoolThatGivesBeginsAnew) {
  Refusals refusals({absl::Seconds(30), absl::Seconds(100)});
  refusals.Refused("spot", "none left", kNow);
  refusals.Refused("spot", "none left", kNow);
  refusals.Gave("spot");
  EXPECT_FALSE(refusals.Of("spot").has_value());
  refusals.Refused("spot", "none left", kNow);
  EXPECT_EQ(refusals.Of("spot")->until, kNow + absl::Seconds(30));
}

}  // namespace
}  // namespace adaptdl::nodepools
