// How many nodes the cluster should have: as many as would be made good use of.
//
// A node's use is the speed-up that it brings, divided by what as many replicas as it holds could bring at
// best: 1 for jobs that scale perfectly, 0 for a node that nobody is faster with. Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_CAPACITY_H_
#define ADAPTDL_LIBS_SCHEDULING_CAPACITY_H_

#include <vector>

#include "libs/scheduling/cluster_state.h"
#include "libs/scheduling/growth.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

struct CapacityOptions {
  // A node is worth adding if it is put to at least this use.
  double least_use = 0.35;
  // A node is worth keeping if it is put to at least this use: less, so that nodes do not come and go.
  double least_kept_use = 0.175;
  // Nodes to ask for beyond those there are, at most.
  int most_new_nodes = 1024;
};

// `state` is the decision; it is copied. `waiting` are the jobs that got nothing but could, in order of
// submission. `fixed` says of each job whether it must stay as it is.
CapacityDecision DecideCapacity(const ClusterView& view, ClusterState state, const std::vector<int>& waiting,
                                const std::vector<bool>& fixed, const GrowthOptions& growth,
                                const CapacityOptions& options);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_CAPACITY_H_
