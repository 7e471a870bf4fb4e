// Whether what an allocator has decided can be: a decision breaks no promise to users, and no node gets more
// than it has. Pure functions; thread-safe. INVALID_ARGUMENT names what is wrong.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_ALLOCATION_CHECKS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_ALLOCATION_CHECKS_H_

#include "absl/status/status.h"
#include "adaptdl/v1/scheduling_service.pb.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

// Whether the job is to be on these nodes already, in this order.
bool SameNodes(const AllocationDecision& decision, const v1::JobAllocation& allocation);

absl::Status CheckAllocation(const Transaction& transaction, const v1::JobAllocation& allocation);

// Of all that the transaction decides together.
absl::Status CheckCapacity(const Transaction& transaction);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_ALLOCATION_CHECKS_H_
