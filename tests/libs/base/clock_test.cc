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

TEST(ManualClockTest, WhoSetsItDoesNotMoveTheSteadyTime) {
  ManualClock clock(absl::FromUnixSeconds(10'000));
  clock.StepWall(-absl::Hours(1));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(6'400));
  EXPECT_EQ(clock.Steady(), absl::FromUnixSeconds(10'000));
  clock.Advance(absl::Seconds(1));
  const Moment now = clock.Both();
  EXPECT_EQ(now.wall, absl::FromUnixSeconds(6'401));
  EXPECT_EQ(now.steady, absl::FromUnixSeconds(10'001));
  // What is to be in ten seconds, for people and back.
  const absl::Time later = now.steady + absl::Seconds(10);
  EXPECT_EQ(now.ToWall(later), absl::FromUnixSeconds(6'411));
  EXPECT_EQ(now.ToSteady(now.ToWall(later)), later);
  EXPECT_EQ(now.ToWall(absl::InfinitePast()), absl::InfinitePast());
  EXPECT_EQ(now.ToSteady(absl::InfiniteFuture()), absl::InfiniteFuture());
}

TEST(RealClockTest, SteadyTimeGoesOn) {
  const absl::Time before = RealClock().Steady();
  EXPECT_GE(SteadyNow(), before);
}

TEST(RealClockTest, IsTheMachines) {
  const absl::Time before = absl::Now();
  const absl::Time now = RealClock().Now();
  EXPECT_GE(now, before);
}

}  // namespace
}  // namespace adaptdl
