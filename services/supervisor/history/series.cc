#include "services/supervisor/history/series.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "libs/messages/proto_time.h"

namespace adaptdl::supervisor {
namespace {

// By how much more than what has passed a point may seem to last: beyond that, the wall was set forward meanwhile.
constexpr absl::Duration kLargestStep = absl::Seconds(5);
// Names of metrics that are told apart; a program that makes up ever new ones has their reports counted again.
constexpr size_t kMostNames = 64;

uint64_t BitsOf(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

bool Trains(v1::JobPhase phase) { return phase == v1::JOB_PHASE_RUNNING || phase == v1::JOB_PHASE_RESCALING; }

bool IsFinalPhase(v1::JobPhase phase) {
  return phase == v1::JOB_PHASE_SUCCEEDED || phase == v1::JOB_PHASE_FAILED ||
         phase == v1::JOB_PHASE_CANCELLED;
}

}  // namespace

Series::Series(const Moment& now, const Counts& counts)
    : counts_(counts), seen_(now.steady), stamp_(now.wall), begin_(now.wall) {}

absl::Time Series::Stamp(const Moment& now) {
  const absl::Duration passed = std::max(now.steady - seen_, absl::ZeroDuration());
  seen_ = std::max(seen_, now.steady);
  stamp_ = std::max(now.wall, stamp_ + passed / 2);
  return stamp_;
}

void Series::Integrate(const Moment& now) {
  const absl::Duration passed = std::max(now.steady - seen_, absl::ZeroDuration());
  means_.Add(allocation_.replicas, figures_, absl::ToDoubleSeconds(passed));
  lasts_ += passed;
  (void)Stamp(now);
}

void Series::Observe(const Moment& now, const Allocation& allocation) {
  if (finished() || allocation == allocation_) return;
  Integrate(now);
  const bool was_idle = Idle();
  const bool trained = trains_;
  if (changes_.Add(stamp_, allocation)) ++revision_;
  const bool idle = !Trains(allocation.phase) && allocation.replicas == 0;
  // A long wait and what comes after it are two things.
  if (was_idle && !idle && lasts_ >= resolution_) CloseAt(stamp_);
  allocation_ = allocation;
  trains_ = Trains(allocation.phase);
  if (trained && !trains_) figures_ = Unknown();
  if (!IsFinalPhase(allocation.phase)) return;
  CloseAt(stamp_);
  finished_ = now.steady;
}

void Series::Observe(const Moment& now, const v1::TrainingProgress& progress) {
  counts_ = CountsOf(progress);
  if (finished()) {
    // What was on its way when it ended.
    MetricMeans late;
    TakeMetrics(progress, &late);
    if (points_.empty()) return;
    Put(counts_, &points_.back());
    AddMetrics(late, &points_.back());
    return;
  }
  Integrate(now);
  if (trains_) figures_ = FiguresOf(progress);
  TakeMetrics(progress, &metrics_);
}

void Series::TakeMetrics(const v1::TrainingProgress& progress, MetricMeans* means) {
  for (const v1::ReportedMetric& metric : progress.metrics()) {
    if (!HasName(metric)) continue;
    const std::pair<int64_t, uint64_t> report = {metric.step(), BitsOf(metric.value())};
    const auto known = reported_.find(metric.name());
    if (known != reported_.end() && known->second == report) continue;
    if (known == reported_.end() && reported_.size() >= kMostNames) reported_.clear();
    reported_[metric.name()] = report;
    means->Add(metric);
  }
}

void Series::Advance(const Moment& now) {
  if (finished()) return;
  Integrate(now);
  if (lasts_ < resolution_ || (Idle() && metrics_.empty())) return;
  CloseAt(stamp_);
}

void Series::Close(const Moment& now) {
  if (finished()) return;
  Integrate(now);
  CloseAt(stamp_);
}

void Series::CloseAt(absl::Time stamp) {
  const absl::Time end = std::min(stamp, begin_ + lasts_ + kLargestStep);
  if (end <= begin_) return;
  v1::HistoryPoint& point = points_.emplace_back();
  *point.mutable_begin() = messages::ToProto(begin_);
  *point.mutable_end() = messages::ToProto(end);
  means_.Put(&point);
  metrics_.Put(&point);
  Put(counts_, &point);
  begin_ = stamp;
  lasts_ = absl::ZeroDuration();
  means_ = SpanMeans();
  metrics_ = MetricMeans();
  if (points_.size() > kMostPoints) Coarsen(kMostPoints / 2, &resolution_, &points_);
}

size_t Series::bytes() const {
  constexpr size_t kSeries = 2048;
  size_t sum = kSeries + changes_.size() * sizeof(AllocationChanges::Change);
  // All of them have about as many metrics.
  if (!points_.empty()) sum += points_.size() * SizeOf(points_.back());
  return sum;
}

void Series::TakeAway(absl::Time end) {
  const auto gone = [&](const v1::HistoryPoint& point) { return messages::ToTime(point.begin()) < end; };
  points_.erase(std::remove_if(points_.begin(), points_.end(), gone), points_.end());
}

void Series::Follow(const AllocationChanges& changes, absl::Time end, absl::Duration resolution) {
  changes_.Precede(changes);
  ++revision_;
  SetResolution(resolution);
  TakeAway(end);
  begin_ = std::max(begin_, end);
  stamp_ = std::max(stamp_, end);
}

void Series::Limit(size_t points, size_t changes) {
  if (points_.size() > points) Coarsen(std::max<size_t>(points, 1), &resolution_, &points_);
  changes_.Limit(changes);
}

}  // namespace adaptdl::supervisor
