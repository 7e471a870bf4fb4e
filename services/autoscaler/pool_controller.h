// The decision about a node pool: what there is -> what to do, and why.
//
// Pure: no clock, no I/O. What it does, in order:
//
//   1. Nodes that drain and are empty are removed.
//   2. It grows at once, up to the size that its target asks for (capacity_target.h), within the limits,
//      and to one node if a job waits for a kind of node that only the pool has.
//      Nodes that still drain count towards the maximum. Nodes that the minimum asks for are started even while the
//      allocator is away; otherwise the pool then stays as it is.
//   3. Nodes that are too many and have only been asked for are asked for no longer.
//   4. It shrinks otherwise only when `cooldown` has passed since the last change of size, and never takes a node that
//      works: first those that have not registered yet, then those that the allocator calls idle. Only a pool
//      over its maximum or its budget (a limit was lowered) gives up busy nodes, too.
//
// Which ids new nodes have is the provider's affair (node_pool_provider.h).

#ifndef ADAPTDL_SERVICES_AUTOSCALER_POOL_CONTROLLER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_POOL_CONTROLLER_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/autoscaler/capacity_target.h"

namespace adaptdl::autoscaler {

struct PoolLimits {
  // Name of the pool.
  std::string pool;
  // Bounds of the number of nodes, inclusive. 0 <= min_nodes <= max_nodes.
  int min_nodes = 0;
  int max_nodes = 0;
  // Time without a change of size before the pool shrinks. 0: none.
  absl::Duration cooldown;
  // What size to aim at within the bounds.
  CapacityTarget target = {};
};

// The most nodes that the pool may have: max_nodes, or less if the target is a budget.
int MostNodes(const PoolLimits& limits);

enum class PoolNodePhase { kStarting, kRunning, kDraining };

absl::string_view PoolNodePhaseName(PoolNodePhase phase);

struct PoolNodeView {
  std::string node_id;
  PoolNodePhase phase = PoolNodePhase::kStarting;
  // Whether it runs no replica.
  bool empty = false;
  // Whether the allocator will move nothing to it, and it is empty.
  bool idle = false;
  // Whether it has only been asked for, and there is no machine yet that is known to be it.
  bool requested = false;
};

struct PoolView {
  // Nodes that were asked for and not removed, in order of node_id.
  std::vector<PoolNodeView> nodes;
  // Nodes of the cluster that take replicas and are none of this pool's.
  int other_nodes = 0;
  // Ids that a new node must not have, beside those of `nodes`.
  std::set<std::string> taken_ids;
  // Absent: the allocator has nothing to say.
  std::optional<Demand> demand;
  // When the size changed last; the start of the program counts as a change.
  absl::Time last_change;
};

enum class PoolActionKind { kDrain, kRemove };

absl::string_view PoolActionKindName(PoolActionKind kind);

struct PoolAction {
  PoolActionKind kind = PoolActionKind::kDrain;
  std::string node_id;
  // Why, for people.
  std::string reason;

  friend bool operator==(const PoolAction&, const PoolAction&) = default;
};

struct PoolDecision {
  // Nodes that the pool has when the actions are carried out, without those that drain.
  int target_nodes = 0;
  // Why, for people.
  std::string reason;
  // Utility of the cluster before the actions. Absent: unknown.
  std::optional<double> utility;
  // When the pool may shrink again. Absent: now.
  std::optional<absl::Time> cooldown_end;
  // Nodes to be made.
  int create = 0;
  std::vector<PoolAction> actions;
  // Whether that changes the pool's size (removing what has drained does not).
  bool changes_size = false;
};

PoolDecision Decide(const PoolLimits& limits, const PoolView& view, absl::Time now);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_POOL_CONTROLLER_H_
