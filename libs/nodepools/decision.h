// The decision about all node pools of a cluster: what there is -> what to do, and why.
//
// What it does with each pool, in order:
//
//   1. Nodes that drain and are empty are removed.
//   2. It grows at once, up to what the target gives it (composition.h, split.h), within its bounds. Nodes that still drain
//      count towards its maximum: they have to be paid for. Minima are kept even while the allocator is away; otherwise
//      pools then stay as they are.
//   3. Nodes that are too many and have only been asked for are asked for no longer.
//   4. It shrinks otherwise only when the cool-down has passed since its size changed last, and only as far as the nodes of
//      its kind that are in the cluster, of all pools, are enough without: a node is drained when the one that replaces it
//      is there, and one that is still to come is given up when the one that replaces it is on its way. First those go that are not there yet, then idle and empty ones, then those that hold least: their jobs
//      leave in place, and are packed onto the others.
//
// Which ids new nodes have is the provider's affair. Pure; thread-safe.

#ifndef ADAPTDL_LIBS_NODEPOOLS_DECISION_H_
#define ADAPTDL_LIBS_NODEPOOLS_DECISION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/nodepools/composition.h"
#include "libs/nodepools/pool.h"
#include "libs/nodepools/target.h"

namespace adaptdl::nodepools {

struct ClusterState {
  std::vector<Pool> pools;
  // By kind: nodes that are in no pool and take replicas. As many entries as there are kinds.
  std::vector<int> fixed_nodes;
  // In order of submission. Absent: the allocator has nothing to say.
  std::optional<std::vector<JobView>> jobs;
  absl::Time now;
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
  // Nodes that it is given, of which some may have to wait.
  int wanted_nodes = 0;
  // Why, for people.
  std::string reason;
  // When the pool may shrink again. Absent: now.
  std::optional<absl::Time> cooldown_end;
  // Nodes to be made.
  int create = 0;
  std::vector<PoolAction> actions;
  // Whether that changes the pool's size (removing what has drained does not).
  bool changes_size = false;
};

struct PoolsDecision {
  // By pool.
  std::vector<PoolDecision> pools;
  // Part of the nodes that is put to full use. Absent: unknown.
  std::optional<double> utility;
  // What the pools cost per hour when all is done; of pools with prices.
  double cost_per_hour = 0;
};

PoolsDecision DecidePools(const Target& target, const ClusterState& state);

}  // namespace adaptdl::nodepools

#endif  // ADAPTDL_LIBS_NODEPOOLS_DECISION_H_
