#include "simulator/report/cost.h"

namespace adaptdl::simulator {
ClusterCost MeasureCost(const Cluster& cluster, const SimulationResult& result, double seconds,
                        const Prices* prices) {
  ClusterCost total;
  const auto add = [&](const Cluster::Node& node, double duration, bool spot) {
    const double hours = duration / kSecondsPerHour;
    total.node_hours += hours;
    total.gpu_hours += hours * node.gpus;
    if (prices != nullptr) {
      total.cost += hours * (spot ? prices->spot : prices->lasting)[node.type];
    }
  };
  if (result.nodes.empty()) {
    for (const Cluster::Node& node : cluster.nodes()) {
      add(node, seconds, /*spot=*/false);
    }
  }
  for (const NodeSpan& span : result.nodes) {
    add(cluster.nodes()[span.node], span.end - span.start, span.spot);
  }
  return total;
}

}  // namespace adaptdl::simulator
