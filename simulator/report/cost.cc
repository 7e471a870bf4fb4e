#include "simulator/report/cost.h"

namespace adaptdl::simulator {
namespace {

constexpr double kSecondsPerHour = 3600;

}  // namespace

NodeUse MeasureNodes(const Cluster& cluster, const SimulationResult& result, double seconds,
                     const Prices* prices) {
  NodeUse use;
  const auto add = [&](const Cluster::Node& node, double duration, bool spot) {
    const double hours = duration / kSecondsPerHour;
    use.node_hours += hours;
    use.gpu_hours += hours * node.gpus;
    if (prices != nullptr) {
      use.cost += hours * (spot ? prices->spot : prices->lasting)[node.type];
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
  return use;
}

}  // namespace adaptdl::simulator
