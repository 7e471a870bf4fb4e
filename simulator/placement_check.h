// Whether what a scheduler answered fits the cluster. Pure; thread-safe.

#ifndef ADAPTDL_SIMULATOR_PLACEMENT_CHECK_H_
#define ADAPTDL_SIMULATOR_PLACEMENT_CHECK_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "simulator/cluster.h"
#include "simulator/schedulers/scheduler.h"

namespace adaptdl::simulator {

// INTERNAL: there is not one placement for each job of the situation, a node is given more than it has or is
// not up, or a job is on GPUs of several types; says which.
absl::Status CheckPlacements(const Situation& situation, absl::Span<const Placement> placements);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_PLACEMENT_CHECK_H_
