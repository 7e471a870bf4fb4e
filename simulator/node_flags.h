// What the flags about nodes say, by GPU type: "aws=2..8,rtx=0..4", or "2..8" for all types.
// INVALID_ARGUMENT names the flag, its value and what to write instead. Pure functions; thread-safe.

#ifndef ADAPTDL_SIMULATOR_NODE_FLAGS_H_
#define ADAPTDL_SIMULATOR_NODE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/cluster.h"
#include "simulator/nodes.h"
#include "simulator/report/cost.h"

namespace adaptdl::simulator {

// A cluster that has room for the largest size of each pool, and the pools.
struct ScalingCluster {
  Cluster cluster;
  std::vector<PoolBounds> pools;
};

// `start`: what is there at the start; of a type that is not named the number stays as it is.
absl::StatusOr<ScalingCluster> ParseAutoscale(const std::string& text, const Cluster& start);

// Number of spot nodes; of a type that is not named 0.
absl::StatusOr<std::vector<int>> ParseSpotNodes(const std::string& text, const Cluster& cluster);

// Prices of nodes and, where they differ, of spot nodes, in USD per node and hour. All types must be named.
absl::StatusOr<Prices> ParsePrices(const std::string& text, const std::string& spot_text,
                                   const Cluster& cluster);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_NODE_FLAGS_H_
