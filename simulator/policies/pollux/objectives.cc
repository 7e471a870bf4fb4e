#include "simulator/policies/pollux/objectives.h"

#include <algorithm>
#include <cmath>

#include "simulator/policies/pollux/operators.h"

namespace adaptdl::simulator::pollux {
namespace {

constexpr double kOffset = 1e-3;  // keeps the mean away from 0 while jobs wait
constexpr double kMasterRestartFactor = 0.9;
constexpr double kLeastUtility = 0.35;
constexpr double kMostUtility = 0.65;
constexpr double kBestUtility = 0.5;

bool Changed(const Problem& problem, const State& state, int job) {
  const ConstRow row = problem.row(state, job);
  return !std::equal(row.begin(), row.end(), problem.row(problem.base, job).begin());
}

// The job's speed-up in units of its dominant share of the mean node.
double Scaled(const Problem& problem, int job, double speedup) {
  return speedup * problem.dominant_share[job] * problem.nodes;
}

}  // namespace

double Utility(const Problem& problem, const State& state) {
  const int resources = problem.resources;
  std::vector<char> used(problem.nodes, 0);
  std::vector<double> efficient(resources, 0);  // by resource: amounts in use times speed-up per replica
  for (int job = 0; job < problem.jobs; ++job) {
    const ConstRow row = problem.row(state, job);
    const Size size = SizeOf(row);
    if (size.replicas == 0) continue;
    for (int node = 0; node < problem.nodes; ++node) used[node] |= row[node] != 0;
    const double speedup = problem.Speedup(job, size.nodes, size.replicas);
    for (int r = 0; r < resources; ++r) {
      efficient[r] +=
          speedup * static_cast<double>(problem.request[static_cast<size_t>(job) * resources + r]);
    }
  }
  double utility = 0;
  for (int r = 0; r < resources; ++r) {
    int64_t total = 0;
    for (int node = 0; node < problem.nodes; ++node) {
      if (used[node]) total += problem.capacity[static_cast<size_t>(node) * resources + r];
    }
    if (total > 0) utility = std::max(utility, efficient[r] / static_cast<double>(total));
  }
  return utility;
}

Objectives EvaluateOsdi(const Problem& problem, double power, const State& state) {
  double sum = 0;
  for (int job = 0; job < problem.jobs; ++job) {
    const Size size = SizeOf(problem.row(state, job));
    double value = Scaled(problem, job, problem.Speedup(job, size.nodes, size.replicas));
    if (value > 0 && Changed(problem, state, job)) value *= problem.restart_factor[job];
    value += kOffset;
    sum += power == 0 ? std::log(value) : power == -1 ? 1 / value : std::pow(value, power);
  }
  const double mean = sum / problem.jobs;
  const double power_mean = power == 0 ? std::exp(mean) : power == -1 ? 1 / mean : std::pow(mean, 1 / power);
  return {-power_mean, -Utility(problem, state)};
}

Objectives EvaluateMaster(const Problem& problem, const State& state) {
  double sum = 0;
  for (int job = 0; job < problem.jobs; ++job) {
    const Size size = SizeOf(problem.row(state, job));
    const double value = Scaled(problem, job, problem.Speedup(job, size.nodes, size.replicas));
    sum += value > 0 && Changed(problem, state, job) ? value * kMasterRestartFactor : value;
  }
  return {-sum, static_cast<double>(ClusterSize(problem, state))};
}

std::optional<int> BestWithin(absl::Span<const Candidate> candidates, int nodes) {
  std::optional<int> best;
  for (int i = 0; i < static_cast<int>(candidates.size()); ++i) {
    if (candidates[i].objectives.cost > nodes) continue;
    if (!best || candidates[i].objectives.benefit < candidates[*best].objectives.benefit) best = i;
  }
  return best;
}

int DesiredNodes(absl::Span<const Candidate> candidates, int nodes) {
  const std::optional<int> fitting = BestWithin(candidates, nodes);
  if (fitting && candidates[*fitting].utility >= kLeastUtility &&
      candidates[*fitting].utility <= kMostUtility) {
    return nodes;
  }
  int desired = nodes;
  double least_distance = INFINITY;
  for (const Candidate& candidate : candidates) {
    if (candidate.utility < kLeastUtility) continue;
    const double distance = std::abs(candidate.utility - kBestUtility);
    const int cost = static_cast<int>(candidate.objectives.cost);
    if (distance > least_distance || (distance == least_distance && cost < desired)) continue;
    least_distance = distance;
    desired = cost;
  }
  return desired;
}

}  // namespace adaptdl::simulator::pollux
