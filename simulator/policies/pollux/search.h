// NSGA-II: a population of allocations that evolves towards those that nothing dominates.
//
// Binary tournament by dominance, then crowding distance; survival by front, then crowding distance; no
// allocation twice. As published, but children that were there before are not tried for again and again: a
// small cluster has few allocations in all.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_SIMULATOR_POLICIES_POLLUX_SEARCH_H_
#define ADAPTDL_SIMULATOR_POLICIES_POLLUX_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "simulator/policies/pollux/objectives.h"
#include "simulator/policies/pollux/problem.h"

namespace adaptdl::simulator::pollux {

struct SearchOptions {
  Variant variant = Variant::kOsdi;
  // Allocations that survive a generation. At least 1.
  int population = 100;
  // The first is the population given. At least 1.
  int generations = 100;
  // Of the mean over jobs, see EvaluateOsdi().
  double power = -1;
  // Most nodes of one job. 0: no bound.
  int most_nodes = 16;
};

struct Individual {
  State state;
  Objectives objectives;
};

struct SearchResult {
  // Survivors, the best front first.
  std::vector<Individual> population;
  // So many of them are dominated by none.
  int front = 0;
  // Allocations that were evaluated.
  int64_t evaluated = 0;
};

// Front of each: 0 is dominated by none, 1 by some of front 0 only, and so on. O(n log n).
std::vector<int> SortIntoFronts(absl::Span<const Objectives> values);

// Crowding distance of each member of one front: the ends have infinity.
std::vector<double> CrowdingDistances(absl::Span<const Objectives> front);

// `start` is repaired first; not empty. Deterministic for a seed.
SearchResult Search(const Problem& problem, const SearchOptions& options, std::vector<State> start,
                    uint64_t seed);

}  // namespace adaptdl::simulator::pollux

#endif  // ADAPTDL_SIMULATOR_POLICIES_POLLUX_SEARCH_H_
