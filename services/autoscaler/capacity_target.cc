#include "services/autoscaler/capacity_target.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace adaptdl::autoscaler {
namespace {

// Sums of fractions.
constexpr double kRounding = 1e-9;

std::string Minutes(absl::Duration duration) {
  return absl::FormatDuration(absl::Ceil(duration, absl::Minutes(1)));
}

// Of the sizes from `least` to `most`: the one with the utility nearest to the middle of the band, and at
// least its lower end. Of equals the largest. Absent: there is none.
std::optional<int> NearestToMiddle(const CapacityTarget& target, const Demand& demand, int least, int most) {
  const double middle = (target.utility_low + target.utility_high) / 2;
  std::optional<int> nearest;
  double distance = 0;
  for (const SizePoint& point : demand.points) {
    if (point.nodes < least || point.nodes > most || point.utility < target.utility_low - kRounding) continue;
    const double here = std::abs(point.utility - middle);
    if (nearest.has_value() && here > distance + kRounding) continue;
    nearest = point.nodes;
    distance = here;
  }
  return nearest;
}

// Never leaves the sizes from what jobs need to start to what the allocator would make good use of. From a
// size that it chose it goes nowhere else, whatever the utilities are.
TargetSize FollowBand(const CapacityTarget& target, const Demand& demand, int current) {
  if (demand.points.empty()) return {demand.desired_nodes, ""};
  const int least = std::min(demand.start_nodes, demand.desired_nodes);
  const int most = demand.desired_nodes;
  int nodes = std::clamp(current, least, most);
  // Without a node there is nothing in use, and everything to gain.
  const double utility = UtilityAt(demand, nodes).value_or(1);
  if (utility > target.utility_high + kRounding) {
    nodes = NearestToMiddle(target, demand, nodes, most).value_or(nodes);
  } else if (utility < target.utility_low - kRounding) {
    nodes = NearestToMiddle(target, demand, least, most).value_or(least);
  }
  if (nodes == demand.desired_nodes) return {nodes, ""};
  return {nodes,
          absl::StrFormat("%s for a utility of %.2f, the band is %.2f to %.2f", NodeCount(nodes),
                          UtilityAt(demand, nodes).value_or(0), target.utility_low, target.utility_high)};
}

TargetSize MeetDeadline(const CapacityTarget& target, const Demand& demand, absl::Time now) {
  const absl::Duration left = target.deadline - now;
  const SizePoint* chosen = nullptr;
  for (const SizePoint& point : demand.points) {
    if (!point.makespan.has_value()) continue;
    // The makespan never rises, so what is no shorter is a waste.
    if (chosen == nullptr || *point.makespan < *chosen->makespan) chosen = &point;
    if (*chosen->makespan <= left) break;
  }
  if (chosen == nullptr) return {demand.desired_nodes, "no job says how much work it has left"};
  const int nodes = std::max(chosen->nodes, demand.start_nodes);
  const std::string end = absl::StrCat(NodeCount(nodes), " to end in ", Minutes(*chosen->makespan));
  if (*chosen->makespan <= left) return {nodes, absl::StrCat(end, ", the deadline is in ", Minutes(left))};
  if (left <= absl::ZeroDuration()) return {nodes, absl::StrCat(end, ", the deadline has passed")};
  return {nodes, absl::StrCat(end, ", too late for the deadline in ", Minutes(left))};
}

}  // namespace

std::string NodeCount(int nodes) { return absl::StrCat(nodes, nodes == 1 ? " node" : " nodes"); }

absl::Status CheckTarget(const CapacityTarget& target, int min_nodes) {
  if (!(target.utility_low > 0) || !(target.utility_low < target.utility_high) || target.utility_high > 1) {
    return absl::InvalidArgumentError(absl::StrCat("--utility-low ", target.utility_low,
                                                   " and --utility-high ", target.utility_high,
                                                   " are no band: use 0 < low < high <= 1"));
  }
  if (!(target.node_price_per_hour >= 0) || !std::isfinite(target.node_price_per_hour)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--node-price-per-hour ", target.node_price_per_hour, " is no price"));
  }
  if (target.mode != TargetMode::kBudget) return absl::OkStatus();
  if (!(target.budget_per_hour > 0) || !std::isfinite(target.budget_per_hour) ||
      target.node_price_per_hour == 0) {
    return absl::InvalidArgumentError(
        "--target budget needs --budget-per-hour and --node-price-per-hour, both greater than 0");
  }
  const int most = *NodesInBudget(target);
  if (most < min_nodes) {
    return absl::InvalidArgumentError(absl::StrCat("--budget-per-hour ", target.budget_per_hour, " pays for ",
                                                   NodeCount(most), ", --min-nodes is ", min_nodes,
                                                   ": raise the one or lower the other"));
  }
  return absl::OkStatus();
}

std::optional<int> NodesInBudget(const CapacityTarget& target) {
  if (target.mode != TargetMode::kBudget) return std::nullopt;
  // More than anybody has.
  constexpr double kMost = 1e6;
  const double nodes = target.budget_per_hour / target.node_price_per_hour * (1 + kRounding);
  return static_cast<int>(std::floor(std::min(nodes, kMost)));
}

std::optional<double> UtilityAt(const Demand& demand, int nodes) {
  if (demand.points.empty() || nodes < demand.points.front().nodes) return std::nullopt;
  const SizePoint& last = demand.points.back();
  if (nodes <= last.nodes) return demand.points[nodes - demand.points.front().nodes].utility;
  // Further nodes bring nothing. Utility does not count the nodes of other kinds that are part of every size.
  const int others = demand.points.front().nodes - 1;
  return last.utility * (last.nodes - others) / (nodes - others);
}

TargetSize ChooseSize(const CapacityTarget& target, const Demand& demand, int current_nodes, absl::Time now) {
  switch (target.mode) {
    case TargetMode::kBand:
      return FollowBand(target, demand, current_nodes);
    case TargetMode::kBudget:
      break;  // the bound is one of the pool
    case TargetMode::kDeadline:
      return MeetDeadline(target, demand, now);
  }
  return {demand.desired_nodes, ""};
}

}  // namespace adaptdl::autoscaler
