#include "services/supervisor/state/change_hub.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

namespace adaptdl::supervisor {

void Changes::Merge(const Changes& other) {
  for (const auto& [uid, change] : other.jobs) {
    const auto [it, is_new] = jobs.emplace(uid, change);
    if (!is_new) it->second.for_followers = it->second.for_followers || change.for_followers;
  }
  for (const auto& [uid, job] : other.deleted) deleted[uid] = job;
  nodes.insert(other.nodes.begin(), other.nodes.end());
  quotas = quotas || other.quotas;
  cluster = cluster || other.cluster;
  version = std::max(version, other.version);
}

void ClusterNews::Add(const Changes& changes) {
  for (const auto& [uid, change] : changes.jobs) jobs.insert(uid);
  for (const auto& [uid, job] : changes.deleted) jobs.insert(uid);
  nodes.insert(changes.nodes.begin(), changes.nodes.end());
  quotas = quotas || changes.quotas;
  version = std::max(version, changes.version);
}

ChangeHub::ChangeHub() : thread_([this] { Run(); }) {}

ChangeHub::~ChangeHub() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.SignalAll();
  thread_.join();
}

void ChangeHub::Subscribe(std::weak_ptr<ChangeListener> listener) {
  MutexLock lock(&mutex_);
  all_.push_back(std::move(listener));
  Grown();
}

void ChangeHub::SubscribeToJob(const std::string& job_uid, std::weak_ptr<ChangeListener> listener) {
  MutexLock lock(&mutex_);
  by_job_[job_uid].push_back(std::move(listener));
  Grown();
}

void ChangeHub::Grown() {
  if (++count_ < sweep_at_) return;
  const auto dead = [](const std::weak_ptr<ChangeListener>& listener) { return listener.expired(); };
  all_.remove_if(dead);
  count_ = all_.size();
  for (auto it = by_job_.begin(); it != by_job_.end();) {
    it->second.remove_if(dead);
    count_ += it->second.size();
    it = it->second.empty() ? by_job_.erase(it) : std::next(it);
  }
  sweep_at_ = std::max(kFewestSwept, 2 * count_);
}

size_t ChangeHub::size() const {
  MutexLock lock(&mutex_);
  size_t size = all_.size();
  for (const auto& [uid, listeners] : by_job_) size += listeners.size();
  return size;
}

void ChangeHub::Notify(const Changes& changes) {
  if (changes.empty()) return;
  {
    MutexLock lock(&mutex_);
    pending_.Merge(changes);
  }
  wake_.Signal();
}

void ChangeHub::Run() {
  while (true) {
    Changes changes;
    {
      MutexLock lock(&mutex_);
      while (pending_.empty() && !stopping_) wake_.Wait(&mutex_);
      if (stopping_) return;
      std::swap(changes, pending_);
    }
    Deliver(changes);
  }
}

void ChangeHub::Deliver(const Changes& changes) {
  std::list<std::shared_ptr<ChangeListener>> listeners;
  {
    MutexLock lock(&mutex_);
    Collect(&all_, &listeners);
    for (const auto& [uid, change] : changes.jobs) {
      if (change.for_followers) CollectFollowers(uid, &listeners);
    }
    for (const auto& [uid, job] : changes.deleted) CollectFollowers(uid, &listeners);
  }
  for (const auto& listener : listeners) listener->OnChanges(changes);
}

void ChangeHub::CollectFollowers(const std::string& uid, std::list<std::shared_ptr<ChangeListener>>* living) {
  const auto it = by_job_.find(uid);
  if (it == by_job_.end()) return;
  Collect(&it->second, living);
  if (it->second.empty()) by_job_.erase(it);
}

void ChangeHub::Collect(Listeners* listeners, std::list<std::shared_ptr<ChangeListener>>* living) {
  for (auto it = listeners->begin(); it != listeners->end();) {
    std::shared_ptr<ChangeListener> listener = it->lock();
    if (listener == nullptr) {
      it = listeners->erase(it);
    } else {
      living->push_back(std::move(listener));
      ++it;
    }
  }
}

}  // namespace adaptdl::supervisor
