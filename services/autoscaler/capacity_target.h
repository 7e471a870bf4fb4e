// What size of the cluster a node pool aims at, of those that the allocator could make use of.
//
//   band      keep the cluster's utility within a band: stay while it is there; else go to the size whose
//             utility is nearest to the middle of the band, and no less than its lower end
//   budget    as many nodes as are made good use of, and the pool's cost per hour within a bound
//   deadline  as few nodes as let the jobs that say how much work they have left end in time; if none do, as
//             few as let them end as early as possible
//
// Nodes that jobs need to start are always part of it, but for the bound of a budget. Band and budget ask for
// no node beyond those that the allocator would make good use of (Demand::desired_nodes), a deadline does.
// With the same demand, a size that was chosen once is chosen again from there: the pool comes to rest.
//
// Pure.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_CAPACITY_TARGET_H_
#define ADAPTDL_SERVICES_AUTOSCALER_CAPACITY_TARGET_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace adaptdl::autoscaler {

enum class TargetMode { kBand, kBudget, kDeadline };

struct CapacityTarget {
  TargetMode mode = TargetMode::kBand;
  // kBand: bounds of the utility, inclusive. 0 < utility_low < utility_high <= 1.
  double utility_low = 0.35;
  double utility_high = 0.65;
  // Price of a node of the pool per hour, in the currency of the budget. 0: unknown; kBudget needs it.
  double node_price_per_hour = 0;
  // kBudget: most that the pool's nodes may cost per hour. Greater than 0.
  double budget_per_hour = 0;
  // kDeadline: when the jobs that say how much work they have left are to be done. May have passed.
  absl::Time deadline;
};

// "1 node", "2 nodes".
std::string NodeCount(int nodes);

// INVALID_ARGUMENT, naming the flag, unless the target can be followed by a pool of at least `min_nodes`.
absl::Status CheckTarget(const CapacityTarget& target, int min_nodes);

// Nodes that the budget pays for. Absent: the target is none.
std::optional<int> NodesInBudget(const CapacityTarget& target);

// What a number of nodes would bring: see CapacityPoint of the public protocol.
struct SizePoint {
  // Of the whole cluster.
  int nodes = 0;
  double utility = 0;
  std::optional<absl::Duration> makespan = std::nullopt;
};

// What the allocator says.
struct Demand {
  // Nodes that the whole cluster would make good use of.
  int desired_nodes = 0;
  std::string reason;
  // Nodes that all jobs take at their smallest sizes.
  int start_nodes = 0;
  // Ascending by nodes, without gaps. Empty: unknown.
  std::vector<SizePoint> points = {};
  // Whether a job waits that no node of the cluster could hold, and one of the pool could.
  bool lacks_kind = false;
};

// Utility of the cluster at that size. Absent: unknown.
std::optional<double> UtilityAt(const Demand& demand, int nodes);

struct TargetSize {
  // Of the whole cluster.
  int nodes = 0;
  // Why it is not desired_nodes, for people. Empty: it is.
  std::string note;
};

// `current_nodes`: nodes of the whole cluster that are there or on their way.
TargetSize ChooseSize(const CapacityTarget& target, const Demand& demand, int current_nodes, absl::Time now);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_CAPACITY_TARGET_H_
