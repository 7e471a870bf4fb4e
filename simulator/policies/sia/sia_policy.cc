#include "simulator/policies/sia/sia_policy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/scheduling/ranks.h"
#include "libs/scheduling/resources.h"
#include "libs/scheduling/unschedulable.h"
#include "simulator/policies/ilp/integer_program.h"
#include "simulator/policies/sia/configurations.h"
#include "simulator/policies/sia/placement.h"

namespace adaptdl::simulator::sia {
namespace {

constexpr int kNowhere = -1;

// Where a node is among the pools.
struct Spot {
  int pool = kNowhere;
  int index = 0;
};

// What a job has at present.
struct Present {
  std::map<std::string, int> replicas;  // by node
  std::vector<int> nodes;               // within the pool; empty: it has no configuration
  std::optional<Configuration> configuration;
};

class Problem {
 public:
  Problem(const scheduling::ClusterView& view, const SiaOptions& options)
      : view_(view), options_(options), pools_(MakePools(view)), configurations_(Configurations(pools_)) {
    for (int p = 0; p < static_cast<int>(pools_.size()); ++p) {
      free_.emplace_back(pools_[p].nodes.size(), pools_[p].gpus_per_node);
      for (int i = 0; i < static_cast<int>(pools_[p].nodes.size()); ++i) {
        spots_[view.nodes[pools_[p].nodes[i]].id] = {p, i};
      }
    }
    for (const scheduling::NodeInfo& node : view.nodes) known_nodes_.insert(node.id);
    for (const scheduling::JobInfo& job : view.jobs) presents_.push_back(FindPresent(job));
  }

  scheduling::Decision Solve() {
    scheduling::Decision decision;
    std::vector<int> choosing;
    for (int j = 0; j < static_cast<int>(view_.jobs.size()); ++j) {
      decision.jobs.push_back(Begin(j));
      if (decision.jobs.back().reason.empty()) choosing.push_back(j);
    }
    const std::vector<std::optional<Configuration>> chosen = Choose(choosing, decision);
    Place(choosing, chosen, decision);
    Finish(decision);
    return decision;
  }

 private:
  Present FindPresent(const scheduling::JobInfo& job) const {
    Present present;
    for (const std::string& node : job.allocation) ++present.replicas[node];
    std::set<int> pools;
    std::set<int> sizes;
    for (const auto& [node, count] : present.replicas) {
      const auto spot = spots_.find(node);
      pools.insert(spot == spots_.end() ? kNowhere : spot->second.pool);
      sizes.insert(count);
      if (spot != spots_.end()) present.nodes.push_back(spot->second.index);
    }
    if (pools.size() != 1 || pools.count(kNowhere) > 0 || sizes.size() != 1) {
      present.nodes.clear();
      return present;
    }
    present.configuration = {*pools.begin(), static_cast<int>(present.replicas.size()),
                             static_cast<int>(job.allocation.size())};
    return present;
  }

  bool IsPinned(int j) const {
    const scheduling::JobInfo& job = view_.jobs[j];
    const auto known = [&](const std::string& node) { return known_nodes_.count(node) > 0; };
    return !job.preemptible && !job.allocation.empty() &&
           std::all_of(job.allocation.begin(), job.allocation.end(), known);
  }

  // Why the policy can't choose for the job: it does not know such jobs. Empty: it can.
  std::string WhyUnknown(const scheduling::JobInfo& job) const {
    const auto gpus = job.request.find(scheduling::kGpu);
    if (gpus == job.request.end() || gpus->second != 1) {
      return "the policy sia knows jobs with one GPU per replica only: nothing is changed";
    }
    for (const Pool& pool : pools_) {
      for (const int node : pool.nodes) {
        if (scheduling::TimesThatFit(job.request, view_.nodes[node].capacity, pool.gpus_per_node) ==
            pool.gpus_per_node)
          continue;
        return absl::StrCat("the policy sia knows jobs of which each GPU can have a replica only, but ",
                            view_.nodes[node].id, " has too little of something: nothing is changed");
      }
    }
    return "";
  }

  // Decides for jobs that have no choice: the reason is set, and what they keep is taken.
  scheduling::JobDecision Begin(int j) {
    const scheduling::JobInfo& job = view_.jobs[j];
    scheduling::JobDecision decision;
    decision.key = job.key;
    if (IsPinned(j)) {
      decision.reason = "the job is not preemptible and stays as it was started";
    } else if (decision.reason = scheduling::WhyUnschedulable(job, view_); !decision.reason.empty()) {
      decision.unschedulable = true;
      return decision;
    } else if (decision.reason = WhyUnknown(job); decision.reason.empty()) {
      if (!job.restarting || !presents_[j].configuration) return decision;
      decision.reason = "it is being started or re-scaled, and is left alone until it runs";
    }
    decision.allocation = job.allocation;
    const auto gpus = job.request.find(scheduling::kGpu);
    for (const auto& [node, count] : presents_[j].replicas) {
      const auto spot = spots_.find(node);
      if (spot == spots_.end() || gpus == job.request.end()) continue;
      free_[spot->second.pool][spot->second.index] -= count * static_cast<int>(gpus->second);
    }
    return decision;
  }

  // Speed-up in each configuration; 0: the job can't have it.
  std::vector<double> Goodputs(const scheduling::JobInfo& job) const {
    std::vector<double> goodputs;
    for (const Configuration& c : configurations_) {
      const bool allowed =
          c.gpus >= job.min_replicas && c.gpus <= job.max_replicas &&
          (job.allowed_replicas.empty() ||
           std::binary_search(job.allowed_replicas.begin(), job.allowed_replicas.end(), c.gpus));
      goodputs.push_back(allowed ? scheduling::SpeedupOn(job, pools_[c.pool].gpu_type).At(c.nodes, c.gpus)
                                 : 0);
    }
    return goodputs;
  }

  double RestartFactor(const scheduling::JobInfo& job) const {
    const double age = absl::ToDoubleSeconds(view_.now - job.created);
    const double cost = job.rescale_seconds;
    if (job.allocation.empty() || age < cost || age + cost <= 0) return 1;
    return std::max(age - job.restarts * cost, 0.0) / (age + cost);
  }

  std::vector<IntegerProgram::Option> Options(int j) const {
    const scheduling::JobInfo& job = view_.jobs[j];
    const std::vector<double> goodputs = Goodputs(job);
    double least = HUGE_VAL;
    for (const double goodput : goodputs) least = goodput > 0 ? std::min(least, goodput) : least;
    const double factor = RestartFactor(job);
    std::vector<IntegerProgram::Option> options;
    for (size_t i = 0; i < goodputs.size(); ++i) {
      const Configuration& c = configurations_[i];
      const double relative = goodputs[i] / least * (c == presents_[j].configuration ? 1 : factor);
      IntegerProgram::Option option;
      // What is worth nothing costs more than to wait.
      if (goodputs[i] > 0 && relative > 0) {
        option.value = options_.idle_cost - std::round(std::pow(relative, options_.power) * 100) / 100;
      }
      option.usage.push_back({c.pool, static_cast<double>(c.gpus)});
      options.push_back(std::move(option));
    }
    return options;
  }

  // The configuration of each of these jobs; nullopt: none.
  std::vector<std::optional<Configuration>> Choose(const std::vector<int>& jobs,
                                                   scheduling::Decision& decision) const {
    IntegerProgram problem;
    for (const std::vector<int>& pool : free_) {
      double free = 0;
      for (const int gpus : pool) free += std::max(gpus, 0);
      problem.capacities.push_back(free);
    }
    for (const int j : jobs) problem.groups.push_back(Options(j));
    const absl::StatusOr<IntegerSolution> solution = SolveIntegerProgram(problem);
    std::vector<std::optional<Configuration>> chosen(jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i) {
      scheduling::JobDecision& job = decision.jobs[jobs[i]];
      if (!solution.ok()) {
        // As before: what was possible is possible.
        chosen[i] = presents_[jobs[i]].configuration;
        job.reason = absl::StrCat("nothing is changed: ", solution.status().message());
      } else if (const int option = solution->chosen[i]; option >= 0) {
        chosen[i] = configurations_[option];
        job.reason = "its part of the best choice of one configuration for each job";
      } else {
        job.reason = "waits: others make more of the GPUs";
      }
    }
    return chosen;
  }

  void Place(const std::vector<int>& jobs, const std::vector<std::optional<Configuration>>& chosen,
             scheduling::Decision& decision) const {
    for (int p = 0; p < static_cast<int>(pools_.size()); ++p) {
      std::vector<Seat> seats;
      std::vector<int> owners;
      for (size_t i = 0; i < jobs.size(); ++i) {
        if (!chosen[i] || chosen[i]->pool != p) continue;
        const Present& present = presents_[jobs[i]];
        seats.push_back({chosen[i]->nodes, chosen[i]->gpus, {}});
        if (present.configuration == chosen[i]) seats.back().present = present.nodes;
        owners.push_back(jobs[i]);
      }
      const std::vector<std::vector<int>> places = PlaceSeats(seats, free_[p]);
      for (size_t i = 0; i < seats.size(); ++i) {
        std::map<std::string, int> replicas;
        for (const int node : places[i]) {
          replicas[view_.nodes[pools_[p].nodes[node]].id] = seats[i].gpus / seats[i].nodes;
        }
        scheduling::JobDecision& job = decision.jobs[owners[i]];
        if (replicas.empty())
          job.reason = "waits: the free GPUs are too scattered for the size that was chosen";
        job.allocation = scheduling::OrderRanks(view_.jobs[owners[i]].allocation, std::move(replicas));
      }
    }
  }

  void Finish(scheduling::Decision& decision) const {
    std::set<std::string> used;
    for (size_t j = 0; j < decision.jobs.size(); ++j) {
      scheduling::JobDecision& job = decision.jobs[j];
      const std::set<std::string> nodes(job.allocation.begin(), job.allocation.end());
      used.insert(nodes.begin(), nodes.end());
      const auto spot = nodes.empty() ? spots_.end() : spots_.find(*nodes.begin());
      const std::string type = spot == spots_.end() ? "" : pools_[spot->second.pool].gpu_type;
      job.speedup = scheduling::SpeedupOn(view_.jobs[j], type)
                        .At(static_cast<int>(nodes.size()), static_cast<int>(job.allocation.size()));
      decision.value += job.speedup;
    }
    for (const scheduling::NodeInfo& node : view_.nodes) {
      decision.capacity.current_nodes += !node.draining;
      if (used.count(node.id) == 0) decision.capacity.idle_nodes.push_back(node.id);
    }
    decision.capacity.desired_nodes = decision.capacity.current_nodes;
    decision.capacity.reason = "the policy sia does not size the cluster";
  }

  const scheduling::ClusterView& view_;
  const SiaOptions& options_;
  const std::vector<Pool> pools_;
  const std::vector<Configuration> configurations_;
  std::vector<std::vector<int>> free_;  // GPUs by pool and node
  absl::flat_hash_map<std::string, Spot> spots_;
  std::set<std::string> known_nodes_;
  std::vector<Present> presents_;  // by job
};

}  // namespace

scheduling::Decision SiaPolicy::Decide(const scheduling::ClusterView& view, uint64_t /*seed*/) const {
  return Problem(view, options_).Solve();
}

}  // namespace adaptdl::simulator::sia
