// The selection problem of the goodput policy: at most one option per job, so that the sum of the values is
// largest and no pool gives out more than it has (a multiple-choice knapsack with one constraint per pool).
//
//   ChoiceResult result = SolveMultipleChoice({.groups = options_by_job, .capacity = {64}});
//
// Exact by dynamic programming where the table is small. Beyond that, Lagrangian relaxation: each pool gets a
// price per unit at which every job alone takes what it likes best; the prices that balance demand and supply
// bound the optimum from above, and repairing the jobs' choices gives a selection. What the prices prove to
// be in no optimal selection is struck out, and the rest is solved exactly if that is small. `bound` says how
// far from the optimum the selection can be at most. (Fisher, "The Lagrangian relaxation method for solving
// integer programming problems", 1981; Sinha and Zoltners, "The multiple-choice knapsack problem", 1979.)
//
// Pure and deterministic; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_MULTIPLE_CHOICE_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_MULTIPLE_CHOICE_H_

#include <cstdint>
#include <vector>

namespace adaptdl::scheduling {

// One way to serve a job. Those with a value of 0 or less, or with more than the pool has, are never chosen.
struct Option {
  double value = 0;
  int pool = 0;
  // Units of the pool's capacity. At least 0.
  int amount = 0;
};

struct ChoiceProblem {
  // By job. No option of a group need be chosen; that has the value 0.
  std::vector<std::vector<Option>> groups;
  // Units, by pool.
  std::vector<int> capacity;
  // A selection that there is room for, by group: the index of its option, or -1. The result is no worse.
  // Empty: none is known.
  std::vector<int> known = {};
};

struct ChoiceLimits {
  // Largest number of table updates that dynamic programming may take.
  int64_t table_updates = 4'000'000;
  // Steps of the search for prices. The bound is valid however few there are.
  int price_steps = 100;
};

struct ChoiceResult {
  // By group: the index of its option, or -1.
  std::vector<int> chosen;
  double value = 0;
  // No selection has a larger value.
  double bound = 0;
  // What one more unit would be worth, about; by pool.
  std::vector<double> price;
};

ChoiceResult SolveMultipleChoice(const ChoiceProblem& problem, const ChoiceLimits& limits);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_MULTIPLE_CHOICE_H_
