#include "services/supervisor/replicas/report_limiter.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

namespace adaptdl::supervisor {
namespace {

// Kinds of events of one job that are held back at a time; others are left out.
constexpr size_t kMostHeld = 64;

}  // namespace

bool ReportLimiter::Take(const std::string& who, absl::Time now) {
  MutexLock lock(&mutex_);
  return buckets_.Take(who, now);
}

absl::Duration ReportLimiter::Wait(const std::string& who, absl::Time now) const {
  MutexLock lock(&mutex_);
  return buckets_.Wait(who, now);
}

void ReportLimiter::Report(Transaction* transaction, const std::string& uid, const jobs::Event& event) {
  MutexLock lock(&mutex_);
  if (buckets_.Take(uid, transaction->now())) {
    transaction->AddRepeatedEvent(uid, event, Repetition());
  } else {
    HoldBack(uid, event, transaction->now());
  }
}

void ReportLimiter::HoldBack(const std::string& uid, const jobs::Event& event, absl::Time now) {
  auto& events = held_[uid].events;
  const EventKey key = Transaction::KeyOf(event, 0);
  if (events.size() >= kMostHeld && events.count(key) == 0) return;
  auto& [latest, repetition] = events[key];
  latest = event;
  if (repetition.count++ == 0) repetition.first = now;
}

void ReportLimiter::ReportCheckpoint(Transaction* transaction, const std::string& uid,
                                     const std::string& error, const jobs::Event& event) {
  MutexLock lock(&mutex_);
  const auto held = held_.find(uid);
  const bool waits = held != held_.end() && held->second.checkpoint_error.has_value();
  const std::string before =
      waits ? *held->second.checkpoint_error : transaction->FindJob(uid)->record.checkpoint_error;
  if (before == error) return;
  // Only the first failure and its end are news: what is wrong may be told in other words each time.
  const bool news = before.empty() != error.empty();
  if (waits || !buckets_.Take(uid, transaction->now())) {
    if (news) HoldBack(uid, event, transaction->now());
    held_[uid].checkpoint_error = error;
    return;
  }
  transaction->EditJobInMemory(uid)->record.checkpoint_error = error;
  if (news) transaction->AddRepeatedEvent(uid, event, Repetition());
}

std::map<std::string, ReportLimiter::Held> ReportLimiter::TakeDue(const Transaction& transaction) {
  MutexLock lock(&mutex_);
  std::map<std::string, Held> due;
  for (auto it = held_.begin(); it != held_.end();) {
    const bool gone = transaction.FindJob(it->first) == nullptr;
    const bool now = !gone && buckets_.Take(it->first, transaction.now());
    if (now) due.insert(*it);
    it = gone || now ? held_.erase(it) : std::next(it);
  }
  return due;
}

void ReportLimiter::Return(std::map<std::string, Held> held) {
  MutexLock lock(&mutex_);
  for (auto& [uid, older] : held) {
    Held& now = held_[uid];
    if (!now.checkpoint_error.has_value()) now.checkpoint_error = std::move(older.checkpoint_error);
    for (auto& [key, event] : older.events) {
      const auto [place, is_new] = now.events.emplace(key, event);
      if (is_new) continue;
      Repetition& repetition = place->second.second;
      repetition.count += event.second.count;
      repetition.first = std::min(repetition.first, event.second.first);
    }
  }
}

void ReportLimiter::Step() {
  std::map<std::string, Held> due;
  const absl::Status status = core_->Update([&](Transaction* transaction) {
    due = TakeDue(*transaction);
    for (const auto& [uid, held] : due) {
      if (held.checkpoint_error.has_value()) {
        transaction->EditJob(uid)->record.checkpoint_error = *held.checkpoint_error;
      }
      for (const auto& [key, event] : held.events) {
        // The last of them is the event, and those before it are counted.
        Repetition before = event.second;
        --before.count;
        transaction->AddRepeatedEvent(uid, event.first, before);
      }
    }
    return absl::OkStatus();
  });
  // If it can't be stored, it is held back longer.
  if (!status.ok()) Return(std::move(due));
}

}  // namespace adaptdl::supervisor
