// Bounds of what nodes may tell.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_NODES_LIMITS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_NODES_LIMITS_H_

#include <cstddef>

namespace adaptdl::supervisor {

// Of a text for people, in bytes: the rest is cut off.
inline constexpr size_t kMaxNodeMessage = 1000;

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_NODES_LIMITS_H_
