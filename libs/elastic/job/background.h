// A thread that does something every so often, until it is stopped.
//
// Thread-safety: Start() and Stop() by one thread.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_BACKGROUND_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_BACKGROUND_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace adaptdl::elastic {

class Background {
 public:
  Background() = default;
  ~Background() { Stop(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Once.
  void Start(absl::Duration period, std::function<void()> tick) {
    thread_ = std::thread([this, period, tick = std::move(tick)] {
      while (Wait(period)) tick();
    });
  }

  // Waits for a tick that is under way. Idempotent.
  void Stop() {
    {
      MutexLock lock(&mutex_);
      ending_ = true;
      changed_.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  // False: it is to end.
  bool Wait(absl::Duration period) {
    MutexLock lock(&mutex_);
    if (!ending_) changed_.WaitFor(&mutex_, period);
    return !ending_;
  }

  Mutex mutex_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_BACKGROUND_H_
