#include "services/autoscaler/observation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libs/jobspec/placement.h"

namespace adaptdl::autoscaler {
namespace {

bool InPool(const v1::Node& node, const PoolKind& kind) {
  return std::all_of(kind.labels.begin(), kind.labels.end(), [&](const auto& wanted) {
    const auto label = node.labels().find(wanted.first);
    return label != node.labels().end() && label->second == wanted.second;
  });
}

bool Covers(const v1::Resources& offer, const v1::Resources& request) {
  for (const auto& [name, amount] : request.extended()) {
    const auto offered = offer.extended().find(name);
    if (amount > (offered == offer.extended().end() ? 0 : offered->second)) return false;
  }
  return offer.cpu_millis() >= request.cpu_millis() && offer.memory_bytes() >= request.memory_bytes() &&
         offer.gpus() >= request.gpus();
}

// Whether a node that is none of the pool's is one of those that the allocator speaks of: it works, or could stand in
// for one of the pool's. Others are for other things.
bool CountsAsOther(const v1::Node& node, const PoolKind& kind) {
  return !kind.node.has_value() || node.status().replicas() > 0 ||
         Covers(node.capacity(), kind.node->capacity());
}

bool FitsKind(const v1::UnplacedReplica& replica, const PoolKind& kind) {
  return kind.node.has_value() && Covers(kind.node->capacity(), replica.resources()) &&
         jobspec::Fits(replica.placement(), *kind.node);
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
  view.requested = provided.state == ProvidedState::kRequested && registered == nullptr;
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

Demand DemandOf(const v1::GetDesiredCapacityResponse& capacity, const PoolKind& kind) {
  Demand demand{capacity.desired_nodes(), capacity.reason(), capacity.start_nodes()};
  demand.lacks_kind = std::any_of(capacity.unplaced().begin(), capacity.unplaced().end(),
                                  [&](const auto& replica) { return FitsKind(replica, kind); });
  const bool for_others = capacity.current_nodes() == 0 && capacity.unplaced_size() > 0 &&
                          kind.node.has_value() && !demand.lacks_kind;
  if (for_others) return {0, "what waits does not fit on a node of this pool"};
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

// Of what was requested, as much as has arrived does not count a second time.
void PairRequests(const Observation& observation, PoolView* view) {
  std::map<std::string, ProvidedState> states;
  for (const ProvidedNode& node : observation.provided) states[node.node_id] = node.state;
  auto arrived = std::count_if(view->nodes.begin(), view->nodes.end(), [&](const PoolNodeView& node) {
    return states[node.node_id] == ProvidedState::kArrived && node.empty &&
           node.phase != PoolNodePhase::kDraining;
  });
  std::erase_if(view->nodes, [&](const PoolNodeView& node) {
    return states[node.node_id] == ProvidedState::kRequested && arrived-- > 0;
  });
}

}  // namespace

PoolView MakePoolView(const Observation& observation) {
  PoolView view;
  view.last_change = observation.last_change;
  std::set<std::string> idle;
  if (observation.capacity.has_value()) {
    view.demand = DemandOf(*observation.capacity, observation.kind);
    idle.insert(observation.capacity->idle_node_ids().begin(), observation.capacity->idle_node_ids().end());
  }
  std::map<std::string, const v1::Node*> registered;
  for (const v1::Node& node : observation.registered) {
    registered[node.node_id()] = &node;
  }
  for (const ProvidedNode& node : observation.provided) {
    const auto known = registered.find(node.node_id);
    const PoolNodeView seen = ViewOf(node, known == registered.end() ? nullptr : known->second, idle);
    if (node.state != ProvidedState::kReleased || !seen.empty) view.nodes.push_back(seen);
  }
  PairRequests(observation, &view);
  const std::set<std::string> ours = ProvidedIds(observation);
  for (const v1::Node& node : observation.registered) {
    if (ours.contains(node.node_id())) continue;
    // One of the pool that the provider does not have is on its way out and counts for neither side. Its id
    // is free: a new node under it is the old one, come back. Only a drain would outlive that.
    const bool in_pool = InPool(node, observation.kind);
    const v1::NodePhase phase = node.status().phase();
    if (!in_pool || phase == v1::NODE_PHASE_DRAINING) view.taken_ids.insert(node.node_id());
    if (!in_pool && phase == v1::NODE_PHASE_READY && CountsAsOther(node, observation.kind))
      ++view.other_nodes;
  }
  return view;
}

std::vector<std::string> NodesToForget(const Observation& observation) {
  const std::set<std::string> ours = ProvidedIds(observation);
  std::vector<std::string> gone;
  for (const v1::Node& node : observation.registered) {
    if (ours.contains(node.node_id()) || !InPool(node, observation.kind)) continue;
    const bool lost = node.status().phase() == v1::NODE_PHASE_LOST;
    const bool drained = node.status().phase() == v1::NODE_PHASE_DRAINING && node.status().replicas() == 0;
    if (lost || drained) gone.push_back(node.node_id());
  }
  return gone;
}

}  // namespace adaptdl::autoscaler
