#include "libs/elastic/group/connector.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::elastic {

Connector::~Connector() {
  std::thread thread;
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    changed_.SignalAll();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Connector::Begin(const GroupMembership& group) {
  MutexLock lock(&mutex_);
  if (group.group <= wanted_.group || ending_) return;
  wanted_ = group;
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.SignalAll();
}

bool Connector::IsOver(int64_t group) const { return done_ >= group || wanted_.group > group; }

bool Connector::IsDone(int64_t group) const {
  MutexLock lock(&mutex_);
  return IsOver(group);
}

bool Connector::idle() const {
  MutexLock lock(&mutex_);
  return done_ >= wanted_.group;
}

Connector::Connected Connector::Take(const GroupMembership& group) {
  Begin(group);
  MutexLock lock(&mutex_);
  while (!IsOver(group.group) && !ending_) changed_.Wait(&mutex_);
  if (done_ != group.group || !connected_) {
    return absl::AbortedError(absl::StrCat("group ", group.group, " is over before it began"));
  }
  Connected connected = *std::move(connected_);
  connected_.reset();
  return connected;
}

void Connector::Run() {
  for (;;) {
    GroupMembership group;
    {
      MutexLock lock(&mutex_);
      while (!ending_ && done_ >= wanted_.group) changed_.Wait(&mutex_);
      if (ending_) return;
      group = wanted_;
    }
    Connected connected = connect_(group);
    // Destroyed without the lock: to bid a group farewell may take a moment.
    std::optional<Connected> dropped;
    {
      MutexLock lock(&mutex_);
      done_ = group.group;
      dropped = std::exchange(connected_, std::move(connected));
      changed_.SignalAll();
    }
  }
}

}  // namespace adaptdl::elastic
