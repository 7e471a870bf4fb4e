// Which nodes a job's replicas are on. Plain data; nodes are named by their index in the view.

#ifndef ADAPTDL_LIBS_SCHEDULING_PLACEMENT_H_
#define ADAPTDL_LIBS_SCHEDULING_PLACEMENT_H_

#include <vector>

namespace adaptdl::scheduling {

// Replicas of one job on one node.
struct Share {
  int node = 0;
  int replicas = 0;
  bool operator==(const Share& other) const { return node == other.node && replicas == other.replicas; }
};

// One job's replicas, in order of node.
using Placement = std::vector<Share>;

int CountReplicas(const Placement& placement);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_PLACEMENT_H_
