// Time as a dependency: whatever asks for the time takes a Clock, so that tests decide what time it is.
//
// Thread-safety: all implementations are thread-safe.

#ifndef ADAPTDL_LIBS_BASE_CLOCK_H_
#define ADAPTDL_LIBS_BASE_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace adaptdl {

class Clock {
 public:
  virtual ~Clock() = default;

  // Wall time.
  virtual absl::Time Now() const = 0;
};

// The machine's clock.
class RealClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_CLOCK_H_
