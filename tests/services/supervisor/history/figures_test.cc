#include "services/supervisor/history/figures.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/messages/proto_time.h"
#include "services/supervisor/history/allocation_changes.h"

namespace adaptdl::supervisor {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = std::numeric_limits<double>::max();

absl::Time At(double seconds) { return absl::FromUnixSeconds(1000) + absl::Seconds(seconds); }

v1::HistoryPoint PointOf(double begin, double end, double throughput = 0) {
  v1::HistoryPoint point;
  *point.mutable_begin() = messages::ToProto(At(begin));
  *point.mutable_end() = messages::ToProto(At(end));
  point.set_replicas(1);
  point.set_throughput(throughput);
  return point;
}

void AddMetric(const std::string& name, double value, int64_t step, v1::HistoryPoint* point) {
  v1::ReportedMetric* metric = point->add_metrics();
  metric->set_name(name);
  metric->set_value(value);
  metric->set_step(step);
}

std::vector<v1::HistoryPoint> Seconds(int count) {
  std::vector<v1::HistoryPoint> points;
  for (int i = 0; i < count; ++i) points.push_back(PointOf(i, i + 1, i + 1));
  return points;
}

TEST(FiguresTest, PointsAreMergedByTheirTimes) {
  v1::HistoryPoint a = PointOf(0, 1, 10);
  v1::HistoryPoint b = PointOf(1, 4, 50);
  a.set_replicas(4);
  b.set_replicas(0);
  a.set_optimizer_steps(7);
  b.set_optimizer_steps(9);
  b.set_fraction(0.5);
  const v1::HistoryPoint merged = Merge(a, b);
  EXPECT_EQ(messages::ToTime(merged.begin()), At(0));
  EXPECT_EQ(messages::ToTime(merged.end()), At(4));
  EXPECT_DOUBLE_EQ(merged.throughput(), 40);
  EXPECT_DOUBLE_EQ(merged.replicas(), 1);
  EXPECT_EQ(merged.optimizer_steps(), 9) << "counts are those at the end";
  EXPECT_EQ(merged.fraction(), 0.5);
  EXPECT_FALSE(merged.has_step_times());
}

TEST(FiguresTest, WhatIsUnknownHasNoWeight) {
  v1::HistoryPoint a = PointOf(0, 1);
  v1::HistoryPoint b = PointOf(1, 4, 50);
  b.set_total_batch_size(128);
  b.mutable_step_times()->set_compute(0.25);
  const v1::HistoryPoint merged = Merge(a, b);
  EXPECT_DOUBLE_EQ(merged.throughput(), 50);
  EXPECT_DOUBLE_EQ(merged.total_batch_size(), 128);
  EXPECT_DOUBLE_EQ(merged.accumulation_steps(), 0);
  EXPECT_DOUBLE_EQ(merged.step_times().compute(), 0.25);
  EXPECT_DOUBLE_EQ(merged.step_times().sync(), 0);
}

TEST(FiguresTest, TheLargestNumbersDoNotOverflow) {
  v1::HistoryPoint a = PointOf(0, 1, kLargest);
  v1::HistoryPoint b = PointOf(1, 2, kLargest);
  AddMetric("loss", -kLargest, 1, &a);
  AddMetric("loss", kLargest, 2, &b);
  const v1::HistoryPoint merged = Merge(a, b);
  EXPECT_DOUBLE_EQ(merged.throughput(), kLargest);
  EXPECT_EQ(merged.metrics(0).value(), 0);
  v1::TrainingProgress progress;
  progress.set_throughput(kLargest);
  progress.set_efficiency(kLargest);
  EXPECT_TRUE(std::isnan(FiguresOf(progress)[kGoodput])) << "it would be no number";
  progress.set_throughput(kNan);
  progress.set_gradient_noise_scale(-1);
  EXPECT_TRUE(std::isnan(FiguresOf(progress)[kThroughput]));
  EXPECT_TRUE(std::isnan(FiguresOf(progress)[kNoise]));
}

TEST(FiguresTest, WhatIsNotFiniteIsShownAndSpoilsNoMean) {
  MetricMeans means;
  const auto add = [&](double value, int64_t step) {
    v1::HistoryPoint point;
    AddMetric("loss", value, step, &point);
    means.Add(point.metrics(0));
  };
  const auto shown = [&] {
    v1::HistoryPoint point;
    means.Put(&point);
    return point.metrics(0);
  };
  add(1, 1);
  add(kInfinity, 2);
  EXPECT_EQ(shown().value(), kInfinity);
  add(3, 3);
  EXPECT_DOUBLE_EQ(shown().value(), 2) << "the mean of those that are finite";
  EXPECT_EQ(shown().step(), 3);
  add(kNan, 4);
  EXPECT_TRUE(std::isnan(shown().value()));
}

TEST(FiguresTest, MergingKeepsADivergedMetricVisible) {
  v1::HistoryPoint fine = PointOf(0, 1);
  v1::HistoryPoint diverged = PointOf(1, 2);
  v1::HistoryPoint recovered = PointOf(2, 3);
  AddMetric("loss", 2, 1, &fine);
  AddMetric("loss", kNan, 2, &diverged);
  AddMetric("loss", 4, 3, &recovered);
  AddMetric("accuracy", 0.5, 3, &recovered);
  EXPECT_TRUE(std::isnan(Merge(fine, diverged).metrics(0).value()));
  const v1::HistoryPoint merged = Merge(diverged, recovered);
  EXPECT_EQ(merged.metrics(0).value(), 4);
  EXPECT_EQ(merged.metrics(0).step(), 3);
  EXPECT_EQ(merged.metrics(1).name(), "accuracy");
}

TEST(FiguresTest, ThereAreAtMostSixteenMetricsWithNamesOfMeasure) {
  MetricMeans means;
  v1::HistoryPoint point;
  for (int i = 0; i < 100; ++i) AddMetric(absl::StrCat("metric-", i), i, i, &point);
  AddMetric("", 1, 1, &point);
  AddMetric("a,b", 1, 1, &point);
  AddMetric("1st", 1, 1, &point);
  AddMetric(std::string(65, 'x'), 1, 1, &point);
  for (const v1::ReportedMetric& metric : point.metrics()) means.Add(metric);
  v1::HistoryPoint kept;
  means.Put(&kept);
  EXPECT_EQ(kept.metrics_size(), 16);
  EXPECT_EQ(Merge(point, kept).metrics_size(), point.metrics_size()) << "what is there stays";
  v1::HistoryPoint other = PointOf(1, 2);
  for (int i = 0; i < 16; ++i) AddMetric(absl::StrCat("other-", i), i, i, &other);
  EXPECT_EQ(Merge(kept, other).metrics_size(), 16);
}

TEST(FiguresTest, CoarseningDoublesTheResolutionAndKeepsSpansWhole) {
  std::vector<v1::HistoryPoint> points = Seconds(513);
  absl::Duration resolution = absl::Seconds(1);
  Coarsen(256, &resolution, &points);
  EXPECT_EQ(resolution, absl::Seconds(4));
  EXPECT_EQ(points.size(), 129u);
  EXPECT_EQ(messages::ToTime(points.front().begin()), At(0));
  EXPECT_EQ(messages::ToTime(points.back().end()), At(513));
  EXPECT_DOUBLE_EQ(points[0].throughput(), 2.5);
  for (size_t i = 1; i < points.size(); ++i) {
    EXPECT_EQ(messages::ToTime(points[i].begin()), messages::ToTime(points[i - 1].end()));
  }
}

TEST(FiguresTest, CoarseningLeavesALongWaitAlone) {
  std::vector<v1::HistoryPoint> points = {PointOf(0, 10'000, 1), PointOf(10'000, 10'001, 2),
                                          PointOf(10'001, 10'002, 4)};
  absl::Duration resolution = absl::Seconds(1);
  Coarsen(2, &resolution, &points);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(messages::ToTime(points[0].end()), At(10'000));
  EXPECT_DOUBLE_EQ(points[1].throughput(), 3);
  Coarsen(1, &resolution, &points);
  EXPECT_EQ(points.size(), 1u) << "it comes to an end whatever the spans are";
}

TEST(FiguresTest, ThinningIsEven) {
  EXPECT_EQ(Thin(Seconds(10), 10).size(), 10u);
  const std::vector<v1::HistoryPoint> thinned = Thin(Seconds(10), 4);
  ASSERT_EQ(thinned.size(), 4u);
  EXPECT_DOUBLE_EQ(thinned[0].throughput(), 2);
  EXPECT_EQ(messages::ToTime(thinned[3].end()), At(10));
  EXPECT_EQ(Thin(Seconds(10), 1).size(), 1u);
}

TEST(FiguresTest, OfTwoWritersPointsThatOverlapAreLeftOut) {
  std::vector<v1::HistoryPoint> points = {PointOf(0, 2), PointOf(1, 3), PointOf(2, 4), PointOf(0, 9)};
  DropOverlaps(&points);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(messages::ToTime(points[1].begin()), At(2));
}

Allocation Of(int replicas) { return {replicas, 1, v1::JOB_PHASE_RUNNING}; }

TEST(AllocationChangesTest, WhatChangesNothingIsNoChange) {
  AllocationChanges changes;
  EXPECT_TRUE(changes.Add(At(0), Of(1)));
  EXPECT_FALSE(changes.Add(At(1), Of(1)));
  EXPECT_TRUE(changes.Add(At(2), Of(2)));
  EXPECT_TRUE(changes.Add(At(1), Of(3)));
  EXPECT_EQ(changes.last().time, At(2)) << "time does not go back";
}

TEST(AllocationChangesTest, ShortLivedChangesOfLongAgoGoFirst) {
  AllocationChanges changes;
  changes.Add(At(0), Of(1));
  changes.Add(At(1000), Of(2));
  changes.Add(At(1500), Of(3));  // lives for a second
  changes.Add(At(1501), Of(2));
  for (int i = 0; changes.size() < AllocationChanges::kMost; ++i) changes.Add(At(2000 + 10 * i), Of(i % 2));
  changes.Add(At(1'000'000), Of(9));
  EXPECT_LE(changes.size(), AllocationChanges::kMost);
  EXPECT_EQ(changes.all().front().time, At(0));
  EXPECT_EQ(changes.last().allocation.replicas, 9);
  for (size_t i = 1; i < changes.size(); ++i) {
    EXPECT_NE(changes.all()[i].allocation.replicas, 3);
    EXPECT_NE(changes.all()[i].allocation, changes.all()[i - 1].allocation);
  }
}

TEST(AllocationChangesTest, AreTheSameAfterATripThroughMessages) {
  AllocationChanges changes;
  changes.Add(At(0), Of(1));
  changes.Add(At(5), {4, 2, v1::JOB_PHASE_RESCALING});
  ChangeMessages messages;
  Put(changes, &messages);
  const AllocationChanges read = FromMessages(messages);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read.last().time, At(5));
  EXPECT_EQ(read.last().allocation, changes.last().allocation);
}

TEST(AllocationChangesTest, AnEarlierPartComesInFront) {
  AllocationChanges earlier;
  earlier.Add(At(0), Of(1));
  earlier.Add(At(10), Of(2));
  AllocationChanges changes;
  changes.Add(At(20), Of(2));
  changes.Add(At(30), Of(3));
  changes.Precede(earlier);
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes.all()[1].time, At(10));
}

}  // namespace
}  // namespace adaptdl::supervisor
