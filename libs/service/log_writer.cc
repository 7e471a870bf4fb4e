#include "libs/service/log_writer.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <thread>
#include <utility>

#include "libs/base/clock.h"

namespace adaptdl::log {

void Writer::Post(std::function<void()> write) {
  MutexLock lock(&mutex_);
  if (!started_) Start();
  if (waiting_.size() >= kMostWaiting) {
    ++lost_;
    return;
  }
  waiting_.push_back(std::move(write));
  ++posted_;
  wake_.Signal();
}

void Writer::Start() {
  started_ = true;
  // Signals are for the threads that the program knows of.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] { Run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Writer::Run() {
  while (true) {
    std::deque<std::function<void()>> due;
    int64_t lost = 0;
    {
      MutexLock lock(&mutex_);
      while (waiting_.empty()) wake_.Wait(&mutex_);
      due.swap(waiting_);
      lost = std::exchange(lost_, 0);
    }
    for (const std::function<void()>& write : due) write();
    if (lost > 0) dropped_(lost);
    MutexLock lock(&mutex_);
    done_ += due.size();
    written_.SignalAll();
  }
}

bool Writer::Flush(absl::Duration patience) {
  const absl::Time deadline = SteadyNow() + patience;
  MutexLock lock(&mutex_);
  const uint64_t target = posted_;
  while (done_ < target) {
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    written_.WaitFor(&mutex_, left);
  }
  return true;
}

}  // namespace adaptdl::log
