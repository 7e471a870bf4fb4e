// How often something may be done: `burst` times at once, and then once per `period`. Whoever is too early
// waits.
//
// Thread-safe. The clock and the pauses outlive it.

#ifndef ADAPTDL_LIBS_KUBE_CLIENT_RATE_LIMIT_H_
#define ADAPTDL_LIBS_KUBE_CLIENT_RATE_LIMIT_H_

#include <stop_token>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/base/token_buckets.h"
#include "libs/http/pauses.h"

namespace adaptdl::kube {

class RateLimit {
 public:
  RateLimit(int burst, absl::Duration period, const Clock* clock, const Pauses* pauses)
      : clock_(*clock), pauses_(*pauses), buckets_(burst, period) {}

  // Returns when it is the caller's turn. False: a stop was requested.
  bool Await(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const absl::Duration wait = TakeOrWait();
      if (wait <= absl::ZeroDuration()) return true;
      pauses_.WaitFor(wait, stop);
    }
    return false;
  }

 private:
  // Zero: one was taken.
  absl::Duration TakeOrWait() {
    MutexLock lock(&mutex_);
    const absl::Time now = clock_.Steady();
    return buckets_.Take("", now) ? absl::ZeroDuration() : buckets_.Wait("", now);
  }

  const Clock& clock_;
  const Pauses& pauses_;
  Mutex mutex_;
  TokenBuckets buckets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CLIENT_RATE_LIMIT_H_
