// A job and its replicas, as the supervisor keeps them. A plain value; thread-safe as such.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOB_ENTRY_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOB_ENTRY_H_

#include <memory>
#include <vector>

#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

struct JobEntry {
  JobRecord record;
  // Members of the current group first: their index is their rank (status.group() is theirs). Then others
  // that may still be there: newcomers, and those that have left.
  std::vector<std::shared_ptr<const ReplicaRecord>> replicas;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOB_ENTRY_H_
