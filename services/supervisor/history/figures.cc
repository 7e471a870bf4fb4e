#include "services/supervisor/history/figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::supervisor {
namespace {

constexpr size_t kMostMetrics = 16;
constexpr size_t kMostNameBytes = 64;

double Positive(double value) {
  return std::isfinite(value) && value > 0 ? value : std::numeric_limits<double>::quiet_NaN();
}

double NotNegative(double value) {
  return std::isfinite(value) && value >= 0 ? value : std::numeric_limits<double>::quiet_NaN();
}

void PutStepTimes(const v1::StepTimes& times, Figures* figures) {
  (*figures)[kCompute] = NotNegative(times.compute());
  (*figures)[kSync] = NotNegative(times.sync());
  (*figures)[kData] = NotNegative(times.data());
}

Figures FiguresOf(const v1::HistoryPoint& point) {
  Figures figures = Unknown();
  figures[kTotalBatch] = Positive(point.total_batch_size());
  figures[kLocalBatch] = Positive(point.local_batch_size());
  if (point.total_batch_size() > 0) figures[kAccumulation] = NotNegative(point.accumulation_steps());
  figures[kThroughput] = Positive(point.throughput());
  figures[kGoodput] = Positive(point.goodput());
  figures[kEfficiency] = Positive(point.efficiency());
  figures[kNoise] = Positive(point.gradient_noise_scale());
  figures[kLearningRate] = Positive(point.learning_rate_factor());
  if (point.has_step_times()) PutStepTimes(point.step_times(), &figures);
  return figures;
}

v1::ReportedMetric Merge(const v1::ReportedMetric& a, double weight_a, const v1::ReportedMetric& b,
                         double weight_b) {
  if (!std::isfinite(a.value()) || !std::isfinite(b.value())) return b;
  Mean mean;
  mean.Add(a.value(), weight_a);
  mean.Add(b.value(), weight_b);
  v1::ReportedMetric merged = b;
  if (mean.weight > 0) merged.set_value(mean.value);
  return merged;
}

void MergeMetrics(const v1::HistoryPoint& a, double weight_a, const v1::HistoryPoint& b, double weight_b,
                  v1::HistoryPoint* merged) {
  *merged->mutable_metrics() = a.metrics();
  for (const v1::ReportedMetric& metric : b.metrics()) {
    auto& all = *merged->mutable_metrics();
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const auto& other) { return other.name() == metric.name(); });
    if (same != all.end()) {
      *same = Merge(*same, weight_a, metric, weight_b);
    } else if (all.size() < static_cast<int>(kMostMetrics)) {
      *all.Add() = metric;
    }
  }
}

// Of no length it would have no weight.
double WeightOf(const v1::HistoryPoint& point) {
  return std::max(absl::ToDoubleSeconds(SpanOf(point)), 1e-6);
}

}  // namespace

void Mean::Add(double x, double more) {
  if (!(more > 0)) return;
  const double total = weight + more;
  value = value * (weight / total) + x * (more / total);
  weight = total;
}

Figures Unknown() {
  Figures figures;
  figures.fill(std::numeric_limits<double>::quiet_NaN());
  return figures;
}

Figures FiguresOf(const v1::TrainingProgress& progress) {
  Figures figures = Unknown();
  figures[kTotalBatch] = Positive(static_cast<double>(progress.total_batch_size()));
  figures[kLocalBatch] = Positive(static_cast<double>(progress.local_batch_size()));
  if (progress.total_batch_size() > 0) figures[kAccumulation] = NotNegative(progress.accumulation_steps());
  figures[kThroughput] = Positive(progress.throughput());
  figures[kEfficiency] = Positive(progress.efficiency());
  figures[kGoodput] = Positive(progress.throughput() * progress.efficiency());
  figures[kNoise] = Positive(progress.gradient_noise_scale());
  figures[kLearningRate] = Positive(progress.learning_rate_factor());
  if (progress.has_step_times()) PutStepTimes(progress.step_times(), &figures);
  return figures;
}

Counts CountsOf(const v1::TrainingProgress& progress) {
  Counts counts;
  counts.optimizer_steps = progress.optimizer_steps();
  if (std::isfinite(progress.scale_invariant_steps())) {
    counts.scale_invariant_steps = progress.scale_invariant_steps();
  }
  const double fraction = progress.fraction();
  counts.fraction = std::isfinite(fraction) && fraction >= 0 ? std::min(fraction, 1.0) : -1;
  counts.epoch = progress.epoch();
  return counts;
}

void Put(const Counts& counts, v1::HistoryPoint* point) {
  point->set_optimizer_steps(counts.optimizer_steps);
  point->set_scale_invariant_steps(counts.scale_invariant_steps);
  point->set_fraction(counts.fraction);
  point->set_epoch(counts.epoch);
}

bool HasName(const v1::ReportedMetric& metric) {
  const std::string& name = metric.name();
  const auto is_good = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' || c == '-';
  };
  return !name.empty() && name.size() <= kMostNameBytes &&
         absl::ascii_isalpha(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), is_good);
}

void MetricMeans::Add(const v1::ReportedMetric& metric) {
  auto it = means_.find(metric.name());
  if (it == means_.end()) {
    if (means_.size() >= kMostMetrics || !HasName(metric)) return;
    it = means_.emplace(metric.name(), Entry()).first;
  }
  Entry& entry = it->second;
  if (std::isfinite(metric.value())) entry.mean.Add(metric.value(), 1);
  entry.last = metric.value();
  entry.step = metric.step();
}

void MetricMeans::Put(v1::HistoryPoint* point) const {
  for (const auto& [name, entry] : means_) {
    v1::ReportedMetric* metric = point->add_metrics();
    metric->set_name(name);
    metric->set_value(std::isfinite(entry.last) ? entry.mean.value : entry.last);
    metric->set_step(entry.step);
  }
}

void AddMetrics(const MetricMeans& late, v1::HistoryPoint* point) {
  v1::HistoryPoint later;
  late.Put(&later);
  const v1::HistoryPoint earlier = *point;
  MergeMetrics(earlier, 1, later, 1, point);
}

void SpanMeans::Add(double replicas, const Figures& figures, double seconds) {
  replicas_.Add(replicas, seconds);
  for (size_t i = 0; i < kFigures; ++i) {
    if (!std::isnan(figures[i])) figures_[i].Add(figures[i], seconds);
  }
}

void SpanMeans::Put(v1::HistoryPoint* point) const {
  point->set_replicas(replicas_.value);
  point->set_total_batch_size(figures_[kTotalBatch].value);
  point->set_local_batch_size(figures_[kLocalBatch].value);
  point->set_accumulation_steps(figures_[kAccumulation].value);
  point->set_throughput(figures_[kThroughput].value);
  point->set_goodput(figures_[kGoodput].value);
  point->set_efficiency(figures_[kEfficiency].value);
  point->set_gradient_noise_scale(figures_[kNoise].value);
  point->set_learning_rate_factor(figures_[kLearningRate].value);
  const bool has_times = std::any_of(&figures_[kCompute], &figures_[kData] + 1,
                                     [](const Mean& mean) { return mean.weight > 0; });
  if (!has_times) return;
  point->mutable_step_times()->set_compute(figures_[kCompute].value);
  point->mutable_step_times()->set_sync(figures_[kSync].value);
  point->mutable_step_times()->set_data(figures_[kData].value);
}

absl::Duration SpanOf(const v1::HistoryPoint& point) {
  return messages::ToTime(point.end()) - messages::ToTime(point.begin());
}

size_t SizeOf(const v1::HistoryPoint& point) {
  // With the times' messages; with a name that is allocated.
  constexpr size_t kPoint = 360;
  constexpr size_t kMetric = 160;
  return kPoint + kMetric * point.metrics_size();
}

v1::HistoryPoint Merge(const v1::HistoryPoint& a, const v1::HistoryPoint& b) {
  const double weight_a = WeightOf(a);
  const double weight_b = WeightOf(b);
  SpanMeans means;
  means.Add(a.replicas(), FiguresOf(a), weight_a);
  means.Add(b.replicas(), FiguresOf(b), weight_b);
  v1::HistoryPoint merged;
  *merged.mutable_begin() = a.begin();
  *merged.mutable_end() = b.end();
  means.Put(&merged);
  merged.set_optimizer_steps(b.optimizer_steps());
  merged.set_scale_invariant_steps(b.scale_invariant_steps());
  merged.set_fraction(b.fraction());
  merged.set_epoch(b.epoch());
  MergeMetrics(a, weight_a, b, weight_b, &merged);
  return merged;
}

void DropOverlaps(std::vector<v1::HistoryPoint>* points) {
  absl::Time end = absl::InfinitePast();
  const auto overlaps = [&](const v1::HistoryPoint& point) {
    if (messages::ToTime(point.begin()) < end) return true;
    end = messages::ToTime(point.end());
    return false;
  };
  points->erase(std::remove_if(points->begin(), points->end(), overlaps), points->end());
}

void Coarsen(size_t most, absl::Duration* resolution, std::vector<v1::HistoryPoint>* points) {
  // Spans are a little longer than the resolution asks for.
  constexpr double kTolerance = 1.5;
  while (points->size() > most) {
    *resolution *= 2;
    std::vector<v1::HistoryPoint> merged;
    merged.reserve(points->size());
    bool free = false;  // Whether the last one may take another one in.
    for (v1::HistoryPoint& point : *points) {
      const bool joins = free && messages::ToTime(point.end()) - messages::ToTime(merged.back().begin()) <=
                                     *resolution * kTolerance;
      if (joins) {
        merged.back() = Merge(merged.back(), point);
      } else {
        merged.push_back(std::move(point));
      }
      free = !joins;
    }
    *points = std::move(merged);
  }
}

std::vector<v1::HistoryPoint> Thin(std::vector<v1::HistoryPoint> points, size_t most) {
  if (points.size() <= most) return points;
  const size_t each = (points.size() + most - 1) / most;
  std::vector<v1::HistoryPoint> thinned;
  thinned.reserve(points.size() / each + 1);
  for (size_t i = 0; i < points.size(); ++i) {
    if (i % each == 0) {
      thinned.push_back(std::move(points[i]));
    } else {
      thinned.back() = Merge(thinned.back(), points[i]);
    }
  }
  return thinned;
}

}  // namespace adaptdl::supervisor
