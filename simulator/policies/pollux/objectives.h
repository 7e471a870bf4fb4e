// What makes one allocation better than another, as published, and which of several is taken. Pure;
// thread-safe.

#ifndef ADAPTDL_SIMULATOR_POLICIES_POLLUX_OBJECTIVES_H_
#define ADAPTDL_SIMULATOR_POLICIES_POLLUX_OBJECTIVES_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "simulator/policies/pollux/problem.h"

namespace adaptdl::simulator::pollux {

// Both are to be small.
struct Objectives {
  double benefit = 0;  // minus what the jobs have of it
  double cost = 0;     // OSDI: minus the utility; master: number of nodes

  // At least as good in both and better in one.
  bool Dominates(const Objectives& other) const {
    return benefit <= other.benefit && cost <= other.cost && (benefit < other.benefit || cost < other.cost);
  }
  bool operator==(const Objectives& other) const { return benefit == other.benefit && cost == other.cost; }
};

// OSDI'21: benefit = - power mean of (x + 0.001) with exponent `power` (0: geometric mean) over the jobs,
// where x = speed-up times dominant share times nodes, times the restart factor if the job changes; cost = -
// utility.
Objectives EvaluateOsdi(const Problem& problem, double power, const State& state);

// Master: benefit = - sum of speed-up times dominant share times nodes, times 0.9 if the job changes; cost =
// cluster size.
Objectives EvaluateMaster(const Problem& problem, const State& state);

// Speed-up per replica, weighted by the part of the nodes in use that the job has; of the resource for which
// that is the largest.
double Utility(const Problem& problem, const State& state);

// One of the allocations that are not dominated.
struct Candidate {
  Objectives objectives;
  double utility = 0;
};

// Nodes that master wants: `nodes` while the best that fits them has a utility in [0.35, 0.65]; else the cost
// of the candidate with a utility of at least 0.35 that is closest to 0.5, the larger if two are.
int DesiredNodes(absl::Span<const Candidate> candidates, int nodes);

// The candidate with the largest benefit that costs at most `nodes`; nullopt: all cost more.
std::optional<int> BestWithin(absl::Span<const Candidate> candidates, int nodes);

}  // namespace adaptdl::simulator::pollux

#endif  // ADAPTDL_SIMULATOR_POLICIES_POLLUX_OBJECTIVES_H_
