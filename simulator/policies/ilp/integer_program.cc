#include "simulator/policies/ilp/integer_program.h"

#include <coin/Cbc_C_Interface.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"

namespace adaptdl::simulator {
namespace {

// CBC's solver driver reads and writes static variables of its library.
Mutex solver_mutex;

absl::Status Check(const IntegerProgram& problem) {
  for (const double capacity : problem.capacities) {
    if (!std::isfinite(capacity)) {
      return absl::InvalidArgumentError(absl::StrCat("a capacity is ", capacity, "; it must be finite"));
    }
  }
  for (const auto& group : problem.groups) {
    for (const IntegerProgram::Option& option : group) {
      if (!std::isfinite(option.value)) {
        return absl::InvalidArgumentError(absl::StrCat("a value is ", option.value, "; it must be finite"));
      }
      for (const auto& [capacity, amount] : option.usage) {
        if (!std::isfinite(amount) || capacity < 0 ||
            capacity >= static_cast<int>(problem.capacities.size())) {
          return absl::InvalidArgumentError(absl::StrCat("an option takes ", amount, " of capacity ",
                                                         capacity, "; there are ",
                                                         problem.capacities.size()));
        }
      }
    }
  }
  return absl::OkStatus();
}

// The problem in columns: one for each option that is worth something. Rows: capacities, then groups.
struct Columns {
  std::vector<int> start = {0};
  std::vector<int> row;
  std::vector<double> amount;
  std::vector<double> cost;
  std::vector<std::pair<int, int>> option;  // group, index
};

Columns MakeColumns(const IntegerProgram& problem) {
  Columns columns;
  const int capacities = static_cast<int>(problem.capacities.size());
  for (int g = 0; g < static_cast<int>(problem.groups.size()); ++g) {
    for (int i = 0; i < static_cast<int>(problem.groups[g].size()); ++i) {
      const IntegerProgram::Option& option = problem.groups[g][i];
      if (option.value <= 0) continue;
      for (const auto& [capacity, amount] : option.usage) {
        if (amount == 0) continue;
        columns.row.push_back(capacity);
        columns.amount.push_back(amount);
      }
      columns.row.push_back(capacities + g);
      columns.amount.push_back(1);
      columns.start.push_back(static_cast<int>(columns.row.size()));
      columns.cost.push_back(-option.value);
      columns.option.emplace_back(g, i);
    }
  }
  return columns;
}

}  // namespace

absl::StatusOr<IntegerSolution> SolveIntegerProgram(const IntegerProgram& problem) {
  if (absl::Status status = Check(problem); !status.ok()) return status;
  IntegerSolution solution;
  solution.chosen.assign(problem.groups.size(), -1);
  const Columns columns = MakeColumns(problem);
  const int count = static_cast<int>(columns.cost.size());
  if (count == 0) return solution;

  std::vector<double> most = problem.capacities;
  most.resize(problem.capacities.size() + problem.groups.size(), 1);
  const std::vector<double> least(most.size(), -HUGE_VAL);
  const std::vector<double> zeros(count, 0);
  const std::vector<double> ones(count, 1);
  MutexLock lock(&solver_mutex);
  const std::unique_ptr<Cbc_Model, void (*)(Cbc_Model*)> model(Cbc_newModel(), Cbc_deleteModel);
  Cbc_setLogLevel(model.get(), 0);
  Cbc_loadProblem(model.get(), count, static_cast<int>(most.size()), columns.start.data(), columns.row.data(),
                  columns.amount.data(), zeros.data(), ones.data(), columns.cost.data(), least.data(),
                  most.data());
  for (int column = 0; column < count; ++column) Cbc_setInteger(model.get(), column);
  Cbc_setAllowableGap(model.get(), 0);
  Cbc_solve(model.get());
  if (!Cbc_isProvenOptimal(model.get())) {
    return absl::InternalError(absl::StrCat("CBC found no optimum: status ", Cbc_status(model.get())));
  }
  const double* taken = Cbc_getColSolution(model.get());
  for (int column = 0; column < count; ++column) {
    if (taken[column] < 0.5) continue;
    const auto [group, index] = columns.option[column];
    solution.chosen[group] = index;
    solution.value += problem.groups[group][index].value;
  }
  return solution;
}

}  // namespace adaptdl::simulator
