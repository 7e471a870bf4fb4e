#include "libs/scheduling/goodput/multiple_choice.h"

#include <cstddef>
#include <vector>

#include "libs/scheduling/goodput/candidates.h"
#include "libs/scheduling/goodput/choice_table.h"
#include "libs/scheduling/goodput/price_relaxation.h"
#include "libs/scheduling/goodput/unit_prices.h"

namespace adaptdl::scheduling {
namespace {

// A selection that is within this part of the bound is the best one, as far as numbers go.
constexpr double kOptimal = 1e-9;
// It is as good as that where nothing better will be found out: the table is too large for any way to strike options out.
constexpr double kCloseEnough = 1e-4;

// The known selection, or nothing. Options that were sifted out are replaced by what made them useless.
Selection KnownSelection(const ChoiceProblem& problem, const Candidates& candidates) {
  Selection selection(candidates, problem.capacity);
  for (size_t g = 0; g < problem.known.size(); ++g) {
    if (problem.known[g] < 0) continue;
    const Option& known = problem.groups[g][problem.known[g]];
    for (size_t i = 0; i < candidates[g].size(); ++i) {
      const Candidate& candidate = candidates[g][i];
      if (candidate.pool != known.pool || candidate.amount > known.amount || candidate.value < known.value) {
        continue;
      }
      selection.Choose(g, static_cast<int>(i));
      break;
    }
  }
  return selection;
}

std::vector<int> ToIndices(const Candidates& candidates, const std::vector<int>& positions) {
  std::vector<int> indices(candidates.size(), -1);
  for (size_t g = 0; g < candidates.size(); ++g) {
    if (positions[g] >= 0) indices[g] = candidates[g][positions[g]].index;
  }
  return indices;
}

double ValueOf(const ChoiceProblem& problem, const std::vector<int>& chosen) {
  double value = 0;
  for (size_t g = 0; g < chosen.size(); ++g) {
    if (chosen[g] >= 0) value += problem.groups[g][chosen[g]].value;
  }
  return value;
}

ChoiceResult SolveExactly(const ChoiceProblem& problem, const Candidates& candidates) {
  ChoiceResult result;
  result.chosen = ToIndices(candidates, SolveByTable(candidates, problem.capacity));
  result.value = result.bound = ValueOf(problem, result.chosen);
  result.price.assign(problem.capacity.size(), 0);
  const UnitPrices prices(candidates, problem.capacity);
  for (size_t p = 0; p < problem.capacity.size(); ++p) prices.Balance(static_cast<int>(p), &result.price);
  return result;
}

}  // namespace

ChoiceResult SolveMultipleChoice(const ChoiceProblem& problem, const ChoiceLimits& limits) {
  Candidates candidates = Sift(problem);
  if (FitsTable(candidates, problem.capacity, limits.table_updates / 8))
    return SolveExactly(problem, candidates);
  ChoiceResult result;
  PriceRelaxation relaxation(candidates, problem.capacity, KnownSelection(problem, candidates));
  const bool may_be_exact = MayFitTable(problem.capacity, limits.table_updates);
  relaxation.Solve(limits.price_steps, may_be_exact ? kOptimal : kCloseEnough);
  result.price = relaxation.price();
  result.bound = relaxation.bound();
  result.chosen = ToIndices(candidates, relaxation.best().chosen());
  result.value = ValueOf(problem, result.chosen);
  if (!may_be_exact || result.bound - result.value <= kOptimal * result.bound) return result;
  relaxation.StrikeOut(&candidates);
  if (!FitsTable(candidates, problem.capacity, limits.table_updates)) return result;
  const std::vector<int> exact = ToIndices(candidates, SolveByTable(candidates, problem.capacity));
  const double value = ValueOf(problem, exact);
  if (value > result.value) {
    result.chosen = exact;
    result.value = value;
  }
  result.bound = result.value;
  return result;
}

}  // namespace adaptdl::scheduling
