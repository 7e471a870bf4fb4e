// Time as a dependency: whatever asks for the time takes a Clock, so that tests decide what time it is.
//
// There are two kinds. Wall time is what people read, what certificates and tokens expire by, and what
// outlives a process; somebody may set it forward or back at any moment. Steady time only goes on, also while
// the machine sleeps (CLOCK_BOOTTIME; std::chrono::steady_clock stands still then): whatever lasts for a
// while in one process is measured by it: leases, timers, time-outs, pauses. No two processes' steady times
// can be compared.
//
// Thread-safety: all implementations are thread-safe, and so are the functions.

#ifndef ADAPTDL_LIBS_BASE_CLOCK_H_
#define ADAPTDL_LIBS_BASE_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace adaptdl {

// The machine's steady time. Only differences have a meaning; that it is close to the wall time of the
// process's start makes it easy to read, and no more.
absl::Time SteadyNow();

// Both at once, of one moment. As a time it is the steady one: a stamp for people has to be asked for.
struct Moment {
  absl::Time steady;
  absl::Time wall;

  operator absl::Time() const { return steady; }  // NOLINT(google-explicit-constructor)

  // What the wall shows, or would, at this steady time: for people, and for what is stored. And back: for
  // what was stored. Infinite times stay.
  absl::Time ToWall(absl::Time time) const { return wall + (time - steady); }
  absl::Time ToSteady(absl::Time time) const { return steady + (time - wall); }
};

class Clock {
 public:
  virtual ~Clock() = default;

  // Wall time.
  virtual absl::Time Now() const = 0;

  // Steady time.
  virtual absl::Time Steady() const = 0;

  // Returns when so much of it has passed. For waits that nothing ends early.
  virtual void SleepFor(absl::Duration duration) const = 0;

  Moment Both() const { return {Steady(), Now()}; }
};

// The machine's clock.
class RealClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  absl::Time Steady() const override { return SteadyNow(); }
  void SleepFor(absl::Duration duration) const override { absl::SleepFor(duration); }
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_CLOCK_H_
