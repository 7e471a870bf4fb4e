#include "simulator/policies/pollux/operators.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace adaptdl::simulator::pollux {
namespace {

constexpr double kResetProbability = 0.1;
constexpr double kThinProbability = 0.1;      // of a job
constexpr double kThinNodeProbability = 0.1;  // of each of its nodes

void ClearRow(Row row) { std::fill(row.begin(), row.end(), Cell{0}); }

// At most one job that spans nodes on each node: the first.
void SeparateDistributed(const Problem& problem, State& state) {
  std::vector<char> taken(problem.nodes, 0);
  const auto claim = [&](int job) {
    const Row row = problem.row(state, job);
    if (SizeOf(row).nodes < 2) return;
    for (int node = 0; node < problem.nodes; ++node) {
      if (row[node] == 0) continue;
      if (taken[node] && !problem.pinned[job]) row[node] = 0;
      taken[node] = 1;
    }
  };
  // What is pinned is first in the published order, but may have been started elsewhere by other rules.
  for (const bool pinned : {true, false}) {
    for (int job = 0; job < problem.jobs; ++job) {
      if (static_cast<bool>(problem.pinned[job]) == pinned) claim(job);
    }
  }
}

// The same as published: from the second job on that spans nodes, all jobs lose the node.
void SeparateDistributedAsPublished(const Problem& problem, State& state) {
  std::vector<int> spanning(problem.nodes, 0);
  for (int job = 0; job < problem.jobs; ++job) {
    const Row row = problem.row(state, job);
    const bool spans = SizeOf(row).nodes > 1;
    for (int node = 0; node < problem.nodes; ++node) {
      spanning[node] += spans && row[node] > 0;
      if (spanning[node] > 1) row[node] = 0;
    }
  }
}

// Takes the nodes in the order of their keys until the replicas or the nodes are used up; the rest become 0.
void CutToSize(int replicas, int nodes, absl::Span<const double> keys, Row row) {
  std::vector<int> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  for (const int node : order) {
    if (row[node] == 0) continue;
    row[node] = nodes-- > 0 ? static_cast<Cell>(std::min<int>(row[node], replicas)) : Cell{0};
    replicas -= row[node];
  }
}

void LimitJobs(const Problem& problem, const RepairRules& rules,
               absl::FunctionRef<absl::Span<const double>(int job)> keys, State& state) {
  for (int job = 0; job < problem.jobs; ++job) {
    if (problem.pinned[job] && !rules.as_published) continue;
    const Row row = problem.row(state, job);
    const Size size = SizeOf(row);
    const int most =
        rules.as_published ? problem.max_replicas[job] : LargestAllowed(problem, job, size.replicas);
    if (most == 0) {
      ClearRow(row);
    } else if (size.replicas > most || size.nodes > rules.most_nodes) {
      CutToSize(most, rules.most_nodes, keys(job), row);
    }
  }
}

// Each node to the first jobs first; a job gets what fits, and only that is charged for.
void LimitNodes(const Problem& problem, State& state) {
  std::vector<int64_t> free = problem.capacity;
  const int resources = problem.resources;
  const auto charge = [&](int job, int node, int64_t replicas) {
    for (int r = 0; r < resources; ++r) {
      free[static_cast<size_t>(node) * resources + r] -=
          problem.request[static_cast<size_t>(job) * resources + r] * replicas;
    }
  };
  for (int job = 0; job < problem.jobs; ++job) {
    if (!problem.pinned[job]) continue;
    for (int node = 0; node < problem.nodes; ++node) {
      if (const Cell cell = state[problem.at(job, node)]; cell > 0) charge(job, node, cell);
    }
  }
  for (int job = 0; job < problem.jobs; ++job) {
    if (problem.pinned[job]) continue;
    const int64_t* request = &problem.request[static_cast<size_t>(job) * resources];
    const Row row = problem.row(state, job);
    for (int node = 0; node < problem.nodes; ++node) {
      if (row[node] == 0) continue;
      int64_t fits = problem.closed[node] ? 0 : row[node];
      for (int r = 0; r < resources; ++r) {
        const int64_t left = std::max<int64_t>(free[static_cast<size_t>(node) * resources + r], 0);
        if (request[r] > 0) fits = std::min(fits, left / request[r]);
      }
      row[node] = static_cast<Cell>(fits);
      charge(job, node, fits);
    }
  }
}

// The same as published: the demands before a job count in full, also those that were refused.
void LimitNodesAsPublished(const Problem& problem, State& state) {
  constexpr int64_t kMost = 99;
  std::vector<int64_t> demand(problem.resources);
  for (int node = 0; node < problem.nodes; ++node) {
    std::fill(demand.begin(), demand.end(), 0);
    const int64_t* capacity = &problem.capacity[static_cast<size_t>(node) * problem.resources];
    for (int job = 0; job < problem.jobs; ++job) {
      Cell& cell = state[problem.at(job, node)];
      int64_t fits = kMost;
      for (int r = 0; r < problem.resources; ++r) {
        const int64_t request = problem.request[static_cast<size_t>(job) * problem.resources + r];
        const int64_t before = std::min(demand[r], capacity[r]);
        demand[r] += request * cell;
        if (request > 0) fits = std::min(fits, (std::min(demand[r], capacity[r]) - before) / request);
      }
      cell = static_cast<Cell>(fits);
    }
  }
}

}  // namespace

int Random::Failures(double probability) {
  constexpr double kNever = 1e9;
  if (probability >= 1) return 0;
  if (probability <= 0) return static_cast<int>(kNever);
  // 1 - Uniform() is in (0, 1].
  return static_cast<int>(std::min(std::log(1 - Uniform()) / std::log1p(-probability), kNever));
}

void Repair(const Problem& problem, const RepairRules& rules,
            absl::FunctionRef<absl::Span<const double>(int job)> keys, State& state) {
  for (int job = 0; job < problem.jobs; ++job) {
    if (!problem.pinned[job]) continue;
    const ConstRow base = problem.row(problem.base, job);
    std::copy(base.begin(), base.end(), problem.row(state, job).begin());
  }
  if (rules.as_published) {
    SeparateDistributedAsPublished(problem, state);
  } else {
    SeparateDistributed(problem, state);
  }
  LimitJobs(problem, rules, keys, state);
  if (rules.as_published) {
    LimitNodesAsPublished(problem, state);
  } else {
    LimitNodes(problem, state);
  }
  for (int job = 0; job < problem.jobs; ++job) {
    if (problem.pinned[job] && !rules.as_published) continue;
    const Row row = problem.row(state, job);
    const int replicas = SizeOf(row).replicas;
    const int allowed = rules.as_published ? (replicas < problem.min_replicas[job] ? 0 : replicas)
                                           : LargestAllowed(problem, job, replicas);
    if (allowed == 0) {
      ClearRow(row);
    } else if (allowed < replicas) {
      CutToSize(allowed, problem.nodes, keys(job), row);
    }
  }
}

int ClusterSize(const Problem& problem, const State& state) {
  int size = 0;
  for (int job = 0; job < problem.jobs; ++job) {
    const ConstRow row = problem.row(state, job);
    for (int node = problem.nodes; node > size; --node) {
      if (row[node - 1] != 0) size = node;
    }
  }
  return size;
}

void SwapJobs(const Problem& problem, int cut, State& a, State& b) {
  std::swap_ranges(a.begin(), a.begin() + problem.at(cut, 0), b.begin());
}

void CrossOverMaster(const Problem& problem, int cut, int draw_a, int draw_b, State& a, State& b) {
  const auto [low, high] = std::minmax({ClusterSize(problem, a), ClusterSize(problem, b)});
  const int choices = high - low + 1;
  const int smallest = low;
  SwapJobs(problem, cut, a, b);
  const auto shrink = [&problem](int size, State& state) {
    for (int job = 0; job < problem.jobs; ++job) {
      const Row row = problem.row(state, job);
      std::fill(row.begin() + size, row.end(), Cell{0});
    }
  };
  shrink(smallest + draw_a % choices, a);
  shrink(smallest + draw_b % choices, b);
}

void MutateMaster(const Problem& problem, absl::Span<const double> uniform,
                  absl::FunctionRef<int(size_t cell, int low, int high)> value, bool force_least,
                  State& state) {
  for (int job = 0; job < problem.jobs; ++job) {
    const int used = SizeOf(problem.row(state, job)).nodes;
    const double of_used = 1.0 / std::max(used, 1);
    const double of_unused = 1.0 / std::max(problem.nodes - used, 1);
    for (int node = 0; node < problem.nodes; ++node) {
      const size_t cell = problem.at(job, node);
      const int least = force_least ? problem.least[cell] : 0;
      int now = state[cell];
      if (uniform[cell] < (now > 0 ? of_used : of_unused)) now = value(cell, least, problem.most[cell]);
      state[cell] = static_cast<Cell>(std::max(now, least));
    }
  }
}

void MutateOsdi(const Problem& problem, Random& random, State& state) {
  for (int job = random.Failures(kResetProbability); job < problem.jobs;
       job += 1 + random.Failures(kResetProbability)) {
    const ConstRow base = problem.row(problem.base, job);
    std::copy(base.begin(), base.end(), problem.row(state, job).begin());
  }
  for (int job = random.Failures(kThinProbability); job < problem.jobs;
       job += 1 + random.Failures(kThinProbability)) {
    const Row row = problem.row(state, job);
    for (int node = random.Failures(kThinNodeProbability); node < problem.nodes;
         node += 1 + random.Failures(kThinNodeProbability)) {
      row[node] = 0;
    }
  }
  const int resources = problem.resources;
  std::vector<int64_t> free = problem.capacity;
  std::vector<std::vector<int>> present(problem.nodes);
  for (int job = 0; job < problem.jobs; ++job) {
    const ConstRow row = problem.row(state, job);
    const int64_t* request = &problem.request[static_cast<size_t>(job) * resources];
    for (int node = 0; node < problem.nodes; ++node) {
      if (row[node] == 0) continue;
      present[node].push_back(job);
      for (int r = 0; r < resources; ++r)
        free[static_cast<size_t>(node) * resources + r] -= request[r] * row[node];
    }
  }
  std::vector<int> fitting;
  std::vector<int> there;
  for (int node = 0; node < problem.nodes; ++node) {
    const int64_t* left = &free[static_cast<size_t>(node) * resources];
    // Most nodes are full: a cheap look saves looking at every job.
    if (problem.closed[node] || *std::max_element(left, left + resources) <= 0) continue;
    const auto fits = [&](int job) {
      const int64_t* request = &problem.request[static_cast<size_t>(job) * resources];
      for (int r = 0; r < resources; ++r) {
        if (request[r] > left[r]) return false;
      }
      return !problem.pinned[job];
    };
    fitting.clear();
    there.clear();
    for (int job = 0; job < problem.jobs; ++job) {
      if (fits(job)) fitting.push_back(job);
    }
    std::copy_if(present[node].begin(), present[node].end(), std::back_inserter(there), fits);
    const auto raise_some = [&](const std::vector<int>& jobs) {
      const double probability = 1.0 / static_cast<double>(std::max<size_t>(jobs.size(), 1));
      const int count = static_cast<int>(jobs.size());
      for (int i = random.Failures(probability); i < count; i += 1 + random.Failures(probability)) {
        const size_t cell = problem.at(jobs[i], node);
        const int span = std::max(problem.most[cell] - state[cell], 0);
        state[cell] = static_cast<Cell>(state[cell] + random.Below(span + 1));
      }
    };
    raise_some(fitting);
    raise_some(there);
  }
}

}  // namespace adaptdl::simulator::pollux
