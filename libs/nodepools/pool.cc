#include "libs/nodepools/pool.h"

#include <algorithm>

namespace adaptdl::nodepools {

absl::string_view NodePhaseName(NodePhase phase) {
  switch (phase) {
    case NodePhase::kStarting:
      return "starting";
    case NodePhase::kRunning:
      return "running";
    case NodePhase::kDraining:
      return "draining";
  }
  return "unknown";
}

int ActiveNodes(const Pool& pool) {
  return static_cast<int>(std::count_if(pool.nodes.begin(), pool.nodes.end(), [](const PoolNode& node) {
    return node.phase != NodePhase::kDraining;
  }));
}

int RunningNodes(const Pool& pool) {
  return static_cast<int>(std::count_if(pool.nodes.begin(), pool.nodes.end(), [](const PoolNode& node) {
    return node.phase == NodePhase::kRunning;
  }));
}

}  // namespace adaptdl::nodepools
