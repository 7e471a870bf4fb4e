// Exact answers to "at most one option of each group, for the largest sum of values, within capacities", by
// COIN-OR CBC's branch and bound.
//
// Thread-safe; but calls wait for each other, since CBC keeps state of its own between calls.

#ifndef ADAPTDL_SIMULATOR_POLICIES_ILP_INTEGER_PROGRAM_H_
#define ADAPTDL_SIMULATOR_POLICIES_ILP_INTEGER_PROGRAM_H_

#include <vector>

#include "absl/status/statusor.h"

namespace adaptdl::simulator {

struct IntegerProgram {
  // How much of a capacity an option takes.
  struct Usage {
    int capacity = 0;  // index
    double amount = 0;
  };
  struct Option {
    // Options of value 0 or less are never chosen.
    double value = 0;
    // Each capacity at most once.
    std::vector<Usage> usage;
  };

  std::vector<std::vector<Option>> groups;
  std::vector<double> capacities;
};

struct IntegerSolution {
  // Index of the option by group; -1: none.
  std::vector<int> chosen;
  // Sum of the values of what is chosen.
  double value = 0;
};

// The best choice, proven; of equals any, but the same for the same problem.
// INVALID_ARGUMENT: a number is not finite or a usage names no capacity. INTERNAL: the solver gave up.
absl::StatusOr<IntegerSolution> SolveIntegerProgram(const IntegerProgram& problem);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_POLICIES_ILP_INTEGER_PROGRAM_H_
