// The sizes that Sia chooses from: powers of two within a node, then whole nodes, all of one GPU type.
//
// Pure; thread-safe.

#ifndef ADAPTDL_SIMULATOR_POLICIES_SIA_CONFIGURATIONS_H_
#define ADAPTDL_SIMULATOR_POLICIES_SIA_CONFIGURATIONS_H_

#include <string>
#include <vector>

#include "libs/scheduling/policy.h"

namespace adaptdl::simulator::sia {

// Nodes with the same GPUs, and as many of them.
struct Pool {
  std::string gpu_type;
  int gpus_per_node = 0;
  std::vector<int> nodes;  // index in the view
};

// By GPU type, then GPUs per node. Draining nodes and those without GPUs are in none.
std::vector<Pool> MakePools(const scheduling::ClusterView& view);

struct Configuration {
  int pool = 0;
  int nodes = 0;
  int gpus = 0;  // in all
  bool operator==(const Configuration& other) const {
    return pool == other.pool && nodes == other.nodes && gpus == other.gpus;
  }
};

// Within a node 1, 2, 4, ... and all its GPUs; then 2, 3, ... whole nodes.
std::vector<Configuration> Configurations(const std::vector<Pool>& pools);

}  // namespace adaptdl::simulator::sia

#endif  // ADAPTDL_SIMULATOR_POLICIES_SIA_CONFIGURATIONS_H_
