// The genetic operators: what makes a new allocation of old ones, and what makes it keep the rules.
//
// All are pure functions; what they need of chance is given to them. Formulas: the published Pollux policy
// (OSDI'21 artifact and AdaptDL master), which differ in cross-over and mutation. Thread-safe.

#ifndef ADAPTDL_SIMULATOR_POLICIES_POLLUX_OPERATORS_H_
#define ADAPTDL_SIMULATOR_POLICIES_POLLUX_OPERATORS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "simulator/policies/pollux/problem.h"

namespace adaptdl::simulator::pollux {

// A generator, and draws from it that are the same on every platform.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // In [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // In [0, n). REQUIRES: n >= 1.
  int Below(int n) {
    return static_cast<int>((static_cast<unsigned __int128>(Next()) * static_cast<uint64_t>(n)) >> 64);
  }
  // Trials before the first success, each with this probability; a large number if that is 0.
  int Failures(double probability);

 private:
  // SplitMix64 (Steele, Lea, Flood 2014): most of the search is drawing numbers.
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

// Makes an allocation keep the rules, in this order: pinned jobs are as they are; at most one job that spans
// nodes on a node, the first; no more than max_replicas and rules.most_nodes, the nodes being taken in random
// order; no more on a node than it has, the first jobs first; an allowed size or none.
// `keys`: numbers of a job by node; the nodes are taken in ascending order. Called only where it matters.
void Repair(const Problem& problem, const RepairRules& rules,
            absl::FunctionRef<absl::Span<const double>(int job)> keys, State& state);

// 1 + the last node that is in use; 0: none is.
int ClusterSize(const Problem& problem, const State& state);

// Swaps the first `cut` jobs of two allocations.
void SwapJobs(const Problem& problem, int cut, State& a, State& b);

// Master's cross-over: SwapJobs(); then each is cut down to a number of nodes between those of the two
// parents, smallest + draw modulo the number of choices.
void CrossOverMaster(const Problem& problem, int cut, int draw_a, int draw_b, State& a, State& b);

// Master's mutation: about one cell that is 0 and one that is not of each job become `value(cell, low,
// high)`. `uniform`: one number in [0, 1) for each cell. `force_least`: no cell is below problem.least, as
// published.
void MutateMaster(const Problem& problem, absl::Span<const double> uniform,
                  absl::FunctionRef<int(size_t cell, int low, int high)> value, bool force_least,
                  State& state);

// The artifact's mutation: a job goes back to what it has at present (one in ten), or loses each of its nodes
// with probability 0.1 (one in ten); then cells on nodes with room for one more of the job are raised to a
// value between what they are and what the node holds, with probability 1 / (jobs that fit), and once more
// with 1 / (jobs there that fit) for jobs that are there.
void MutateOsdi(const Problem& problem, Random& random, State& state);

}  // namespace adaptdl::simulator::pollux

#endif  // ADAPTDL_SIMULATOR_POLICIES_POLLUX_OPERATORS_H_
