#include "services/supervisor/history/allocation_changes.h"

#include <algorithm>
#include <vector>

#include "libs/messages/proto_time.h"

namespace adaptdl::supervisor {

bool AllocationChanges::Add(absl::Time time, const Allocation& allocation) {
  if (!changes_.empty()) {
    if (changes_.back().allocation == allocation) return false;
    time = std::max(time, changes_.back().time);
  }
  changes_.push_back({time, allocation});
  Limit(kMost);
  return true;
}

void AllocationChanges::Precede(const AllocationChanges& earlier) {
  const std::vector<Change> later = std::move(changes_);
  changes_ = earlier.changes_;
  for (const Change& change : later) Add(change.time, change.allocation);
}

void AllocationChanges::Limit(size_t most) {
  while (changes_.size() > std::max<size_t>(most, 2)) {
    // Of the older half, what held for the shortest time; the first one stays.
    size_t shortest = 1;
    absl::Duration held = absl::InfiniteDuration();
    for (size_t i = 1; i <= changes_.size() / 2; ++i) {
      const absl::Duration time = changes_[i + 1 < changes_.size() ? i + 1 : i].time - changes_[i].time;
      if (time < held) {
        held = time;
        shortest = i;
      }
    }
    const auto gone = changes_.erase(changes_.begin() + static_cast<std::ptrdiff_t>(shortest));
    // What was before it may go on after it.
    if (gone != changes_.end() && gone->allocation == (gone - 1)->allocation) changes_.erase(gone);
  }
}

void Put(const AllocationChanges& changes, ChangeMessages* messages) {
  for (const AllocationChanges::Change& change : changes.all()) {
    v1::AllocationChange* message = messages->Add();
    *message->mutable_time() = messages::ToProto(change.time);
    message->set_replicas(change.allocation.replicas);
    message->set_nodes(change.allocation.nodes);
    message->set_phase(change.allocation.phase);
  }
}

AllocationChanges FromMessages(const ChangeMessages& messages) {
  AllocationChanges changes;
  for (const v1::AllocationChange& message : messages) {
    changes.Add(messages::ToTime(message.time()), {message.replicas(), message.nodes(), message.phase()});
  }
  return changes;
}

AllocationChanges FromEvents(const std::vector<v1::Event>& events) {
  AllocationChanges changes;
  for (const v1::Event& event : events) {
    changes.Add(messages::ToTime(event.time()), {event.replicas(), 0, v1::JOB_PHASE_UNSPECIFIED});
  }
  return changes;
}

}  // namespace adaptdl::supervisor
