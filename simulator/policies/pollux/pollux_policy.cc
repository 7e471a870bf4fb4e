#include "simulator/policies/pollux/pollux_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/scheduling/ranks.h"
#include "libs/scheduling/unschedulable.h"
#include "simulator/policies/pollux/objectives.h"

namespace adaptdl::simulator::pollux {
namespace {

constexpr double kRounding = 1e-9;

// The search's view of the cluster: which job and node is which row and column.
struct Model {
  Problem problem;
  std::vector<int> jobs;   // index in the view, by row
  std::vector<int> nodes;  // index in the view, by column; requested nodes follow
  std::vector<std::string> job_keys;
  std::vector<std::string> node_ids;
};

bool IsThere(const scheduling::ClusterView& view, const std::string& id) {
  return std::any_of(view.nodes.begin(), view.nodes.end(),
                     [&](const scheduling::NodeInfo& node) { return node.id == id; });
}

// Whether the job keeps what it has in any case. A job that has lost a node can't.
bool IsPinned(const scheduling::JobInfo& job, const scheduling::ClusterView& view) {
  return !job.preemptible && !job.allocation.empty() &&
         std::all_of(job.allocation.begin(), job.allocation.end(),
                     [&](const std::string& node) { return IsThere(view, node); });
}

// Why the search can't decide on the job; empty: it can.
std::string WhyLeftOut(const scheduling::JobInfo& job, const scheduling::ClusterView& view) {
  const bool asks = std::any_of(job.request.begin(), job.request.end(),
                                [](const auto& amount) { return amount.second > 0; });
  if (!asks) return "asks for no resources, so that its part of the cluster can't be told";
  return IsPinned(job, view) ? "" : scheduling::WhyUnschedulable(job, view);
}

std::vector<int> OrderJobs(const scheduling::ClusterView& view, Variant variant) {
  std::vector<int> order;
  for (int j = 0; j < static_cast<int>(view.jobs.size()); ++j) {
    if (WhyLeftOut(view.jobs[j], view).empty()) order.push_back(j);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto rank = [&](const scheduling::JobInfo& job) {
      const double second = variant == Variant::kOsdi ? job.attained_service : job.min_replicas;
      return std::tuple(!IsPinned(job, view), second, job.created);
    };
    return rank(view.jobs[a]) < rank(view.jobs[b]);
  });
  return order;
}

void AddColumns(const scheduling::ClusterView& view, const std::vector<std::string>& names, Variant variant,
                Model& model) {
  model.nodes.resize(view.nodes.size());
  std::iota(model.nodes.begin(), model.nodes.end(), 0);
  std::stable_partition(model.nodes.begin(), model.nodes.end(),
                        [&](int node) { return !view.nodes[node].preemptible; });
  Problem& problem = model.problem;
  std::vector<int64_t> largest(names.size(), 0);
  for (const int node : model.nodes) {
    for (size_t r = 0; r < names.size(); ++r) {
      const auto found = view.nodes[node].capacity.find(names[r]);
      problem.capacity.push_back(found == view.nodes[node].capacity.end() ? 0 : found->second);
      largest[r] = std::max(largest[r], problem.capacity.back());
    }
    problem.closed.push_back(view.nodes[node].draining);
    model.node_ids.push_back(view.nodes[node].id);
  }
  problem.nodes = static_cast<int>(model.nodes.size());
  if (variant == Variant::kOsdi) return;
  for (size_t i = 0; i < model.nodes.size(); ++i) {
    problem.capacity.insert(problem.capacity.end(), largest.begin(), largest.end());
    problem.closed.push_back(false);
  }
  problem.nodes *= 2;
}

// The size that has the largest speed-up of at most `replicas`: what a fair share is worth.
double FairSpeedup(const goodput::SpeedupTable& table, int nodes, int replicas) {
  for (int size = replicas; size > 0; --size) {
    if (const double speedup = table.At(nodes, size); speedup > 0) return speedup;
  }
  return 1;
}

void AddSpeedups(const scheduling::ClusterView& view, Variant variant, Model& model) {
  Problem& problem = model.problem;
  for (int row = 0; row < problem.jobs; ++row) {
    const scheduling::JobInfo& job = view.jobs[model.jobs[row]];
    double unit = 1;
    if (variant == Variant::kOsdi) {
      const double share = problem.dominant_share[row];
      const double fair = std::ceil(1 / (share * problem.jobs) - kRounding);
      const double fair_nodes = std::ceil(problem.nodes * share - kRounding);
      unit = FairSpeedup(*job.speedup, static_cast<int>(fair_nodes), static_cast<int>(fair));
    }
    const int most = std::max(job.max_replicas, static_cast<int>(job.allocation.size()));
    for (int replicas = 0; replicas <= most; ++replicas) {
      problem.one_node[row].push_back(job.speedup->At(1, replicas) / unit);
      problem.several_nodes[row].push_back(job.speedup->At(2, replicas) / unit);
    }
  }
}

double RestartFactor(const scheduling::JobInfo& job, absl::Time now) {
  const double age = std::max(absl::ToDoubleSeconds(now - job.created), 0.0);
  const double lost = job.rescale_seconds * job.restarts;
  const double total = age + job.rescale_seconds;
  return total > 0 ? std::max(age - lost, 0.0) / total : 1;
}

Model MakeModel(const scheduling::ClusterView& view, Variant variant) {
  Model model;
  model.jobs = OrderJobs(view, variant);
  Problem& problem = model.problem;
  problem.jobs = static_cast<int>(model.jobs.size());
  std::set<std::string> resources;
  for (const int j : model.jobs) {
    for (const auto& [name, amount] : view.jobs[j].request) {
      if (amount > 0) resources.insert(name);
    }
  }
  const std::vector<std::string> names(resources.begin(), resources.end());
  problem.resources = static_cast<int>(names.size());
  AddColumns(view, names, variant, model);

  absl::flat_hash_map<std::string, int> columns;
  for (size_t i = 0; i < model.node_ids.size(); ++i) columns.emplace(model.node_ids[i], static_cast<int>(i));
  problem.base.assign(problem.cells(), 0);
  problem.one_node.resize(problem.jobs);
  problem.several_nodes.resize(problem.jobs);
  for (int row = 0; row < problem.jobs; ++row) {
    const scheduling::JobInfo& job = view.jobs[model.jobs[row]];
    for (const std::string& name : names) {
      const auto found = job.request.find(name);
      problem.request.push_back(found == job.request.end() ? 0 : found->second);
    }
    for (const std::string& node : job.allocation) {
      const auto found = columns.find(node);
      if (found != columns.end()) ++problem.base[problem.at(row, found->second)];
    }
    problem.pinned.push_back(IsPinned(job, view));
    problem.min_replicas.push_back(std::max(job.min_replicas, 1));
    problem.max_replicas.push_back(job.max_replicas);
    problem.allowed.push_back(job.allowed_replicas);
    problem.restart_factor.push_back(RestartFactor(job, view.now));
    model.job_keys.push_back(job.key);
  }
  Finish(problem);
  AddSpeedups(view, variant, model);
  return model;
}

// `state`, and every job of it that has nothing gets an equal share, on one node if that can be.
State WithEqualShares(const Model& model, State state) {
  const Problem& problem = model.problem;
  const int real = static_cast<int>(model.nodes.size());
  std::vector<int64_t> free = problem.capacity;
  const auto charge = [&](int job, int node, int64_t replicas) {
    for (int r = 0; r < problem.resources; ++r) {
      free[static_cast<size_t>(node) * problem.resources + r] -=
          replicas * problem.request[static_cast<size_t>(job) * problem.resources + r];
    }
  };
  const auto room = [&](int job, int node) {
    int64_t times = problem.most[problem.at(job, node)];
    for (int r = 0; r < problem.resources; ++r) {
      const int64_t request = problem.request[static_cast<size_t>(job) * problem.resources + r];
      const int64_t left = std::max<int64_t>(free[static_cast<size_t>(node) * problem.resources + r], 0);
      if (request > 0) times = std::min(times, left / request);
    }
    return static_cast<int>(times);
  };
  for (int job = 0; job < problem.jobs; ++job) {
    for (int node = 0; node < real; ++node) charge(job, node, state[problem.at(job, node)]);
  }
  for (int job = 0; job < problem.jobs; ++job) {
    if (SizeOf(problem.row(state, job)).replicas > 0) continue;
    // The share of the real nodes, which are half of the columns.
    const double parts = problem.dominant_share[job] * problem.nodes / real * problem.jobs;
    const int fair = std::max(static_cast<int>(1 / parts), problem.min_replicas[job]);
    int missing = LargestAllowed(problem, job, fair);
    for (int node = 0; node < real && missing > 0; ++node) {
      if (room(job, node) < missing) continue;
      state[problem.at(job, node)] = static_cast<Cell>(missing);
      charge(job, node, missing);
      missing = 0;
    }
    for (int node = 0; node < real && missing > 0; ++node) {
      const int taken = std::min(room(job, node), missing);
      state[problem.at(job, node)] = static_cast<Cell>(taken);
      charge(job, node, taken);
      missing -= taken;
    }
  }
  return state;
}

// What is taken of what the search has found, and how many nodes there should be.
struct Choice {
  State state;
  int desired_nodes = 0;
};

Choice Choose(const Model& model, Variant variant, const SearchResult& result) {
  const int nodes = static_cast<int>(model.nodes.size());
  std::vector<Candidate> front;
  for (int i = 0; i < result.front; ++i) {
    const Individual& individual = result.population[i];
    front.push_back({individual.objectives, Utility(model.problem, individual.state)});
  }
  if (variant == Variant::kOsdi) {
    const std::optional<int> best = BestWithin(front, std::numeric_limits<int>::max());
    return {result.population[*best].state, nodes};
  }
  const int desired = DesiredNodes(front, nodes);
  const std::optional<int> best = BestWithin(front, std::min(desired, nodes));
  return {best ? result.population[*best].state : model.problem.base, desired};
}

std::vector<std::string> GpuTypes(const scheduling::ClusterView& view) {
  std::set<std::string> types;
  for (const scheduling::NodeInfo& node : view.nodes) {
    if (!node.gpu_type.empty()) types.insert(node.gpu_type);
  }
  return {types.begin(), types.end()};
}

double SpeedupOf(const scheduling::JobInfo& job, const std::vector<std::string>& allocation) {
  const std::set<std::string> nodes(allocation.begin(), allocation.end());
  return job.speedup->At(static_cast<int>(nodes.size()), static_cast<int>(allocation.size()));
}

scheduling::CapacityDecision DecideNodes(const scheduling::ClusterView& view,
                                         const std::vector<scheduling::JobDecision>& jobs, int desired,
                                         std::string reason) {
  std::set<std::string> used;
  for (const scheduling::JobDecision& job : jobs) used.insert(job.allocation.begin(), job.allocation.end());
  scheduling::CapacityDecision capacity;
  capacity.desired_nodes = desired;
  capacity.reason = std::move(reason);
  for (const scheduling::NodeInfo& node : view.nodes) {
    if (!node.draining) ++capacity.current_nodes;
    if (used.count(node.id) == 0) capacity.idle_nodes.push_back(node.id);
  }
  return capacity;
}

// Everything stays as it is.
scheduling::Decision Unchanged(const scheduling::ClusterView& view, const std::string& reason) {
  scheduling::Decision decision;
  for (const scheduling::JobInfo& job : view.jobs) {
    decision.jobs.push_back({job.key, job.allocation, reason, false, {}, SpeedupOf(job, job.allocation)});
    decision.value += decision.jobs.back().speedup;
  }
  decision.capacity = DecideNodes(view, decision.jobs, static_cast<int>(view.nodes.size()), reason);
  return decision;
}

scheduling::JobDecision Explain(const scheduling::JobInfo& job, const scheduling::ClusterView& view) {
  scheduling::JobDecision decision;
  decision.key = job.key;
  decision.reason = WhyLeftOut(job, view);
  decision.unschedulable = !decision.reason.empty();
  return decision;
}

}  // namespace

std::vector<State> Remap(const Population& population, const std::vector<std::string>& jobs,
                         const std::vector<std::string>& nodes, int columns) {
  absl::flat_hash_map<std::string, size_t> old_rows;
  absl::flat_hash_map<std::string, size_t> old_columns;
  for (size_t i = 0; i < population.jobs.size(); ++i) old_rows.emplace(population.jobs[i], i);
  for (size_t i = 0; i < population.nodes.size(); ++i) old_columns.emplace(population.nodes[i], i);
  std::vector<State> states;
  for (const State& old : population.states) {
    const size_t width = population.jobs.empty() ? 0 : old.size() / population.jobs.size();
    std::vector<std::optional<size_t>> from(columns);
    size_t next = population.nodes.size();
    for (size_t column = 0; column < from.size(); ++column) {
      const auto found = column < nodes.size() ? old_columns.find(nodes[column]) : old_columns.end();
      if (found != old_columns.end()) {
        from[column] = found->second;
      } else if (next < width) {
        from[column] = next++;
      }
    }
    State state(jobs.size() * columns, 0);
    for (size_t row = 0; row < jobs.size(); ++row) {
      const auto found = old_rows.find(jobs[row]);
      if (found == old_rows.end()) continue;
      for (size_t column = 0; column < from.size(); ++column) {
        if (from[column]) state[row * columns + column] = old[found->second * width + *from[column]];
      }
    }
    states.push_back(std::move(state));
  }
  return states;
}

scheduling::Decision PolluxPolicy::Decide(const scheduling::ClusterView& view, uint64_t seed) const {
  const Variant variant = options_.search.variant;
  if (const std::vector<std::string> types = GpuTypes(view); types.size() > 1) {
    return Unchanged(view, absl::StrCat("the policy ", name(), " knows one GPU type only, the cluster has ",
                                        absl::StrJoin(types, ", "), ": nothing is changed"));
  }
  scheduling::Decision decision;
  for (const scheduling::JobInfo& job : view.jobs) decision.jobs.push_back(Explain(job, view));
  const Model model = MakeModel(view, variant);
  int desired = variant == Variant::kOsdi ? static_cast<int>(view.nodes.size()) : 0;
  if (model.problem.jobs > 0 && !model.nodes.empty()) {
    std::vector<State> start = {model.problem.base};
    if (variant == Variant::kMaster) {
      start.push_back(WithEqualShares(model, model.problem.base));
      start.push_back(WithEqualShares(model, State(model.problem.cells(), 0)));
    }
    if (options_.warm_start) {
      MutexLock lock(&mutex_);
      for (State& state : Remap(last_, model.job_keys, model.node_ids, model.problem.nodes)) {
        start.push_back(std::move(state));
      }
    }
    SearchResult result = Search(model.problem, options_.search, std::move(start), seed);
    const Choice choice = Choose(model, variant, result);
    desired = choice.desired_nodes;
    if (options_.warm_start) {
      Population population{model.job_keys, model.node_ids, {}};
      for (Individual& individual : result.population)
        population.states.push_back(std::move(individual.state));
      MutexLock lock(&mutex_);
      last_ = std::move(population);
    }
    for (int row = 0; row < model.problem.jobs; ++row) {
      std::map<std::string, int> replicas;
      for (size_t column = 0; column < model.nodes.size(); ++column) {
        const Cell cell = choice.state[model.problem.at(row, static_cast<int>(column))];
        if (cell > 0) replicas[model.node_ids[column]] = cell;
      }
      const scheduling::JobInfo& job = view.jobs[model.jobs[row]];
      scheduling::JobDecision& result_of_job = decision.jobs[model.jobs[row]];
      result_of_job.allocation = scheduling::OrderRanks(job.allocation, std::move(replicas));
      result_of_job.reason = IsPinned(job, view) ? "the job is not preemptible and stays as it was started"
                             : result_of_job.allocation.empty()
                                 ? "waits: the best allocation that the genetic search found has none for it"
                                 : "its part of the best allocation that the genetic search found";
    }
  }
  for (size_t j = 0; j < view.jobs.size(); ++j) {
    decision.jobs[j].speedup = SpeedupOf(view.jobs[j], decision.jobs[j].allocation);
    decision.value += decision.jobs[j].speedup;
  }
  decision.capacity = DecideNodes(view, decision.jobs, desired,
                                  variant == Variant::kOsdi ? "the policy pollux does not size the cluster"
                                                            : "the utility of the nodes is to be about 0.5");
  return decision;
}

}  // namespace adaptdl::simulator::pollux
