// The points of a job's history, as arithmetic: means that are weighted by time, and points that are made one.
//
// What is not known has no weight: a mean is that of the time in which a figure was known. Sums never overflow, as means are
// kept in place of them. Plain functions and values; thread-safe as such.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_HISTORY_FIGURES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_HISTORY_FIGURES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/history_service.pb.h"
#include "adaptdl/v1/job.pb.h"

namespace adaptdl::supervisor {

// A mean that grows.
struct Mean {
  double value = 0;
  double weight = 0;

  // `more` > 0, else nothing happens.
  void Add(double x, double more);
};

// What training is like at a moment: sizes and rates. NaN: unknown.
enum Figure : size_t {
  kTotalBatch,
  kLocalBatch,
  kAccumulation,
  kThroughput,
  kGoodput,
  kEfficiency,
  kNoise,
  kLearningRate,
  kCompute,
  kSync,
  kData,
  kFigures,
};
using Figures = std::array<double, kFigures>;

Figures Unknown();
// Of what a replica reports. What makes no sense is unknown.
Figures FiguresOf(const v1::TrainingProgress& progress);

// How far a job is: what of a point is as at its end.
struct Counts {
  int64_t optimizer_steps = 0;
  double scale_invariant_steps = 0;
  double fraction = -1;
  int epoch = 0;
};
Counts CountsOf(const v1::TrainingProgress& progress);
void Put(const Counts& counts, v1::HistoryPoint* point);

// What a job's program reports of itself, within one span. At most 16 names, the first ones.
class MetricMeans {
 public:
  // One report. What is not finite is no part of the mean.
  void Add(const v1::ReportedMetric& metric);
  // A mean that is finite, or what was reported last in case that was not.
  void Put(v1::HistoryPoint* point) const;
  bool empty() const { return means_.empty(); }

 private:
  struct Entry {
    Mean mean;
    double last = 0;
    int64_t step = 0;
  };
  std::map<std::string, Entry> means_;
};

// Counts what came late for the point.
void AddMetrics(const MetricMeans& late, v1::HistoryPoint* point);

// Whether a metric has a name as ReportedMetric asks for; others are left out.
bool HasName(const v1::ReportedMetric& metric);

// What goes on within one span of time.
class SpanMeans {
 public:
  // For `seconds` it was so.
  void Add(double replicas, const Figures& figures, double seconds);
  void Put(v1::HistoryPoint* point) const;

 private:
  Mean replicas_;
  std::array<Mean, kFigures> figures_;
};

// How long the point's span is.
absl::Duration SpanOf(const v1::HistoryPoint& point);
// Bytes that it takes in memory, about.
size_t SizeOf(const v1::HistoryPoint& point);

// One that stands for both; `b` comes after `a`. Of a metric whose later value is not finite, that is its value; of one whose
// earlier value alone is not, the later one.
v1::HistoryPoint Merge(const v1::HistoryPoint& a, const v1::HistoryPoint& b);

// Leaves out what begins before its predecessor ends: of two writers.
void DropOverlaps(std::vector<v1::HistoryPoint>* points);

// Makes neighbours one while both together are no longer than the resolution asks for, which doubles until at most `most` are
// left. `most` is at least 1.
void Coarsen(size_t most, absl::Duration* resolution, std::vector<v1::HistoryPoint>* points);

// At most `most` points, each of equally many.
std::vector<v1::HistoryPoint> Thin(std::vector<v1::HistoryPoint> points, size_t most);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_HISTORY_FIGURES_H_
