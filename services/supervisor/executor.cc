#include "services/supervisor/executor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace adaptdl::supervisor {
namespace {

// What heartbeats wait for goes first when there is more to do than there are processors: a replica that is
// told of something late is better than one that is given up. Those threads have niceness 0.
constexpr int kNiceness = 5;

}  // namespace

Executor::Executor(int threads, Invariants* invariants) : invariants_(invariants) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

Executor::~Executor() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.SignalAll();
  for (std::thread& thread : threads_) thread.join();
}

void Executor::Post(std::function<void()> task) {
  {
    MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.Signal();
}

size_t Executor::waiting() const {
  MutexLock lock(&mutex_);
  return tasks_.size();
}

void Executor::Run() {
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(&mutex_);
      while (tasks_.empty() && !stopping_) wake_.Wait(&mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    invariants_
        ->Guard("task",
                [&] {
                  task();
                  return absl::OkStatus();
                })
        .IgnoreError();
  }
}

}  // namespace adaptdl::supervisor
