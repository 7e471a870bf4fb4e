// Changes the number of nodes as adaptdl-autoscaler does: follows what the policy would make good use of.
//
//   * It grows at once, within the bounds of each pool.
//   * It shrinks when the size of the pool has not changed for the cool-down, and takes only nodes that are
//     not there yet (again), or that the policy calls idle and no job uses.
//
// A pool is the nodes of one GPU type. What is wanted is counted over all pools; pools grow and shrink in the
// cluster's order, and lasting nodes are started before spot nodes. Not thread-safe.

#ifndef ADAPTDL_SIMULATOR_SIMULATED_AUTOSCALER_H_
#define ADAPTDL_SIMULATOR_SIMULATED_AUTOSCALER_H_

#include <vector>

#include "simulator/cluster.h"
#include "simulator/nodes.h"

namespace adaptdl::simulator {

class SimulatedAutoscaler {
 public:
  // All outlive it. `options` without pools: it does nothing.
  SimulatedAutoscaler(const Cluster& cluster, const NodeOptions& options, Nodes* nodes);

  bool enabled() const { return !options_.pools.empty(); }

  // What the policy has said; `busy`: by node, whether a job has replicas there.
  void Follow(const NodeDemand& demand, double now, const std::vector<bool>& busy);
  // When a pool may shrink. Infinite: not before it is told something new.
  double NextEvent() const { return next_; }
  // Looks again at what was said last.
  void Act(double now, const std::vector<bool>& busy);

 private:
  // Nodes of a type that are there or will be.
  int Size(int type) const;
  void Grow(int type, int count, double now);
  // Returns whether any node was taken.
  bool Shrink(int type, int count, double now, const std::vector<bool>& busy);

  const Cluster& cluster_;
  const NodeOptions& options_;
  Nodes& nodes_;
  NodeDemand demand_;
  std::vector<double> last_change_;  // by type
  double next_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SIMULATED_AUTOSCALER_H_
