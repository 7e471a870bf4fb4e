// Keeps the simulated pools of nodes as adaptdl-autoscaler keeps real ones: what it does is decided by the same
// code, libs/nodepools, from the same view of the pools and of what jobs could make of nodes.
//
// Each GPU type has a pool of nodes that last and one of spot nodes, which stand in for one another. It looks at them
// when the policy has decided, when nodes have changed, when a pool may shrink or be asked again, and shortly after it
// has done something or was refused, as the live one does all the time. Not thread-safe.

#ifndef ADAPTDL_SIMULATOR_SIMULATED_AUTOSCALER_H_
#define ADAPTDL_SIMULATOR_SIMULATED_AUTOSCALER_H_

#include <map>
#include <string>
#include <vector>

#include "libs/nodepools/decision.h"
#include "libs/nodepools/refusals.h"
#include "simulator/cluster.h"
#include "simulator/nodes.h"
#include "simulator/schedulers/scheduler.h"

namespace adaptdl::simulator {

class SimulatedAutoscaler {
 public:
  // All outlive it. `options` without pools: it does nothing.
  SimulatedAutoscaler(const Cluster& cluster, const NodeOptions& options, Nodes* nodes);

  bool enabled() const { return !options_.pools.empty(); }

  // What the policy has said; `use`: by node, the part of its GPUs that jobs hold. Returns whether nodes that take
  // replicas take no more of them.
  bool Follow(NodeDemand demand, double now, const std::vector<double>& use);
  // When to look again. Infinite: not before something happens.
  double NextEvent() const { return next_; }
  // Looks again at what was said last.
  bool Act(double now, const std::vector<double>& use);

 private:
  struct Pool {
    std::string name;
    int type = 0;
    bool spot = false;
    int min = 0;
    double price = -1;
    // Its nodes, absent ones included.
    std::vector<int> nodes;
    double last_change = 0;
  };

  void AddPool(int type, bool spot, int min, const std::vector<double>& prices);
  nodepools::ClusterState View(double now, const std::vector<double>& use) const;
  std::vector<nodepools::JobView> Jobs() const;
  nodepools::PoolNode ViewOf(int node, double use) const;
  // Carries out what was decided. Returns whether there was anything to do.
  bool Carry(const nodepools::PoolDecision& decision, double now, Pool* pool);
  // Returns how many nodes there was capacity for.
  int Create(int count, double now, Pool* pool);

  const Cluster& cluster_;
  const NodeOptions& options_;
  Nodes& nodes_;
  nodepools::Target target_;
  nodepools::Refusals refusals_;
  std::map<std::string, int> node_index_;  // by id
  std::vector<Pool> pools_;
  NodeDemand demand_;
  // Whether the last look drained a node, and whether a pool refused one.
  bool drained_ = false;
  bool refused_ = false;
  double next_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SIMULATED_AUTOSCALER_H_
