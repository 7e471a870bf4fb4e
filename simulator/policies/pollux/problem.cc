#include "simulator/policies/pollux/problem.h"

#include <algorithm>
#include <limits>

namespace adaptdl::simulator::pollux {
namespace {

constexpr int64_t kMostPerNode = std::numeric_limits<Cell>::max();

// Replicas of a job that fit into `free`, a node's amounts by resource.
int64_t TimesIn(const Problem& problem, int job, const int64_t* free) {
  int64_t times = kMostPerNode;
  const int64_t* request = &problem.request[static_cast<size_t>(job) * problem.resources];
  for (int r = 0; r < problem.resources; ++r) {
    if (request[r] > 0) times = std::min(times, std::max<int64_t>(free[r], 0) / request[r]);
  }
  return times;
}

void FillShares(Problem& problem) {
  std::vector<int64_t> total(problem.resources, 0);
  for (size_t i = 0; i < problem.capacity.size(); ++i) total[i % problem.resources] += problem.capacity[i];
  problem.dominant_share.assign(problem.jobs, 0);
  for (int job = 0; job < problem.jobs; ++job) {
    for (int r = 0; r < problem.resources; ++r) {
      const int64_t request = problem.request[static_cast<size_t>(job) * problem.resources + r];
      if (request == 0 || total[r] == 0) continue;
      problem.dominant_share[job] =
          std::max(problem.dominant_share[job], static_cast<double>(request) / static_cast<double>(total[r]));
    }
  }
}

}  // namespace

Size SizeOf(ConstRow row) {
  // Branch-free, so that the compiler can use vector instructions.
  int replicas = 0;
  int nodes = 0;
  for (const Cell cell : row) {
    replicas += cell;
    nodes += cell != 0;
  }
  return {replicas, nodes};
}

int LargestAllowed(const Problem& problem, int job, int replicas) {
  replicas = std::min(replicas, problem.max_replicas[job]);
  if (replicas < problem.min_replicas[job]) return 0;
  if (problem.allowed.empty() || problem.allowed[job].empty()) return replicas;
  const std::vector<int>& sizes = problem.allowed[job];
  const auto above = std::upper_bound(sizes.begin(), sizes.end(), replicas);
  return above == sizes.begin() ? 0 : *(above - 1);
}

void Finish(Problem& problem) {
  problem.closed.resize(problem.nodes, 0);
  problem.restart_factor.resize(problem.jobs, 1);
  FillShares(problem);
  std::vector<int64_t> available = problem.capacity;
  for (int job = 0; job < problem.jobs; ++job) {
    if (!problem.pinned[job]) continue;
    for (int node = 0; node < problem.nodes; ++node) {
      for (int r = 0; r < problem.resources; ++r) {
        available[static_cast<size_t>(node) * problem.resources + r] -=
            problem.request[static_cast<size_t>(job) * problem.resources + r] *
            problem.base[problem.at(job, node)];
      }
    }
  }
  problem.most.assign(problem.cells(), 0);
  problem.least.assign(problem.cells(), 0);
  for (int job = 0; job < problem.jobs; ++job) {
    int64_t missing = problem.min_replicas[job];
    for (int node = 0; node < problem.nodes; ++node) {
      if (problem.closed[node]) continue;
      const int64_t most = TimesIn(problem, job, &available[static_cast<size_t>(node) * problem.resources]);
      problem.most[problem.at(job, node)] = static_cast<Cell>(most);
      const int64_t least = std::min(missing, most);
      problem.least[problem.at(job, node)] = static_cast<Cell>(least);
      missing -= least;
    }
  }
}

}  // namespace adaptdl::simulator::pollux
