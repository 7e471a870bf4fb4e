#include "simulator/policies/sia/configurations.h"

#include <map>
#include <utility>

namespace adaptdl::simulator::sia {

std::vector<Pool> MakePools(const scheduling::ClusterView& view) {
  std::map<std::pair<std::string, int>, Pool> pools;
  for (int n = 0; n < static_cast<int>(view.nodes.size()); ++n) {
    const scheduling::NodeInfo& node = view.nodes[n];
    const auto gpus = node.capacity.find(scheduling::kGpu);
    if (node.draining || gpus == node.capacity.end() || gpus->second < 1) continue;
    const int count = static_cast<int>(gpus->second);
    Pool& pool = pools[{node.gpu_type, count}];
    pool.gpu_type = node.gpu_type;
    pool.gpus_per_node = count;
    pool.nodes.push_back(n);
  }
  std::vector<Pool> result;
  for (auto& [key, pool] : pools) result.push_back(std::move(pool));
  return result;
}

std::vector<Configuration> Configurations(const std::vector<Pool>& pools) {
  std::vector<Configuration> configurations;
  for (int p = 0; p < static_cast<int>(pools.size()); ++p) {
    const int whole = pools[p].gpus_per_node;
    for (int gpus = 1; gpus < whole; gpus *= 2) configurations.push_back({p, 1, gpus});
    for (int nodes = 1; nodes <= static_cast<int>(pools[p].nodes.size()); ++nodes) {
      configurations.push_back({p, nodes, nodes * whole});
    }
  }
  return configurations;
}

}  // namespace adaptdl::simulator::sia
