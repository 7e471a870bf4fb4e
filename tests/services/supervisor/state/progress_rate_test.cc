#include "services/supervisor/state/progress_rate.h"

#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1000);

absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

TEST(ProgressRateTest, TwoReportsMakeARate) {
  ProgressRate rate;
  EXPECT_FALSE(rate.Observe(1, 0.1, At(0)).has_value());
  EXPECT_EQ(rate.Observe(1, 0.1, At(1)), std::nullopt) << "nothing was done";
  EXPECT_NEAR(absl::ToDoubleSeconds(rate.Observe(1, 0.2, At(10)).value()), 80, 1e-6);
  EXPECT_NEAR(absl::ToDoubleSeconds(rate.Observe(1, 1.0, At(50)).value()), 0, 1e-6);
}

TEST(ProgressRateTest, ANewGroupTakesOverTheRateOfTheOneBeforeAtFirst) {
  ProgressRate rate;
  rate.Observe(1, 0, At(0));
  rate.Observe(1, 0.1, At(10));  // a hundredth per second
  EXPECT_NEAR(absl::ToDoubleSeconds(rate.Observe(2, 0.1, At(11)).value()), 90, 1e-6);
  // Half a second in which almost nothing was done is no reason to believe in an hour.
  EXPECT_LT(rate.Observe(2, 0.1001, At(11.5)).value(), absl::Seconds(110));
  // Twice as fast, and after a while that is what counts.
  EXPECT_NEAR(absl::ToDoubleSeconds(rate.Observe(2, 0.7, At(41)).value()), 0.3 / 0.02, 3);
}

TEST(ProgressRateTest, WorkThatIsDoneAgainBeginsAnew) {
  ProgressRate rate;
  rate.Observe(1, 0.5, At(0));
  rate.Observe(1, 0.6, At(1));
  EXPECT_FALSE(rate.Observe(1, 0.2, At(2)).has_value());
  EXPECT_NEAR(absl::ToDoubleSeconds(rate.Observe(1, 0.3, At(12)).value()), 70, 1e-6);
}

TEST(ProgressRateTest, ClocksMayBeSetBackAndRatesMayBeNone) {
  ProgressRate rate;
  rate.Observe(1, 0.1, At(100));
  rate.Observe(1, 0.2, At(110));
  EXPECT_NEAR(absl::ToDoubleSeconds(rate.Observe(1, 0.2, At(0)).value()), 80, 1e-6);
  ProgressRate slow;
  slow.Observe(1, 0, At(0));
  EXPECT_FALSE(slow.Observe(1, 1e-12, At(100)).has_value());
}

}  // namespace
}  // namespace adaptdl::supervisor
