// A clock that stands still until a test moves it.
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

  absl::Time Now() const override { return absl::FromUnixNanos(nanoseconds_.load()); }

  void Advance(absl::Duration duration) { nanoseconds_ += absl::ToInt64Nanoseconds(duration); }

 private:
  std::atomic<int64_t> nanoseconds_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_MANUAL_CLOCK_H_
