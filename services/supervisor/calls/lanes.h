// Where calls that come in over the network are made, and where their answers wait. Plain values; what they
// point to outlives all calls.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CALLS_LANES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CALLS_LANES_H_

#include "services/supervisor/calls/executor.h"
#include "services/supervisor/state/group_commit.h"
#include "services/supervisor/state/invariants.h"

namespace adaptdl::supervisor {

struct Lanes {
  // For calls that may change something.
  Executor* changes = nullptr;
  // For calls that only read, which so wait for no change.
  Executor* readers = nullptr;
  // Answers leave when what they tell of is durable.
  GroupCommit* durability = nullptr;

  Invariants* invariants() const { return changes->invariants(); }
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CALLS_LANES_H_
