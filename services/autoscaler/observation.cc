#include "services/autoscaler/observation.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace adaptdl::autoscaler {
namespace {

using nodepools::NodePhase;
using nodepools::PoolNode;

bool InPool(const v1::Node& node, const PoolKind& kind) {
  if (kind.labels.empty()) return false;
  return std::all_of(kind.labels.begin(), kind.labels.end(), [&](const auto& wanted) {
    const auto label = node.labels().find(wanted.first);
    return label != node.labels().end() && label->second == wanted.second;
  });
}

std::set<std::string> ProvidedIds(const ObservedPool& pool) {
  std::set<std::string> ids;
  for (const ProvidedNode& node : pool.provided) ids.insert(node.node_id);
  return ids;
}

double Part(double held, double offered) { return offered > 0 ? held / offered : 0; }

// The largest part of anything that replicas hold.
double UseOf(const v1::Node& node) {
  const v1::Resources& held = node.status().allocated();
  const v1::Resources& offer = node.capacity();
  return std::min(
      1.0,
      std::max({Part(static_cast<double>(held.cpu_millis()), static_cast<double>(offer.cpu_millis())),
                Part(static_cast<double>(held.memory_bytes()), static_cast<double>(offer.memory_bytes())),
                Part(held.gpus(), offer.gpus())}));
}

// `registered` is null for a node that the supervisor does not know.
PoolNode ViewOf(const ProvidedNode& provided, const v1::Node* registered, const std::set<std::string>& idle) {
  PoolNode view;
  view.id = provided.node_id;
  view.requested = provided.state == ProvidedState::kRequested && registered == nullptr;
  view.hindered = view.requested && !provided.hindrance.empty();
  view.empty = registered == nullptr || registered->status().replicas() == 0;
  if (registered != nullptr) view.use = UseOf(*registered);
  const v1::NodePhase phase =
      registered == nullptr ? v1::NODE_PHASE_UNSPECIFIED : registered->status().phase();
  if (provided.state == ProvidedState::kStopping || phase == v1::NODE_PHASE_DRAINING) {
    view.phase = NodePhase::kDraining;
  } else if (phase == v1::NODE_PHASE_READY) {
    view.phase = NodePhase::kRunning;
    view.idle = view.empty && idle.contains(provided.node_id);
  }
  // Otherwise it has not registered yet, or is lost and being started again.
  return view;
}

// Of what was requested, as much as has arrived does not count a second time.
void PairRequests(const ObservedPool& pool, std::vector<PoolNode>* nodes) {
  std::map<std::string, ProvidedState> states;
  for (const ProvidedNode& node : pool.provided) states[node.node_id] = node.state;
  auto arrived = std::count_if(nodes->begin(), nodes->end(), [&](const PoolNode& node) {
    return states[node.id] == ProvidedState::kArrived && node.empty && node.phase != NodePhase::kDraining;
  });
  std::erase_if(*nodes, [&](const PoolNode& node) {
    return states[node.id] == ProvidedState::kRequested && arrived-- > 0;
  });
}

}  // namespace

std::vector<PoolNode> NodesOf(const ObservedPool& pool, const std::vector<v1::Node>& registered,
                              const std::set<std::string>& idle) {
  std::map<std::string, const v1::Node*> known;
  for (const v1::Node& node : registered) known[node.node_id()] = &node;
  std::vector<PoolNode> nodes;
  for (const ProvidedNode& node : pool.provided) {
    const auto found = known.find(node.node_id);
    PoolNode seen = ViewOf(node, found == known.end() ? nullptr : found->second, idle);
    if (node.state != ProvidedState::kReleased || !seen.empty) nodes.push_back(std::move(seen));
  }
  PairRequests(pool, &nodes);
  return nodes;
}

std::set<std::string> TakenIds(const ObservedPool& pool, const std::vector<v1::Node>& registered) {
  const std::set<std::string> ours = ProvidedIds(pool);
  std::set<std::string> taken;
  for (const v1::Node& node : registered) {
    const bool drains = node.status().phase() == v1::NODE_PHASE_DRAINING;
    // A new node would go with the drained one.
    if (ours.contains(node.node_id())) {
      if (drains) taken.insert(node.node_id());
      continue;
    }
    // One of the pool that the provider does not have is on its way out. Its id is free: a new node under it is the old
    // one, come back. Only a drain would outlive that.
    if (!InPool(node, pool.kind) || drains) taken.insert(node.node_id());
  }
  return taken;
}

std::vector<std::string> NodesToForget(const ObservedPool& pool, const std::vector<v1::Node>& registered) {
  const std::set<std::string> ours = ProvidedIds(pool);
  std::vector<std::string> gone;
  for (const v1::Node& node : registered) {
    if (ours.contains(node.node_id()) || !InPool(node, pool.kind)) continue;
    const bool lost = node.status().phase() == v1::NODE_PHASE_LOST;
    const bool drained = node.status().phase() == v1::NODE_PHASE_DRAINING && node.status().replicas() == 0;
    if (lost || drained) gone.push_back(node.node_id());
  }
  return gone;
}

std::optional<v1::Node> LikeOf(const ObservedPool& pool, const std::optional<v1::Node>& like,
                               const std::vector<v1::Node>& registered) {
  const std::set<std::string> ours = ProvidedIds(pool);
  for (const v1::Node& node : registered) {
    // One of its GPUs may have failed: the others are like what was asked for.
    if (ours.contains(node.node_id()) && node.status().phase() == v1::NODE_PHASE_READY &&
        node.problems().empty())
      return node;
  }
  return like.has_value() ? like : pool.kind.node;
}

std::vector<v1::Node> OtherNodes(const Observation& observation) {
  std::vector<v1::Node> others;
  for (const v1::Node& node : observation.registered) {
    if (node.status().phase() != v1::NODE_PHASE_READY) continue;
    const bool in_pool =
        std::any_of(observation.pools.begin(), observation.pools.end(), [&](const ObservedPool& pool) {
          return InPool(node, pool.kind) ||
                 std::any_of(pool.provided.begin(), pool.provided.end(), [&](const ProvidedNode& provided) {
                   return provided.node_id == node.node_id();
                 });
        });
    if (!in_pool) others.push_back(node);
  }
  return others;
}

}  // namespace adaptdl::autoscaler
