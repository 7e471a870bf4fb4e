// The sizes that a job may have on nodes that are all alike.
//
// On nodes that hold S of the job's replicas each: 1, 2, 4, ... on one node, a full node, and several full nodes; and the
// bounds and sizes that somebody asked for. goodput/menu.h says why.
//
// Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_SIZES_H_
#define ADAPTDL_LIBS_SCHEDULING_SIZES_H_

#include <vector>

#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

// Whether the job may have so many replicas: within its bounds, and one of the allowed.
bool AllowsSize(const JobInfo& job, int replicas);

// In `sizes`, ascending, on up to `most_nodes` nodes that hold `per_node` replicas each. REQUIRES: per_node >= 1.
void AllowedSizes(const JobInfo& job, int per_node, int most_nodes, std::vector<int>* sizes);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_SIZES_H_
