#include "simulator/schedulers/free_nodes.h"

#include <algorithm>

namespace adaptdl::simulator {

FreeNodes::FreeNodes(const Situation& situation) {
  for (const Cluster::Node& node : situation.cluster.nodes()) {
    free_.push_back(situation.StatusOf(static_cast<int>(free_.size())).up ? node.gpus : 0);
  }
}

void FreeNodes::Take(const Placement& placement) {
  for (const NodeShare& share : placement) {
    free_[share.node] -= share.gpus;
  }
}

Placement FreeNodes::TakeFromFreest(int gpus) {
  Placement placement;
  while (gpus > 0) {
    const auto freest = std::max_element(free_.begin(), free_.end());
    const int taken = std::min(*freest, gpus);
    if (taken == 0) {
      break;
    }
    placement.push_back({static_cast<int>(freest - free_.begin()), taken});
    *freest -= taken;
    gpus -= taken;
  }
  return placement;
}

absl::Status CheckUniform(const Cluster& cluster) {
  for (const Cluster::Node& node : cluster.nodes()) {
    if (node.type != 0 || node.gpus != cluster.nodes().front().gpus) {
      return absl::InvalidArgumentError(
          "cluster: this policy knows equal nodes of one GPU type only; give one group, as in 16x4");
    }
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::simulator
