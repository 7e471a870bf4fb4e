#include "simulator/simulated_autoscaler.h"

#include <algorithm>

namespace adaptdl::simulator {
SimulatedAutoscaler::SimulatedAutoscaler(const Cluster& cluster, const NodeOptions& options, Nodes* nodes)
    : cluster_(cluster),
      options_(options),
      nodes_(*nodes),
      last_change_(cluster.gpu_types().size(), 0.0),
      next_(kNever) {}

void SimulatedAutoscaler::Follow(const NodeDemand& demand, double now, const std::vector<bool>& busy) {
  demand_ = demand;
  Act(now, busy);
}

int SimulatedAutoscaler::Size(int type) const {
  int size = 0;
  for (size_t node = 0; node < cluster_.nodes().size(); ++node) {
    size += cluster_.nodes()[node].type == type && nodes_.phase(static_cast<int>(node)) != NodePhase::kAbsent;
  }
  return size;
}

void SimulatedAutoscaler::Act(double now, const std::vector<bool>& busy) {
  next_ = kNever;
  const int types = static_cast<int>(options_.pools.size());
  for (int type = 0; type < types; ++type) {
    int others = 0;
    for (int other = 0; other < types; ++other) {
      others += other == type ? 0 : Size(other);
    }
    const PoolBounds& pool = options_.pools[type];
    const int size = Size(type);
    const int wanted = std::clamp(demand_.desired_nodes - others, pool.min, pool.max);
    const double earliest = last_change_[type] + options_.cooldown;
    if (wanted > size) {
      Grow(type, wanted - size, now);
    } else if (wanted < size && now < earliest) {
      next_ = std::min(next_, earliest);
    } else if (wanted < size && Shrink(type, size - wanted, now, busy)) {
      last_change_[type] = now;
    }
  }
}

void SimulatedAutoscaler::Grow(int type, int count, double now) {
  for (int node = 0; node < static_cast<int>(cluster_.nodes().size()) && count > 0; ++node) {
    if (cluster_.nodes()[node].type == type && nodes_.phase(node) == NodePhase::kAbsent) {
      nodes_.Start(node, now);
      --count;
    }
  }
  last_change_[type] = now;
}

bool SimulatedAutoscaler::Shrink(int type, int count, double now, const std::vector<bool>& busy) {
  const int before = count;
  const auto take = [&](const auto& may_go) {
    for (int node = static_cast<int>(cluster_.nodes().size()) - 1; node >= 0 && count > 0; --node) {
      if (cluster_.nodes()[node].type == type && may_go(node)) {
        nodes_.Remove(node, now);
        --count;
      }
    }
  };
  take([&](int node) {
    return nodes_.phase(node) == NodePhase::kStarting || nodes_.phase(node) == NodePhase::kAway;
  });
  const std::vector<int>& idle = demand_.idle_nodes;
  take([&](int node) {
    return nodes_.phase(node) == NodePhase::kUp && !busy[node] &&
           std::find(idle.begin(), idle.end(), node) != idle.end();
  });
  return count < before;
}

}  // namespace adaptdl::simulator
