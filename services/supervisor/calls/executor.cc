#include "services/supervisor/calls/executor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

namespace adaptdl::supervisor {
namespace {

// What heartbeats wait for goes first when there is more to do than there are processors: a replica that is
// told of something late is better than one that is given up. Those threads have niceness 0.
constexpr int kNiceness = 5;

}  // namespace

Executor::Executor(int threads, int per_caller, Invariants* invariants)
    : per_caller_(std::max(1, per_caller)), invariants_(invariants) {
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

void Executor::Post(const std::string& caller, std::function<void()> task) {
  {
    MutexLock lock(&mutex_);
    ++waiting_;
    if (caller.empty()) {
      own_.push_back(std::move(task));
    } else {
      Lane& lane = lanes_[caller];
      lane.tasks.push_back(std::move(task));
      List(caller, &lane);
    }
  }
  wake_.Signal();
}

size_t Executor::waiting() const {
  MutexLock lock(&mutex_);
  return waiting_;
}

void Executor::List(const std::string& caller, Lane* lane) {
  if (lane->listed || lane->tasks.empty() || lane->running >= per_caller_) return;
  lane->listed = true;
  turns_.push_back(caller);
}

std::function<void()> Executor::Take(std::string* caller) {
  own_turn_ = !own_.empty() && (turns_.empty() || !own_turn_);
  std::deque<std::function<void()>>* tasks = &own_;
  if (!own_turn_) {
    *caller = std::move(turns_.front());
    turns_.pop_front();
    Lane& lane = lanes_.at(*caller);
    lane.listed = false;
    ++lane.running;
    tasks = &lane.tasks;
  }
  std::function<void()> task = std::move(tasks->front());
  tasks->pop_front();
  --waiting_;
  if (!own_turn_) List(*caller, &lanes_.at(*caller));
  return task;
}

void Executor::Ended(const std::string& caller) {
  if (caller.empty()) return;
  const auto lane = lanes_.find(caller);
  --lane->second.running;
  List(caller, &lane->second);
  if (lane->second.running == 0 && lane->second.tasks.empty()) lanes_.erase(lane);
}

void Executor::Run() {
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
  while (true) {
    std::string caller;
    std::function<void()> task;
    {
      MutexLock lock(&mutex_);
      // At the end, what waits for its caller's other tasks is run by the thread that runs those.
      while (own_.empty() && turns_.empty() && !stopping_) wake_.Wait(&mutex_);
      if (own_.empty() && turns_.empty()) return;
      task = Take(&caller);
    }
    invariants_
        ->Guard("task",
                [&] {
                  task();
                  return absl::OkStatus();
                })
        .IgnoreError();
    task = nullptr;
    // This thread comes back for what may run now.
    MutexLock lock(&mutex_);
    Ended(caller);
  }
}

}  // namespace adaptdl::supervisor
