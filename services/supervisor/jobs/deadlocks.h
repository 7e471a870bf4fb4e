// Jobs that change in place and wait for each other: each has to get slots before it leaves others, and those that it is to
// leave are what the next one waits for. Pure functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_DEADLOCKS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_DEADLOCKS_H_

#include <set>
#include <string>

#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

// Uids of jobs that are to give up at once what they are to leave, so that nobody waits in a circle: one of each circle, and
// none in vain. It is one that can go on with those of its replicas that stay, or else one with few replicas, as it has to
// start again. Who may yet get room from jobs that leave without waiting is not part of any. O(n²) in the number of jobs
// that wait, O(n³) if all wait in circles.
std::set<std::string> DeadlockVictims(const Transaction& transaction);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_DEADLOCKS_H_
