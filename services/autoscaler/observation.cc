#include "services/autoscaler/observation.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace adaptdl::autoscaler {
namespace {

bool InPool(const v1::Node& node, const std::string& pool) {
  const auto label = node.labels().find(kPoolLabel);
  return label != node.labels().end() && label->second == pool;
}

std::set<std::string> ProvidedIds(const Observation& observation) {
  std::set<std::string> ids;
  for (const ProvidedNode& node : observation.provided) ids.insert(node.node_id);
  return ids;
}

// `registered` is null for a node that the supervisor does not know.
PoolNodeView ViewOf(const ProvidedNode& provided, const v1::Node* registered,
                    const std::set<std::string>& idle) {
  PoolNodeView view;
  view.node_id = provided.node_id;
  view.empty = registered == nullptr || registered->status().replicas() == 0;
  const v1::NodePhase phase =
      registered == nullptr ? v1::NODE_PHASE_UNSPECIFIED : registered->status().phase();
  if (provided.state == ProvidedState::kStopping || phase == v1::NODE_PHASE_DRAINING) {
    view.phase = PoolNodePhase::kDraining;
  } else if (phase == v1::NODE_PHASE_READY) {
    view.phase = PoolNodePhase::kRunning;
    view.idle = view.empty && idle.contains(provided.node_id);
  }
  // Otherwise it has not registered yet, or is lost and being started again.
  return view;
}

Demand DemandOf(const v1::GetDesiredCapacityResponse& capacity) {
  Demand demand{capacity.desired_nodes(), capacity.reason(), capacity.start_nodes()};
  for (const v1::CapacityPoint& point : capacity.points()) {
    SizePoint size{point.nodes(), point.utility()};
    if (point.has_makespan_seconds()) size.makespan = absl::Seconds(point.makespan_seconds());
    // What is not as promised is of no use: then desired_nodes alone counts.
    const bool in_order =
        demand.points.empty() ? size.nodes > 0 : size.nodes == demand.points.back().nodes + 1;
    if (!in_order || !std::isfinite(size.utility)) {
      demand.points.clear();
      break;
    }
    demand.points.push_back(size);
  }
  return demand;
}

}  // namespace

PoolView MakePoolView(const Observation& observation) {
  PoolView view;
  view.last_change = observation.last_change;
  std::set<std::string> idle;
  if (observation.capacity.has_value()) {
    view.demand = DemandOf(*observation.capacity);
    idle.insert(observation.capacity->idle_node_ids().begin(), observation.capacity->idle_node_ids().end());
  }
  std::map<std::string, const v1::Node*> registered;
  for (const v1::Node& node : observation.registered) {
    registered[node.node_id()] = &node;
  }
  for (const ProvidedNode& node : observation.provided) {
    const auto known = registered.find(node.node_id);
    view.nodes.push_back(ViewOf(node, known == registered.end() ? nullptr : known->second, idle));
  }
  const std::set<std::string> ours = ProvidedIds(observation);
  for (const v1::Node& node : observation.registered) {
    if (ours.contains(node.node_id())) continue;
    // One of the pool that the provider does not have is on its way out and counts for neither side. Its id
    // is free: a new node under it is the old one, come back. Only a drain would outlive that.
    const bool in_pool = InPool(node, observation.pool);
    const v1::NodePhase phase = node.status().phase();
    if (!in_pool || phase == v1::NODE_PHASE_DRAINING) view.taken_ids.insert(node.node_id());
    if (!in_pool && phase == v1::NODE_PHASE_READY) ++view.other_nodes;
  }
  return view;
}

std::vector<std::string> NodesToForget(const Observation& observation) {
  const std::set<std::string> ours = ProvidedIds(observation);
  std::vector<std::string> gone;
  for (const v1::Node& node : observation.registered) {
    if (ours.contains(node.node_id()) || !InPool(node, observation.pool)) continue;
    const bool lost = node.status().phase() == v1::NODE_PHASE_LOST;
    const bool drained = node.status().phase() == v1::NODE_PHASE_DRAINING && node.status().replicas() == 0;
    if (lost || drained) gone.push_back(node.node_id());
  }
  return gone;
}

}  // namespace adaptdl::autoscaler
