// Cuts a decision that is larger than a message into pages (v1::ApplyAllocationsRequest.more). Pure.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_DECISION_PAGES_H_
#define ADAPTDL_SERVICES_ALLOCATOR_DECISION_PAGES_H_

#include <cstddef>
#include <vector>

#include "adaptdl/v1/scheduling_service.pb.h"

namespace adaptdl::allocator {

// Pages of about `bytes`, at least one: each ends with the allocation that goes beyond. `decision` is no
// page.
std::vector<v1::ApplyAllocationsRequest> SplitDecision(v1::ApplyAllocationsRequest decision, size_t bytes);

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_DECISION_PAGES_H_
