#include "services/supervisor/history/series.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::supervisor {
namespace {

using messages::ToTime;

v1::TrainingProgress ProgressOf(double throughput, int64_t steps = 0) {
  v1::TrainingProgress progress;
  progress.set_throughput(throughput);
  progress.set_efficiency(0.5);
  progress.set_total_batch_size(64);
  progress.set_optimizer_steps(steps);
  progress.set_fraction(0.25);
  return progress;
}

void Report(double value, int64_t step, v1::TrainingProgress* progress) {
  v1::ReportedMetric* metric = progress->add_metrics();
  metric->set_name("loss");
  metric->set_value(value);
  metric->set_step(step);
}

class SeriesTest : public testing::Test {
 protected:
  void Be(v1::JobPhase phase, int replicas) {
    series_.Observe(clock_.Both(), Allocation{replicas, replicas, phase});
  }
  void Say(const v1::TrainingProgress& progress) { series_.Observe(clock_.Both(), progress); }
  // As the supervisor's step does.
  void Pass(int seconds) {
    for (; seconds > 0; --seconds) {
      clock_.Advance(absl::Seconds(1));
      series_.Advance(clock_.Both());
    }
  }
  void ExpectOrder() const {
    absl::Time end = absl::InfinitePast();
    for (const v1::HistoryPoint& point : series_.points()) {
      EXPECT_GE(ToTime(point.begin()), end);
      EXPECT_GT(ToTime(point.end()), ToTime(point.begin()));
      end = ToTime(point.end());
    }
  }

  ManualClock clock_;
  Series series_{clock_.Both(), Counts()};
};

TEST_F(SeriesTest, APointIsWhatWasSoInItsSecond) {
  Be(v1::JOB_PHASE_RUNNING, 2);
  Say(ProgressOf(100));
  clock_.Advance(absl::Milliseconds(500));
  Say(ProgressOf(200, 10));
  Be(v1::JOB_PHASE_RESCALING, 4);
  clock_.Advance(absl::Milliseconds(500));
  series_.Advance(clock_.Both());
  ASSERT_EQ(series_.points().size(), 1u);
  const v1::HistoryPoint& point = series_.points()[0];
  EXPECT_DOUBLE_EQ(point.throughput(), 150);
  EXPECT_DOUBLE_EQ(point.goodput(), 75);
  EXPECT_DOUBLE_EQ(point.replicas(), 3);
  EXPECT_DOUBLE_EQ(point.total_batch_size(), 64);
  EXPECT_EQ(point.optimizer_steps(), 10);
  EXPECT_EQ(point.fraction(), 0.25);
  EXPECT_EQ(ToTime(point.end()), clock_.Now());
}

TEST_F(SeriesTest, AWaitIsOnePointHoweverLong) {
  Be(v1::JOB_PHASE_PENDING, 0);
  Pass(10'000);
  EXPECT_TRUE(series_.points().empty()) << "nothing happens";
  Be(v1::JOB_PHASE_RUNNING, 1);
  Pass(2);
  ASSERT_EQ(series_.points().size(), 3u);
  EXPECT_EQ(SpanOf(series_.points()[0]), absl::Seconds(10'000));
  EXPECT_EQ(series_.points()[0].replicas(), 0);
  EXPECT_EQ(series_.points()[0].fraction(), -1) << "unknown";
  EXPECT_EQ(series_.points()[1].replicas(), 1);
}

TEST_F(SeriesTest, FiguresOfTrainingEndWithIt) {
  Be(v1::JOB_PHASE_RUNNING, 1);
  Say(ProgressOf(100, 5));
  Pass(1);
  Be(v1::JOB_PHASE_STOPPING, 1);
  Pass(1);
  EXPECT_EQ(series_.points().back().throughput(), 0);
  Say(ProgressOf(100, 6));
  Pass(1);
  EXPECT_EQ(series_.points().back().throughput(), 0) << "the last words of a group that is being stopped";
  EXPECT_EQ(series_.points().back().optimizer_steps(), 6);
}

TEST_F(SeriesTest, ADayStaysWithinItsBound) {
  Be(v1::JOB_PHASE_RUNNING, 1);
  for (int second = 0; second < 24 * 3600; second += 2) {
    Say(ProgressOf(100 + second % 7, second));
    Pass(2);
  }
  EXPECT_LE(series_.points().size(), kMostPoints);
  EXPECT_GE(series_.points().size(), kMostPoints / 4);
  EXPECT_GE(series_.resolution(), absl::Seconds(128));
  EXPECT_EQ(ToTime(series_.points().front().begin()), clock_.Now() - absl::Hours(24));
  EXPECT_GE(series_.points().back().optimizer_steps(), 24 * 3600 - 2 - 256);
  EXPECT_NEAR(series_.points()[3].throughput(), 103, 0.5);
  ExpectOrder();
}

TEST_F(SeriesTest, AReportOfAMetricCountsOnce) {
  Be(v1::JOB_PHASE_RUNNING, 1);
  v1::TrainingProgress progress = ProgressOf(1);
  Report(4, 10, &progress);
  Say(progress);
  Say(progress);
  progress.clear_metrics();
  Report(1, 20, &progress);
  Say(progress);
  Pass(1);
  ASSERT_EQ(series_.points().back().metrics_size(), 1);
  EXPECT_DOUBLE_EQ(series_.points().back().metrics(0).value(), 2.5);
  Say(progress);
  Pass(1);
  EXPECT_EQ(series_.points().back().metrics_size(), 0) << "nothing new was reported in it";
}

TEST_F(SeriesTest, MetricsUnderEverNewNamesTakeNoRoom) {
  Be(v1::JOB_PHASE_RUNNING, 1);
  for (int i = 0; i < 1000; ++i) {
    v1::TrainingProgress progress = ProgressOf(1);
    Report(i, i, &progress);
    progress.mutable_metrics(0)->set_name(absl::StrCat("loss-", i));
    Say(progress);
  }
  Pass(1);
  EXPECT_EQ(series_.points().back().metrics_size(), 16);
}

TEST_F(SeriesTest, TheLastWordsOfAJobCountForItsEnd) {
  Be(v1::JOB_PHASE_RUNNING, 1);
  v1::TrainingProgress progress = ProgressOf(10, 100);
  Report(2, 100, &progress);
  Say(progress);
  Pass(1);
  clock_.Advance(absl::Milliseconds(100));
  Be(v1::JOB_PHASE_SUCCEEDED, 0);
  EXPECT_TRUE(series_.finished());
  progress.set_optimizer_steps(120);
  progress.mutable_metrics(0)->set_value(1);
  progress.mutable_metrics(0)->set_step(120);
  Say(progress);
  Pass(10);
  ASSERT_EQ(series_.points().size(), 2u);
  EXPECT_EQ(series_.points().back().optimizer_steps(), 120);
  EXPECT_EQ(series_.points().back().metrics(0).value(), 1);
  EXPECT_EQ(series_.changes().last().allocation.phase, v1::JOB_PHASE_SUCCEEDED);
}

TEST_F(SeriesTest, AClockThatIsSetBackDoesNotReverseTime) {
  Be(v1::JOB_PHASE_RUNNING, 1);
  Pass(10);
  clock_.StepWall(-absl::Hours(1));
  Be(v1::JOB_PHASE_RESCALING, 2);
  Pass(10);
  ExpectOrder();
  EXPECT_EQ(series_.points().size(), 20u);
  EXPECT_EQ(series_.points().back().replicas(), 2);
  EXPECT_GE(series_.changes().last().time, ToTime(series_.points()[9].end()));
  Pass(2 * 3600);
  ExpectOrder();
  EXPECT_LE(ToTime(series_.points().back().end()), clock_.Now()) << "it has caught up";
}

TEST_F(SeriesTest, AClockThatIsSetForwardLeavesAGap) {
  Be(v1::JOB_PHASE_RUNNING, 1);
  Pass(2);
  clock_.StepWall(absl::Hours(1));
  Pass(2);
  ExpectOrder();
  ASSERT_EQ(series_.points().size(), 4u);
  EXPECT_LE(SpanOf(series_.points()[2]), absl::Seconds(6)) << "no more time has passed";
  EXPECT_EQ(ToTime(series_.points()[3].begin()), clock_.Now() - absl::Seconds(1));
}

TEST_F(SeriesTest, ExtremeReportsLeavePointsInOrder) {
  Be(v1::JOB_PHASE_RUNNING, 1);
  for (const double value : {1e308, -1e308, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(), 5e-324}) {
    v1::TrainingProgress progress = ProgressOf(value, std::numeric_limits<int64_t>::max());
    progress.set_efficiency(value);
    progress.set_gradient_noise_scale(value);
    progress.set_learning_rate_factor(value);
    progress.set_scale_invariant_steps(value);
    progress.set_fraction(value);
    progress.mutable_step_times()->set_compute(value);
    Report(value, std::numeric_limits<int64_t>::min(), &progress);
    Say(progress);
    Pass(1);
    const v1::HistoryPoint& point = series_.points().back();
    EXPECT_TRUE(std::isfinite(point.throughput()));
    EXPECT_TRUE(std::isfinite(point.goodput()));
    EXPECT_TRUE(std::isfinite(point.step_times().compute()));
    EXPECT_TRUE(std::isfinite(point.scale_invariant_steps()));
    EXPECT_LE(point.fraction(), 1);
    ASSERT_EQ(point.metrics_size(), 1);
    EXPECT_EQ(std::isnan(point.metrics(0).value()), std::isnan(value)) << "shown as it is";
  }
  ExpectOrder();
}

TEST_F(SeriesTest, FollowsWhatIsThereFromBefore) {
  Be(v1::JOB_PHASE_RUNNING, 2);
  Pass(3);
  AllocationChanges earlier;
  earlier.Add(clock_.Now() - absl::Hours(1), {1, 1, v1::JOB_PHASE_RUNNING});
  // The other machine's clock was ahead.
  series_.Follow(earlier, clock_.Now() - absl::Seconds(2), absl::Seconds(4));
  EXPECT_EQ(series_.points().size(), 2u);
  EXPECT_EQ(series_.resolution(), absl::Seconds(4));
  EXPECT_EQ(series_.changes().size(), 2u);
  series_.TakeAway(clock_.Now());
  EXPECT_TRUE(series_.points().empty());
}

TEST_F(SeriesTest, MakesDoWithLess) {
  Be(v1::JOB_PHASE_RUNNING, 1);
  Pass(400);
  const size_t before = series_.bytes();
  series_.Limit(50, 2);
  EXPECT_LE(series_.points().size(), 50u);
  EXPECT_LT(series_.bytes(), before / 4);
  Pass(100);
  ExpectOrder();
}

}  // namespace
}  // namespace adaptdl::supervisor
