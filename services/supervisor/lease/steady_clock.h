// Time that only goes forward, also while the machine sleeps: leases are measured by it. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LEASE_STEADY_CLOCK_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LEASE_STEADY_CLOCK_H_

#include <time.h>

#include "absl/time/time.h"

namespace adaptdl::supervisor {

class SteadyClock {
 public:
  virtual ~SteadyClock() = default;

  // Since some moment in the past. Two machines' clocks can't be compared.
  virtual absl::Duration Now() const = 0;
};

class RealSteadyClock final : public SteadyClock {
 public:
  absl::Duration Now() const override {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return absl::DurationFromTimespec(now);
  }
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LEASE_STEADY_CLOCK_H_
