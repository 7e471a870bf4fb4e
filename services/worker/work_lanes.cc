#include "services/worker/work_lanes.h"

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace adaptdl::worker {

ThreadLanes::~ThreadLanes() { Finish(); }

void ThreadLanes::Post(const std::string& lane, std::function<void()> work) {
  MutexLock lock(&mutex_);
  if (finishing_) return;
  const auto [it, idle] = lanes_.try_emplace(lane);
  it->second.push_back(std::move(work));
  if (!idle) return;
  ready_.push_back(lane);
  if (ready_.size() > idle_ && threads_.size() < max_threads_) threads_.emplace_back([this] { Run(); });
  wake_.Signal();
}

void ThreadLanes::Finish() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    finishing_ = true;
    threads.swap(threads_);
    wake_.SignalAll();
  }
  for (std::thread& thread : threads) thread.join();
}

void ThreadLanes::Run() {
  while (true) {
    std::string lane;
    std::function<void()> work;
    {
      MutexLock lock(&mutex_);
      ++idle_;
      while (ready_.empty() && !finishing_) wake_.Wait(&mutex_);
      --idle_;
      if (ready_.empty()) return;
      lane = std::move(ready_.front());
      ready_.pop_front();
      std::deque<std::function<void()>>& waiting = lanes_[lane];
      work = std::move(waiting.front());
      waiting.pop_front();
    }
    work();
    MutexLock lock(&mutex_);
    const auto it = lanes_.find(lane);
    if (it->second.empty()) {
      lanes_.erase(it);
    } else {
      ready_.push_back(lane);  // behind the others
    }
  }
}

}  // namespace adaptdl::worker
