#include "libs/nodepools/target.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace adaptdl::nodepools {
namespace {

bool IsAmount(double value) { return value > 0 && std::isfinite(value); }

}  // namespace

absl::string_view TargetModeName(TargetMode mode) {
  switch (mode) {
    case TargetMode::kBand:
      return "band";
    case TargetMode::kBudget:
      return "budget";
    case TargetMode::kDeadline:
      return "deadline";
    case TargetMode::kCost:
      return "cost";
  }
  return "unknown";
}

absl::Status CheckTarget(const Target& target, bool priced) {
  if (!(target.utility_low > 0) || !(target.utility_low < target.utility_high) || target.utility_high > 1) {
    return absl::InvalidArgumentError(absl::StrCat("utilityLow ", target.utility_low, " and utilityHigh ",
                                                   target.utility_high,
                                                   " are no band: use 0 < low < high <= 1"));
  }
  if (!(target.least_use >= 0) || target.least_use > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("leastUse is ", target.least_use, "; it must be in [0, 1]"));
  }
  if (!(target.keep_factor > 0) || target.keep_factor > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("keepFactor is ", target.keep_factor, "; it must be above 0 and at most 1"));
  }
  if (target.mode == TargetMode::kBudget && !IsAmount(target.budget_per_hour)) {
    return absl::InvalidArgumentError(absl::StrCat("budgetPerHour is ", target.budget_per_hour,
                                                   "; the mode budget needs one that is greater than 0"));
  }
  if (target.mode == TargetMode::kCost && !IsAmount(target.goodput_per_price)) {
    return absl::InvalidArgumentError(absl::StrCat("goodputPerDollar is ", target.goodput_per_price,
                                                   "; the mode cost needs one that is greater than 0"));
  }
  if ((target.mode == TargetMode::kBudget || target.mode == TargetMode::kCost) && !priced) {
    return absl::InvalidArgumentError(
        absl::StrCat("the mode ", TargetModeName(target.mode), " needs a pricePerHour of each pool"));
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::nodepools
