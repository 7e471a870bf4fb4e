// What the nodes of a simulation cost. Pure functions; thread-safe.

#ifndef ADAPTDL_SIMULATOR_REPORT_COST_H_
#define ADAPTDL_SIMULATOR_REPORT_COST_H_

#include <vector>

#include "simulator/cluster.h"
#include "simulator/engine.h"

namespace adaptdl::simulator {

inline constexpr double kSecondsPerHour = 3600;

// USD per node and hour, by GPU type.
struct Prices {
  std::vector<double> lasting;
  std::vector<double> spot;
};

// From the first submission to the last completion: of each node, from its start until it is gone, failed or
// taken away.
struct ClusterCost {
  double node_hours = 0;
  double gpu_hours = 0;  // of the nodes' GPUs, used or not
  double cost = 0;       // USD; 0 without prices
};

// `prices`: null if there are none. `seconds`: from the first submission to the last completion.
ClusterCost MeasureCost(const Cluster& cluster, const SimulationResult& result, double seconds,
                        const Prices* prices);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_REPORT_COST_H_
