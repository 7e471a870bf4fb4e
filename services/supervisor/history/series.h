// The history of one job, as it comes about: points whose spans follow one another, and changes of its replicas.
//
// A point is closed when it has lasted for the resolution. While a job has no replicas nothing happens to it, and one point
// stands for all that time. The times in it are those of the wall, but go on with the steady time: they never go back. Where
// the wall was set back, they go at half speed until it has caught up.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_HISTORY_SERIES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_HISTORY_SERIES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/history_service.pb.h"
#include "adaptdl/v1/job.pb.h"
#include "libs/base/clock.h"
#include "services/supervisor/history/allocation_changes.h"
#include "services/supervisor/history/figures.h"

namespace adaptdl::supervisor {

// Of a job's whole history. More are made fewer.
inline constexpr size_t kMostPoints = 512;
// That of a young job's points.
inline constexpr absl::Duration kFinestResolution = absl::Seconds(1);

class Series {
 public:
  // From now on. `counts`: how far the job has come.
  Series(const Moment& now, const Counts& counts);

  // What the job has from now on.
  void Observe(const Moment& now, const Allocation& allocation);
  // What its leading replica says.
  void Observe(const Moment& now, const v1::TrainingProgress& progress);
  // Time goes on. Call it once per finest resolution, or more often.
  void Advance(const Moment& now);
  // Closes the point that is open: whoever goes on later begins another one.
  void Close(const Moment& now);

  // Points that are closed, and were not taken away.
  const std::vector<v1::HistoryPoint>& points() const { return points_; }
  const AllocationChanges& changes() const { return changes_; }
  // Grows with each change.
  int64_t revision() const { return revision_; }
  absl::Duration resolution() const { return resolution_; }
  // Whether the job's phase is one that it stays in, and since when, in steady time.
  bool finished() const { return finished_.has_value(); }
  absl::Time finished_at() const { return finished_.value_or(absl::InfiniteFuture()); }
  // In memory, about.
  size_t bytes() const;

  // Takes points away that begin before `end`: they are on disk.
  void TakeAway(absl::Time end);
  // There is an older part of the history elsewhere: what of it this one has to follow.
  void Follow(const AllocationChanges& changes, absl::Time end, absl::Duration resolution);
  // From now on points are at least so long.
  void SetResolution(absl::Duration resolution) { resolution_ = std::max(resolution_, resolution); }
  // Makes do with so many points and changes.
  void Limit(size_t points, size_t changes);

 private:
  // What the wall shows, or would if it never went back.
  absl::Time Stamp(const Moment& now);
  // Counts the time that has passed.
  void Integrate(const Moment& now);
  void CloseAt(absl::Time stamp);
  // Those that are new.
  void TakeMetrics(const v1::TrainingProgress& progress, MetricMeans* means);
  bool Idle() const { return !trains_ && allocation_.replicas == 0; }

  absl::Duration resolution_ = kFinestResolution;
  std::vector<v1::HistoryPoint> points_;
  AllocationChanges changes_;
  int64_t revision_ = 0;
  Allocation allocation_;
  // Whether the job's phase is one in which figures are of use.
  bool trains_ = false;
  std::optional<absl::Time> finished_;
  Figures figures_ = Unknown();
  Counts counts_;
  // Steady, and the stamp of that moment.
  absl::Time seen_;
  absl::Time stamp_;
  // Of the open point: where it begins, what has been so far, and for how long.
  absl::Time begin_;
  absl::Duration lasts_ = absl::ZeroDuration();
  SpanMeans means_;
  MetricMeans metrics_;
  // What was reported last of each metric, so that a report counts once: its step, and the bits of its value.
  std::map<std::string, std::pair<int64_t, uint64_t>> reported_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_HISTORY_SERIES_H_
