#include "libs/kube/control/work_queue.h"

#include "libs/base/backoff.h"

namespace adaptdl::kube {

void WorkQueue::Add(const ObjectKey& key) {
  MutexLock lock(&mutex_);
  MakeReady(key);
}

void WorkQueue::AddAfter(const ObjectKey& key, absl::Duration delay) {
  MutexLock lock(&mutex_);
  if (delay <= absl::ZeroDuration()) return MakeReady(key);
  Delay(key, clock_.Steady() + delay);
}

void WorkQueue::MakeReady(const ObjectKey& key) {
  Undelay(key);
  Item& item = items_[key];
  if (item.is_taken) item.is_due_again = true;
  if (item.is_taken || item.is_ready) return;
  item.is_ready = true;
  ready_.push_back(key);
  changed_.Signal();
}

void WorkQueue::Delay(const ObjectKey& key, absl::Time due) {
  Item& item = items_[key];
  if (item.is_ready || (item.due.has_value() && *item.due <= due)) return;
  Undelay(key);
  item.due = due;
  delayed_.insert({due, key});
  changed_.Signal();  // it may be the first whose time comes
}

void WorkQueue::Undelay(const ObjectKey& key) {
  const auto found = items_.find(key);
  if (found == items_.end() || !found->second.due.has_value()) return;
  delayed_.erase({*found->second.due, key});
  found->second.due.reset();
}

void WorkQueue::Ripen() {
  const absl::Time now = clock_.Steady();
  while (!delayed_.empty() && delayed_.begin()->first <= now) MakeReady(ObjectKey(delayed_.begin()->second));
}

std::optional<ObjectKey> WorkQueue::TakeReady() {
  Ripen();
  if (ready_.empty()) return std::nullopt;
  ObjectKey key = std::move(ready_.front());
  ready_.pop_front();
  Item& item = items_[key];
  item.is_ready = false;
  item.is_taken = true;
  // Whoever waits next has this one's time to wait for, or its object to take.
  if (!ready_.empty() || !delayed_.empty()) changed_.Signal();
  return key;
}

std::optional<ObjectKey> WorkQueue::TryTake() {
  MutexLock lock(&mutex_);
  return TakeReady();
}

std::optional<ObjectKey> WorkQueue::Take(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  MutexLock lock(&mutex_);
  while (!stop.stop_requested()) {
    if (std::optional<ObjectKey> key = TakeReady(); key.has_value()) return key;
    if (delayed_.empty()) {
      changed_.Wait(&mutex_);
    } else {
      changed_.WaitFor(&mutex_, delayed_.begin()->first - clock_.Steady());
    }
  }
  return std::nullopt;
}

void WorkQueue::Done(const ObjectKey& key) {
  MutexLock lock(&mutex_);
  Item& item = items_[key];
  item.is_taken = false;
  item.failures = 0;
  if (std::exchange(item.is_due_again, false)) return MakeReady(key);
  ForgetUnlessUsed(key);
}

void WorkQueue::Retry(const ObjectKey& key) {
  MutexLock lock(&mutex_);
  Item& item = items_[key];
  item.is_taken = false;
  ++item.failures;
  // What has changed meanwhile may be what it failed for.
  if (std::exchange(item.is_due_again, false)) return MakeReady(key);
  Delay(key, clock_.Steady() + BackoffAfter(item.failures, options_.first_pause, options_.longest_pause));
}

void WorkQueue::ForgetUnlessUsed(const ObjectKey& key) {
  const Item& item = items_[key];
  if (!item.is_ready && !item.is_taken && !item.due.has_value()) items_.erase(key);
}

size_t WorkQueue::ready() const {
  MutexLock lock(&mutex_);
  return ready_.size();
}

size_t WorkQueue::delayed() const {
  MutexLock lock(&mutex_);
  return delayed_.size();
}

}  // namespace adaptdl::kube
