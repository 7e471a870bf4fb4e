// What the node pools of a cluster aim at together.
//
//   band      keep the cluster's utility within a band: stay while it is there; else go to the size whose utility is
//             nearest to the middle of the band, and no less than its lower end (AdaptDL's rule: Pollux, section 4.2.2)
//   budget    as many nodes as are made good use of, and all pools' cost per hour within a bound
//   deadline  what jobs need at least, and of those that say how much work they have left as much as lets each end in time
//   cost      as many nodes as bring at least so much goodput for what they cost
//
// What jobs need at least to start is part of each, but for the bound of a budget; and so is what jobs with a deadline
// of their own need to keep it.
//
// Plain values; thread-safe.

#ifndef ADAPTDL_LIBS_NODEPOOLS_TARGET_H_
#define ADAPTDL_LIBS_NODEPOOLS_TARGET_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::nodepools {

enum class TargetMode { kBand, kBudget, kDeadline, kCost };

absl::string_view TargetModeName(TargetMode mode);

struct Target {
  TargetMode mode = TargetMode::kBand;
  // kBand: bounds of the utility, inclusive. 0 < utility_low < utility_high <= 1.
  double utility_low = 0.35;
  double utility_high = 0.65;
  // kBudget: most that all pools' nodes may cost per hour. Greater than 0.
  double budget_per_hour = 0;
  // kDeadline: when the jobs that say how much work they have left are to be done. May have passed.
  absl::Time deadline = {};
  // kCost: speed-ups that each unit of currency per hour must bring at least. Greater than 0. A speed-up of 1 is the speed
  // of a job's single replica on the kind of node that it knows best.
  double goodput_per_price = 0;
  // kBand, kBudget: a part of a node is made good use of if the replicas there add this part of what a single one
  // brings. In [0, 1].
  double least_use = 0.35;
  // A node that is there is kept down to this part of what a new one must bring, so that nodes do not come and go. In
  // (0, 1].
  double keep_factor = 0.5;
  // Whether what jobs need at least is to be on nodes that last, and only the rest on preemptible ones.
  bool floor_on_lasting = false;
  // Time without a change of its size before a pool shrinks. 0: none.
  absl::Duration cooldown = absl::Seconds(60);
};

// INVALID_ARGUMENT, naming the field of the pool file, unless the target can be followed. `priced`: whether the pools
// have prices.
absl::Status CheckTarget(const Target& target, bool priced);

}  // namespace adaptdl::nodepools

#endif  // ADAPTDL_LIBS_NODEPOOLS_TARGET_H_
