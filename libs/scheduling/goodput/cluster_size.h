// How many nodes the cluster should have: as many as would be put to good use.
//
// A part of a node is put to the use r if the replicas there add r to a job's speed-up each: 1 for a job that
// scales perfectly, 0 for one that is no faster. What jobs need to start counts in any case. Steps of a job's
// concave speed-up are counted from the most useful on; nodes that are there are kept down to a lower use
// than new ones are asked for, so that nodes do not come and go. New nodes are taken to be of the commonest
// pool.
//
// Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_CLUSTER_SIZE_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_CLUSTER_SIZE_H_

#include <vector>

#include "libs/scheduling/goodput/cluster_model.h"
#include "libs/scheduling/placement.h"
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

// `placements`: where each job goes under the decision.
CapacityDecision DecideClusterSize(const ClusterModel& model, const std::vector<Placement>& placements,
                                   const CapacityOptions& options);

// Adds what other numbers of nodes of the commonest pool would bring: up to four times as many as there are,
// or as jobs could use, and start_nodes. desired_nodes must be there.
void AddCapacityCurve(const ClusterModel& model, const std::vector<Placement>& placements,
                      const CapacityOptions& options, CapacityDecision* decision);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_CLUSTER_SIZE_H_
