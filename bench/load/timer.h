// Runs short functions at given times, on one thread. Thread-safe.

#ifndef ADAPTDL_BENCH_LOAD_TIMER_H_
#define ADAPTDL_BENCH_LOAD_TIMER_H_

#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace adaptdl::load {

class Timer {
 public:
  Timer() : thread_([this] { Run(); }) {}
  ~Timer() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
    }
    wake_.SignalAll();
    thread_.join();
  }

  void At(absl::Time time, std::function<void()> function) {
    MutexLock lock(&mutex_);
    functions_.emplace(time, std::move(function));
    wake_.SignalAll();
  }
  void After(absl::Duration delay, std::function<void()> function) {
    At(absl::Now() + delay, std::move(function));
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> function;
      {
        MutexLock lock(&mutex_);
        if (stopping_) return;
        const absl::Time now = absl::Now();
        if (functions_.empty() || functions_.begin()->first > now) {
          wake_.WaitFor(&mutex_, functions_.empty() ? absl::Seconds(1) : functions_.begin()->first - now);
          continue;
        }
        function = std::move(functions_.begin()->second);
        functions_.erase(functions_.begin());
      }
      function();
    }
  }

  Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::multimap<absl::Time, std::function<void()>> functions_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_TIMER_H_
