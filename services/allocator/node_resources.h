// From resources of the protocol to those that policies count with. Pure; thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_NODE_RESOURCES_H_
#define ADAPTDL_SERVICES_ALLOCATOR_NODE_RESOURCES_H_

#include "absl/status/status.h"
#include "adaptdl/v1/resources.pb.h"
#include "libs/scheduling/resources.h"

namespace adaptdl::allocator {

// INVALID_ARGUMENT names the resource that can't be.
absl::Status ToResources(const v1::Resources& from, scheduling::Resources* to);

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_NODE_RESOURCES_H_
