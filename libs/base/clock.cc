#include "libs/base/clock.h"

#include <ctime>

namespace adaptdl {
namespace {

absl::Duration SinceBoot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace

absl::Time SteadyNow() {
  static const absl::Time boot = absl::Now() - SinceBoot();
  return boot + SinceBoot();
}

}  // namespace adaptdl
