// Free GPUs by node, and the placement rule of the baselines. Not thread-safe.

#ifndef ADAPTDL_SIMULATOR_SCHEDULERS_FREE_NODES_H_
#define ADAPTDL_SIMULATOR_SCHEDULERS_FREE_NODES_H_

#include <vector>

#include "absl/status/status.h"
#include "simulator/cluster.h"
#include "simulator/schedulers/scheduler.h"

namespace adaptdl::simulator {

class FreeNodes {
 public:
  explicit FreeNodes(const Situation& situation);

  void Take(const Placement& placement);

  // Takes GPUs of the node with most free ones first; of equals, of the first. REQUIRES: so many are free.
  Placement TakeFromFreest(int gpus);

 private:
  std::vector<int> free_;
};

// The baselines know nothing of GPU types. INVALID_ARGUMENT: the cluster has several, or nodes of several
// sizes.
absl::Status CheckUniform(const Cluster& cluster);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SCHEDULERS_FREE_NODES_H_
