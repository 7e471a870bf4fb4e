// A clock that stands still until a test moves it, somebody sleeps by it, or its wall time is set.
//
// Thread-safety: thread-safe.

#ifndef ADAPTDL_LIBS_BASE_MANUAL_CLOCK_H_
#define ADAPTDL_LIBS_BASE_MANUAL_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "libs/base/clock.h"

namespace adaptdl {

class ManualClock final : public Clock {
 public:
  explicit ManualClock(absl::Time start = absl::FromUnixSeconds(1'000'000'000))
      : nanoseconds_(absl::ToUnixNanos(start)) {}

  absl::Time Now() const override {
    return absl::FromUnixNanos(nanoseconds_.load() + wall_step_nanoseconds_.load());
  }
  absl::Time Steady() const override { return absl::FromUnixNanos(nanoseconds_.load()); }
  // At once: it moves the clock.
  void SleepFor(absl::Duration duration) const override {
    nanoseconds_ += absl::ToInt64Nanoseconds(duration);
  }

  void Advance(absl::Duration duration) { nanoseconds_ += absl::ToInt64Nanoseconds(duration); }

  // Somebody sets the wall clock forward, or back.
  void StepWall(absl::Duration step) { wall_step_nanoseconds_ += absl::ToInt64Nanoseconds(step); }

 private:
  mutable std::atomic<int64_t> nanoseconds_;
  std::atomic<int64_t> wall_step_nanoseconds_ = 0;
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_MANUAL_CLOCK_H_
