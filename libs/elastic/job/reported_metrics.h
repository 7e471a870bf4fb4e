// What the program reports of itself, such as its loss: of each name the latest value. A heartbeat takes all of them
// along; between two of them nothing is sent, so that a program may report in every step. A part of the job's
// state: a replica that becomes rank 0, or a program that was started again, goes on with what was reported.
//
// Thread-safety: thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_REPORTED_METRICS_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_REPORTED_METRICS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/base/mutex.h"
#include "libs/elastic/control/control_plane.h"
#include "nlohmann/json_fwd.hpp"

namespace adaptdl::elastic {

class ReportedMetrics {
 public:
  // As many as the protocol takes (adaptdl/v1/job.proto).
  static constexpr size_t kMost = 16;

  // `step` negative: as many optimiser steps as are done. What the protocol does not take is left aside; why is
  // said once.
  void Report(absl::string_view name, double value, int64_t step);
  // So many optimiser steps are done.
  void SetSteps(int64_t steps) { steps_.store(steps, std::memory_order_relaxed); }

  // In the order in which their names came.
  std::vector<ReportedMetric> Latest() const;

  // Into the job's state, and from it.
  void Save(nlohmann::json* job) const;
  void Load(const nlohmann::json& job);

 private:
  // Null: it is not to be reported.
  ReportedMetric* Find(absl::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<int64_t> steps_{0};
  mutable Mutex mutex_;
  std::vector<ReportedMetric> metrics_ ABSL_GUARDED_BY(mutex_);
  // Whether it was said that a name cannot be, and that there are too many.
  bool told_of_name_ ABSL_GUARDED_BY(mutex_) = false;
  bool told_of_number_ ABSL_GUARDED_BY(mutex_) = false;
};

// Letters, digits and any of "_./-", beginning with a letter; 1 to 64 characters.
bool IsMetricName(absl::string_view name);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_REPORTED_METRICS_H_
