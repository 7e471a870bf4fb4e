#include "services/worker/gpu_health.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace adaptdl::worker {

void GpuHealth::Observe(const GpuSample& sample, absl::Time now) {
  if (!sample.lost.empty()) return Lose(sample.lost);
  if (sample.uncorrected_errors.has_value()) {
    const uint64_t errors = *sample.uncorrected_errors;
    // What was there before is of an earlier time; and the driver counts from zero when it is loaded again.
    const uint64_t known = errors_.value_or(errors);
    if (errors > known && broken_.empty()) {
      broken_ = absl::StrCat(errors - known, " new uncorrected memory errors (ECC)");
    }
    errors_ = errors;
  }
  ObserveHeat(sample.slowdown, now);
}

void GpuHealth::Lose(const std::string& why) {
  if (broken_.empty()) broken_ = why;
}

void GpuHealth::ObserveHeat(const std::string& slowdown, absl::Time now) {
  if (slowdown.empty()) {
    cool_since_ = std::min(cool_since_, now);
    if (now - cool_since_ < policy_.cool_for) return;
    slowdown_.clear();
    too_hot_.clear();
    hot_since_ = absl::InfiniteFuture();
    return;
  }
  slowdown_ = slowdown;
  cool_since_ = absl::InfiniteFuture();
  hot_since_ = std::min(hot_since_, now);
  if (too_hot_.empty() && now - hot_since_ >= policy_.hot_for) {
    too_hot_ =
        absl::StrCat("slowed down by heat for ", absl::FormatDuration(policy_.hot_for), " (", slowdown, ")");
  }
}

std::string GpuHealth::problem() const {
  if (!broken_.empty()) return absl::StrCat(broken_, "; it is used again after a restart of the worker");
  if (!too_hot_.empty()) return absl::StrCat(too_hot_, "; it is used again when it has cooled down");
  return "";
}

}  // namespace adaptdl::worker
