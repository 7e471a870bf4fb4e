#include "libs/rpc/steady_waits.h"

#include "absl/base/config.h"

#if defined(ABSL_LTS_RELEASE_VERSION) && ABSL_LTS_RELEASE_VERSION < 20230125 && defined(__linux__)

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "absl/base/internal/thread_identity.h"
#include "absl/synchronization/internal/create_thread_identity.h"
#include "absl/synchronization/internal/kernel_timeout.h"
#include "absl/synchronization/internal/per_thread_sem.h"
#include "absl/synchronization/internal/waiter.h"

namespace {

using absl::base_internal::ThreadIdentity;
using absl::synchronization_internal::KernelTimeout;

constexpr int64_t kNanosPerSecond = 1'000'000'000;

int64_t NanosOf(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * kNanosPerSecond + now.tv_nsec;
}

// Nanoseconds of the wall clock at which the wait ends; 0: never.
int64_t EndOf(KernelTimeout timeout) {
  static_assert(sizeof(KernelTimeout) == sizeof(int64_t));
  int64_t nanos = 0;
  std::memcpy(&nanos, &timeout, sizeof(nanos));
  return nanos;
}

// Takes one from the semaphore, or returns false when `timeout` is over.
bool Take(std::atomic<int32_t>* semaphore, KernelTimeout timeout) {
  const bool limited = timeout.has_timeout();
  // The one look at the wall clock: the end was counted from it just now.
  const int64_t end = limited ? NanosOf(CLOCK_MONOTONIC) + (EndOf(timeout) - NanosOf(CLOCK_REALTIME)) : 0;
  while (true) {
    int32_t count = semaphore->load(std::memory_order_relaxed);
    while (count != 0) {
      if (semaphore->compare_exchange_weak(count, count - 1, std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
        return true;
      }
    }
    timespec left{};
    if (limited) {
      const int64_t nanos = end - NanosOf(CLOCK_MONOTONIC);
      if (nanos <= 0) return false;
      left = {static_cast<time_t>(nanos / kNanosPerSecond), static_cast<long>(nanos % kNanosPerSecond)};
    }
    // Whatever wakes it, the loop looks again.
    syscall(SYS_futex, semaphore, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, limited ? &left : nullptr);
  }
}

}  // namespace

// What Abseil's own does, but for the clock. Post() stays Abseil's: both use the same word.
extern "C" __attribute__((visibility("default"))) bool ABSL_INTERNAL_C_SYMBOL(AbslInternalPerThreadSemWait)(
    KernelTimeout timeout) {
  static_assert(ABSL_WAITER_MODE == ABSL_WAITER_MODE_FUTEX);
  static_assert(sizeof(absl::synchronization_internal::Waiter) == sizeof(std::atomic<int32_t>));
  ThreadIdentity* identity = absl::synchronization_internal::GetOrCreateCurrentThreadIdentity();
  const int ticker = identity->ticker.load(std::memory_order_relaxed);
  identity->wait_start.store(ticker != 0 ? ticker : 1, std::memory_order_relaxed);
  identity->is_idle.store(false, std::memory_order_relaxed);
  std::atomic<int>* blocked = identity->blocked_count_ptr;
  if (blocked != nullptr) blocked->fetch_add(1, std::memory_order_relaxed);
  const int saved_errno = errno;
  const bool taken = Take(reinterpret_cast<std::atomic<int32_t>*>(identity->waiter_state.data), timeout);
  errno = saved_errno;
  if (identity->blocked_count_ptr != nullptr) {
    identity->blocked_count_ptr->fetch_sub(1, std::memory_order_relaxed);
  }
  identity->is_idle.store(false, std::memory_order_relaxed);
  identity->wait_start.store(0, std::memory_order_relaxed);
  return taken;
}

#endif

namespace adaptdl::rpc {

void LinkSteadyWaits() {}

}  // namespace adaptdl::rpc
