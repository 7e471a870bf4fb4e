// Whether a GPU is fit for replicas, from what the driver says of it now and then.
//
//   fit ──(lost, or new uncorrected memory errors)──▶ unfit until the worker starts again
//    │ ▲
//    │ └──(not slowed down by heat for `cool_for`)──┐
//    └────(slowed down by heat for `hot_for`)───────┴▶ unfit
//
// Plain values; thread-safety as of any struct. Times are the caller's.

#ifndef ADAPTDL_SERVICES_WORKER_GPU_HEALTH_H_
#define ADAPTDL_SERVICES_WORKER_GPU_HEALTH_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace adaptdl::worker {

// How much of a GPU is in use. Absent: the driver does not say.
struct GpuFigures {
  // Part of the time that it computes, in [0, 1].
  std::optional<double> utilization = std::nullopt;
  int64_t memory_bytes = 0;
  int64_t memory_total_bytes = 0;
  std::optional<double> temperature_celsius = std::nullopt;
  std::optional<double> power_watts = std::nullopt;
};

// What the driver says of a GPU.
struct GpuSample {
  // Why it can't be used at all. Empty: it can.
  std::string lost = {};
  // Uncorrected memory errors since the driver was loaded. Absent: it does not count them.
  std::optional<uint64_t> uncorrected_errors = std::nullopt;
  // How its clocks are slowed down by heat, for people. Empty: they are not.
  std::string slowdown = {};
  GpuFigures figures = {};
};

struct GpuHealthPolicy {
  // A slowdown is over when it has not been seen for `cool_for`; one that lasts for `hot_for` makes the GPU
  // unfit.
  absl::Duration hot_for = absl::Minutes(5);
  absl::Duration cool_for = absl::Minutes(1);
};

class GpuHealth {
 public:
  explicit GpuHealth(const GpuHealthPolicy& policy) : policy_(policy) {}

  void Observe(const GpuSample& sample, absl::Time now);
  // As if a sample had said so.
  void Lose(const std::string& why);

  // Why no replica is to have it, for people; the same text for as long as that is so. Empty: it is fit.
  std::string problem() const;
  // How it is slowed down by heat, be it for long or not, for people. Empty: it is not.
  const std::string& slowdown() const { return slowdown_; }

 private:
  void ObserveHeat(const std::string& slowdown, absl::Time now);

  const GpuHealthPolicy policy_;
  // What stays.
  std::string broken_;
  std::optional<uint64_t> errors_;
  std::string slowdown_;
  std::string too_hot_;
  absl::Time hot_since_ = absl::InfiniteFuture();
  absl::Time cool_since_ = absl::InfiniteFuture();
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_GPU_HEALTH_H_
