// Pools of nodes as they are: what the deciding code sees. Plain values; thread-safe.

#ifndef ADAPTDL_LIBS_NODEPOOLS_POOL_H_
#define ADAPTDL_LIBS_NODEPOOLS_POOL_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::nodepools {

enum class NodePhase {
  // Asked for, and not in the cluster yet.
  kStarting,
  // In the cluster, takes replicas.
  kRunning,
  // On its way out, whoever said so.
  kDraining,
};

absl::string_view NodePhaseName(NodePhase phase);

struct PoolNode {
  // Unique in the cluster.
  std::string id;
  NodePhase phase = NodePhase::kStarting;
  // Whether it runs no replica.
  bool empty = false;
  // Whether it is empty, and the allocator will move nothing to it.
  bool idle = false;
  // Whether it has only been asked for, and there is no machine yet that is known to be it.
  bool requested = false;
  // Whether something keeps it from coming: it counts for nothing while its pool has no capacity.
  bool hindered = false;
  // The part of it that replicas hold, in [0, 1].
  double use = 0;
};

struct Pool {
  // Unique.
  std::string name;
  // What its nodes are like: index of the kind. Pools of one kind stand in for one another.
  int kind = 0;
  // Of a node, in the currency of the target. Negative: unknown; then it is so for all pools.
  double price_per_hour = -1;
  // Whether its nodes may be taken away at short notice.
  bool preemptible = false;
  // Bounds of the number of nodes, inclusive. 0 <= min_nodes <= max_nodes.
  int min_nodes = 0;
  int max_nodes = 0;
  // How long a node takes to come.
  absl::Duration start_time;
  // In order of id; those that were asked for and are not gone.
  std::vector<PoolNode> nodes;
  // When its size changed last; the start of the program counts as a change.
  absl::Time last_change;
  // Until when it is not asked for more, because it had no capacity. Absent: it may be asked.
  std::optional<absl::Time> refused_until;
};

// Nodes that are not on their way out.
int ActiveNodes(const Pool& pool);
// Of those, the ones that are in the cluster.
int RunningNodes(const Pool& pool);

}  // namespace adaptdl::nodepools

#endif  // ADAPTDL_LIBS_NODEPOOLS_POOL_H_
