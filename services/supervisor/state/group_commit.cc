#include "services/supervisor/state/group_commit.h"

#include <utility>

#include "libs/base/clock.h"

namespace adaptdl::supervisor {

GroupCommit::GroupCommit(std::function<absl::Status()> sync,
                         std::function<void(const absl::Status&)> on_failure)
    : sync_(std::move(sync)), on_failure_(std::move(on_failure)) {
  if (sync_ != nullptr) thread_ = std::thread([this] { Run(); });
}

GroupCommit::~GroupCommit() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.Signal();
  if (thread_.joinable()) thread_.join();
}

void GroupCommit::Committed() {
  if (sync_ == nullptr) return;
  {
    MutexLock lock(&mutex_);
    ++committed_;
  }
  wake_.Signal();
}

void GroupCommit::WhenDurable(std::function<void()> action) {
  {
    MutexLock lock(&mutex_);
    if (durable_ < committed_ || running_actions_ || !actions_.empty()) {
      actions_.emplace_back(committed_, std::move(action));
      wake_.Signal();
      return;
    }
  }
  action();
}

size_t GroupCommit::waiting() const {
  MutexLock lock(&mutex_);
  return actions_.size();
}

void GroupCommit::SetOnSync(std::function<void(absl::Duration)> on_sync) {
  MutexLock lock(&mutex_);
  on_sync_ = std::move(on_sync);
}

bool GroupCommit::HasWork() const { return durable_ < committed_ || !actions_.empty(); }

void GroupCommit::Run() {
  while (true) {
    uint64_t target = 0;
    bool sync = false;
    std::function<void(absl::Duration)> on_sync;
    {
      MutexLock lock(&mutex_);
      while (!HasWork() && !stopping_) wake_.Wait(&mutex_);
      if (!HasWork()) return;
      target = committed_;
      sync = durable_ < target;
      on_sync = on_sync_;
    }
    if (sync) {
      const absl::Time begin = SteadyNow();
      if (const absl::Status status = sync_(); !status.ok()) {
        on_failure_(status);
        return;
      }
      on_sync(SteadyNow() - begin);
    }
    std::deque<std::pair<uint64_t, std::function<void()>>> due;
    {
      MutexLock lock(&mutex_);
      durable_ = target;
      while (!actions_.empty() && actions_.front().first <= durable_) {
        due.push_back(std::move(actions_.front()));
        actions_.pop_front();
      }
      running_actions_ = true;
    }
    for (auto& [number, action] : due) action();
    MutexLock lock(&mutex_);
    running_actions_ = false;
  }
}

}  // namespace adaptdl::supervisor
