#include "libs/base/clock.h"

#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"

namespace adaptdl {
namespace {

TEST(ManualClockTest, MovesOnlyWhenToldTo) {
  ManualClock clock(absl::FromUnixSeconds(100));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(100));
  clock.Advance(absl::Milliseconds(1500));
  EXPECT_EQ(clock.Now(), absl::FromUnixMillis(101'500));
}

TEST(RealClockTest, IsTheMachines) {
  const absl::Time before = absl::Now();
  const absl::Time now = RealClock().Now();
  EXPECT_GE(now, before);
}

}  // namespace
}  // namespace adaptdl
