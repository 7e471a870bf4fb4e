// Pauses between tries of something that fails: the first, then each twice as long as the one before, up to
// the longest.
//
//   Backoff backoff(absl::Milliseconds(100), absl::Seconds(5));
//   while (!Try()) Wait(backoff.Next());
//   backoff.Reset();
//
// It neither waits nor looks at a clock: whoever uses it does, on the clock it was given. Not thread-safe.

#ifndef ADAPTDL_LIBS_BASE_BACKOFF_H_
#define ADAPTDL_LIBS_BASE_BACKOFF_H_

#include <algorithm>

#include "absl/time/time.h"

namespace adaptdl {

// The pause after so many failures in a row; the first after one, or none.
inline absl::Duration BackoffAfter(int failures, absl::Duration first, absl::Duration longest) {
  absl::Duration pause = first;
  for (int i = 1; i < failures && pause < longest; ++i) pause *= 2;
  return std::min(pause, longest);
}

class Backoff {
 public:
  Backoff(absl::Duration first, absl::Duration longest) : first_(first), longest_(longest), next_(first) {}

  // How long to wait after this failure.
  absl::Duration Next() {
    const absl::Duration pause = std::min(next_, longest_);
    next_ = 2 * pause;
    return pause;
  }

  // It has worked, or is to be tried anew.
  void Reset() { next_ = first_; }

 private:
  absl::Duration first_;
  absl::Duration longest_;
  absl::Duration next_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_BACKOFF_H_
