// Preloaded into a program, shows it a wall clock that somebody sets while it runs:
//
//   env LD_PRELOAD=libshifted_clock.so SHIFTED_CLOCK_FILE=/tmp/offset program
//
// The file holds eight bytes, the nanoseconds that CLOCK_REALTIME is ahead. Other clocks are what they are.
// Waits until a moment of the wall clock end when the shifted clock gets there, as the kernel's do when the
// real one is set.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

constexpr int64_t kSecond = 1'000'000'000;
// How often a wait looks at the clock.
constexpr int64_t kSlice = kSecond / 20;

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int RealTime(clockid_t clock, timespec* time) {
  static const auto next = Next<int (*)(clockid_t, timespec*)>("clock_gettime");
  return next(clock, time);
}

// The file, in memory. Null: none is named, and the clock is the machine's.
const std::atomic<int64_t>* MapOffset() {
  const char* path = std::getenv("SHIFTED_CLOCK_FILE");
  const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<const std::atomic<int64_t>*>(memory);
}

int64_t Offset() {
  static const std::atomic<int64_t>* const offset = MapOffset();
  return offset == nullptr ? 0 : offset->load();
}

int64_t ToNanos(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }
timespec ToTimespec(int64_t nanos) {
  return {static_cast<time_t>(nanos / kSecond), static_cast<long>(nanos % kSecond)};
}

int64_t Now(clockid_t clock) {
  timespec now{};
  RealTime(clock, &now);
  return ToNanos(now) + (clock == CLOCK_REALTIME ? Offset() : 0);
}

// Calls `wait` (until a moment of CLOCK_MONOTONIC; true: something else than the time has ended it) until it
// is `end` by the shifted clock. Whether something else has.
template <typename Wait>
bool WaitInSlices(const timespec& end, const Wait& wait) {
  while (true) {
    const int64_t left = ToNanos(end) - Now(CLOCK_REALTIME);
    const timespec slice_end = ToTimespec(Now(CLOCK_MONOTONIC) + std::clamp<int64_t>(left, 0, kSlice));
    if (wait(slice_end)) return true;
    if (left <= 0) return false;
  }
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): these names are the system's.
extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = RealTime(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    *time = ToTimespec(ToNanos(*time) + Offset());
  }
  return result;
}

int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  const int64_t now = Now(CLOCK_REALTIME);
  *time = {static_cast<time_t>(now / kSecond), static_cast<suseconds_t>(now % kSecond / 1000)};
  return 0;
}

time_t time(time_t* time) noexcept {
  const auto now = static_cast<time_t>(Now(CLOCK_REALTIME) / kSecond);
  if (time != nullptr) *time = now;
  return now;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* end) {
  static const auto next =
      Next<int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  // glibc's bit for "by CLOCK_MONOTONIC".
  if ((condition->__data.__wrefs & 2) != 0) return next(condition, mutex, end);
  int result = 0;
  const bool ended = WaitInSlices(*end, [&](const timespec& slice_end) {
    result = pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &slice_end);
    return result != ETIMEDOUT;
  });
  return ended ? result : ETIMEDOUT;
}

// Abseil's waits come this way.
long syscall(long number, ...) noexcept {
  static const auto next = Next<long (*)(long, long, long, long, long, long, long)>("syscall");
  va_list list;
  va_start(list, number);
  long argument[6];
  for (long& one : argument) one = va_arg(list, long);
  va_end(list);
  const auto call = [&] {
    return next(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
  };
  const auto* end = reinterpret_cast<const timespec*>(argument[3]);
  if (number != SYS_futex || (argument[1] & FUTEX_CLOCK_REALTIME) == 0 || end == nullptr) return call();
  argument[1] &= ~FUTEX_CLOCK_REALTIME;
  long result = 0;
  const bool ended = WaitInSlices(*end, [&](const timespec& slice_end) {
    argument[3] = reinterpret_cast<long>(&slice_end);
    result = call();
    return result == 0 || errno != ETIMEDOUT;
  });
  if (!ended) errno = ETIMEDOUT;
  return ended ? result : -1;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
