// Whether there is room for a job's replicas on the nodes that it is to have. Pure functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_ROOM_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_ROOM_H_

#include <map>
#include <string>

#include "libs/jobs/state_machine.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

// What the allocator has decided for the job, and what stands against it. `needs_port`: whether rank 0 is to
// be given one.
jobs::Desired DesiredOf(const Transaction& transaction, const JobEntry& job, bool needs_port);

// How many more replicas of the job each node that it is to be on has room for.
std::map<std::string, int> FreeSlots(const Transaction& transaction, const JobEntry& job);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_ROOM_H_
