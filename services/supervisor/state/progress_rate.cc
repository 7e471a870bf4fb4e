#include "services/supervisor/state/progress_rate.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace adaptdl::supervisor {
namespace {

// For so many seconds of a group the pace of the one before counts as much as its own.
constexpr double kWeightOfBefore = 5;
constexpr double kCentury = 36525.0 * 24 * 3600;

}  // namespace

std::optional<absl::Duration> ProgressRate::Observe(int64_t group, double fraction, absl::Time now) {
  if (group != group_ || fraction < first_ || now < since_) {
    // One that goes back in its work begins anew.
    rate_before_ = fraction < first_ ? 0 : rate_;
    group_ = group;
    since_ = now;
    first_ = fraction;
  }
  const double elapsed = absl::ToDoubleSeconds(now - since_);
  const double weight = rate_before_ > 0 ? kWeightOfBefore : 0;
  if (elapsed + weight <= 0) return std::nullopt;
  rate_ = (fraction - first_ + rate_before_ * weight) / (elapsed + weight);
  if (rate_ <= 0) return std::nullopt;
  const double left = (1 - std::min(fraction, 1.0)) / rate_;
  // A guess beyond a century helps nobody, and would leave the range of timestamps.
  if (left > kCentury) return std::nullopt;
  return absl::Seconds(left);
}

}  // namespace adaptdl::supervisor
