// A job and its replicas, as the supervisor keeps them. A plain value; thread-safe as such.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_JOB_ENTRY_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_JOB_ENTRY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/supervisor/state/progress_rate.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

// Reason of a job that runs and takes no steps, and of the event about it.
inline constexpr absl::string_view kNoSteps = "NoSteps";

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

// What a replica has said of a group whose collectives do not work any more.
struct BrokenReport {
  int64_t group = 0;
  absl::Time since;
};

struct JobEntry {
  JobRecord record;
  // Members of the current group first: their index is their rank (record.state.group is theirs). Then others
  // that may still be there: newcomers, and those that have left.
  std::vector<std::shared_ptr<const ReplicaRecord>> replicas;
  // The rest is soft: whoever is concerned says so again after a restart of the supervisor.
  //
  // Events that further ones are folded into.
  std::map<EventKey, Repetition> repetitions;
  // By replica, of groups that have not been left since.
  std::map<std::string, BrokenReport> broken;
  // From the parts of the work that it says are done.
  ProgressRate progress_rate;
  // Whether its user was told of reports that made no sense.
  bool told_of_reports = false;
  // What its user was told of why it takes no steps, while it runs and takes none. Empty: it does.
  std::string standstill;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_JOB_ENTRY_H_
