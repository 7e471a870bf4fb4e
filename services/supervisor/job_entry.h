// A job and its replicas, as the supervisor keeps them. A plain value; thread-safe as such.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOB_ENTRY_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOB_ENTRY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

// Of an event that may repeat itself: its reason, node and group.
using EventKey = std::tuple<std::string, std::string, int64_t>;

// How often it has done so up to now.
struct Repetition {
  int64_t count = 0;
  absl::Time first;
  absl::Time last;
  // Of the last one, which is the one that is stored. 0: not stored yet.
  int64_t event_id = 0;
};

struct JobEntry {
  JobRecord record;
  // Members of the current group first: their index is their rank (status.group() is theirs). Then others
  // that may still be there: newcomers, and those that have left.
  std::vector<std::shared_ptr<const ReplicaRecord>> replicas;
  // Events that further ones are folded into. Soft: after a restart of the supervisor new ones begin.
  std::map<EventKey, Repetition> repetitions;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOB_ENTRY_H_
