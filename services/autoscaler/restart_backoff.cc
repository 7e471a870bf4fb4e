#include "services/autoscaler/restart_backoff.h"

#include <string>

#include "libs/base/backoff.h"

namespace adaptdl::autoscaler {

void RestartBackoff::Started(const std::string& node_id, absl::Time now) {
  Entry& entry = entries_[node_id];
  entry.started = now;
  entry.dead = false;
}

absl::Time RestartBackoff::NextStart(const std::string& node_id, absl::Time now) {
  const auto [position, unknown] = entries_.try_emplace(node_id);
  Entry& entry = position->second;
  if (entry.dead) return entry.next;
  entry.dead = true;
  entry.next = now;
  // One that an earlier process of ours started has lived for long enough.
  if (unknown || now - entry.started >= options_.stable) {
    entry.failures = 0;
    return entry.next;
  }
  entry.next = now + BackoffAfter(++entry.failures, options_.first_delay, options_.max_delay);
  return entry.next;
}

int RestartBackoff::Failures(const std::string& node_id) const {
  const auto entry = entries_.find(node_id);
  return entry == entries_.end() ? 0 : entry->second.failures;
}

void RestartBackoff::KeepOnly(const std::set<std::string>& node_ids) {
  std::erase_if(entries_, [&](const auto& entry) { return !node_ids.contains(entry.first); });
}

}  // namespace adaptdl::autoscaler
