#include "libs/scheduling/greedy_policy.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "libs/scheduling/capacity.h"
#include "libs/scheduling/cluster_state.h"
#include "libs/scheduling/explain.h"
#include "libs/scheduling/growth.h"
#include "libs/scheduling/policy.h"
#include "libs/scheduling/ranks.h"

namespace adaptdl::scheduling {
namespace {

// Times that changes are taken back and the room given to others; each time fewer jobs are left to change.
constexpr int kMostReverts = 4;

// What is known of the jobs before anything is decided.
struct Problem {
  const ClusterView* view = nullptr;
  std::vector<Placement> present;       // what each job can keep
  std::vector<bool> pinned;             // keeps what it has in any case
  std::vector<std::string> impossible;  // why no node could ever hold a replica; empty: one could
  std::vector<int> flexible;            // jobs that replicas are given to
  bool must_change = false;             // the present allocation can't stay
};

// Where the job's replicas are, as far as their nodes exist.
Placement FindPresent(const JobInfo& job, const absl::flat_hash_map<std::string, int>& node_index) {
  std::map<int, int> counts;
  for (const std::string& node : job.allocation) {
    const auto found = node_index.find(node);
    if (found != node_index.end()) ++counts[found->second];
  }
  Placement present;
  for (const auto& [node, replicas] : counts) present.push_back({node, replicas});
  return present;
}

void DropDraining(const ClusterView& view, Placement* placement) {
  placement->erase(std::remove_if(placement->begin(), placement->end(),
                                  [&](const Share& share) { return view.nodes[share.node].draining; }),
                   placement->end());
}

Problem Analyse(const ClusterView& view) {
  Problem problem;
  problem.view = &view;
  absl::flat_hash_map<std::string, int> node_index;
  for (size_t n = 0; n < view.nodes.size(); ++n) node_index.emplace(view.nodes[n].id, static_cast<int>(n));
  for (size_t j = 0; j < view.jobs.size(); ++j) {
    const JobInfo& job = view.jobs[j];
    Placement present = FindPresent(job, node_index);
    const int held = static_cast<int>(job.allocation.size());
    const bool pinned = !job.preemptible && held > 0 && CountReplicas(present) == held;
    if (!pinned) DropDraining(view, &present);
    const int kept = CountReplicas(present);
    if (!pinned && held > 0 && (kept < held || held < job.min_replicas || held > job.max_replicas)) {
      problem.must_change = true;
    }
    problem.impossible.push_back(pinned ? "" : WhyUnschedulable(job, view));
    if (!pinned && problem.impossible.back().empty()) problem.flexible.push_back(static_cast<int>(j));
    problem.present.push_back(std::move(present));
    problem.pinned.push_back(pinned);
  }
  return problem;
}

// Whether a node with replicas that could go elsewhere is given more than it has.
bool OverCapacity(const Problem& problem) {
  const ClusterView& view = *problem.view;
  std::vector<Resources> used(view.nodes.size());
  std::vector<bool> movable(view.nodes.size(), false);
  for (size_t j = 0; j < problem.present.size(); ++j) {
    for (const Share& share : problem.present[j]) {
      movable[share.node] = movable[share.node] || !problem.pinned[j];
      for (const auto& [name, amount] : view.jobs[j].request)
        used[share.node][name] += amount * share.replicas;
    }
  }
  for (size_t n = 0; n < used.size(); ++n) {
    if (!movable[n]) continue;
    for (const auto& [name, amount] : used[n]) {
      const auto offered = view.nodes[n].capacity.find(name);
      if (amount > (offered == view.nodes[n].capacity.end() ? 0 : offered->second)) return true;
    }
  }
  return false;
}

class Round {
 public:
  Round(const Problem& problem, const GrowthOptions& options)
      : problem_(problem),
        options_(options),
        current_(problem.present),
        state_(*problem.view, problem.present),
        grower_(options, &state_),
        held_back_(problem.view->jobs.size(), false),
        settled_(problem.view->jobs.size(), false) {}

  // Builds the allocation. Called once.
  void Build() {
    for (int job = 0; job < state_.job_count(); ++job) {
      if (problem_.pinned[job]) state_.Place(job, current_[job]);
      if (!problem_.impossible[job].empty()) state_.DropClaims(job);
    }
    AdmitAll();
    Grow();
    for (int i = 0; i < kMostReverts && TakeBackWhatHardlyGains(); ++i) Grow();
    while (TakeBackWhatHardlyGains()) {
    }
  }

  // Whether what was built should replace the current allocation.
  bool IsBetter() const {
    double gain = 0;
    for (int job = 0; job < state_.job_count(); ++job) {
      const bool now = !current_[job].empty();
      const bool then = state_.replicas(job) > 0;
      if (now != then) return then;  // the earliest job that it makes a difference to
    }
    for (int job = 0; job < state_.job_count(); ++job) {
      if (state_.placement(job) == current_[job]) continue;
      const double before = state_.Speedup(job, current_[job]);
      gain += state_.Speedup(job) - before - options_.hysteresis * before;
    }
    return gain > 1e-9;
  }

  const Placement& placement(int job) const { return state_.placement(job); }
  bool held_back(int job) const { return held_back_[job]; }

 private:
  void AdmitAll() {
    bool earlier_waits = false;
    for (const int job : problem_.flexible) {
      // A job that could not be moved later must not take what an earlier one waits for.
      if (earlier_waits && !state_.job(job).preemptible && current_[job].empty()) {
        held_back_[job] = true;
        continue;
      }
      if (grower_.Admit(job)) continue;
      state_.DropClaims(job);
      earlier_waits |= FitsIntoEmptyCluster(job);
    }
  }

  bool FitsIntoEmptyCluster(int job) const {
    int room = 0;
    for (int node = 0; node < state_.node_count(); ++node) {
      if (state_.usable(node)) room += state_.Capacity(job, node);
    }
    return room >= StartSize(state_.job(job));
  }

  void Grow() {
    std::vector<int> jobs;
    for (const int job : problem_.flexible) {
      if (!settled_[job]) jobs.push_back(job);
    }
    grower_.Grow(jobs);
  }

  // Puts jobs back where they are where the change gains less than the hysteresis. Returns whether any was.
  bool TakeBackWhatHardlyGains() {
    bool any = false;
    for (const int job : problem_.flexible) {
      if (settled_[job] || state_.replicas(job) == 0 || !CanStay(job)) continue;
      if (state_.placement(job) == current_[job]) continue;
      const double before = state_.Speedup(job, current_[job]);
      if (state_.Speedup(job) - before >= options_.hysteresis * before) continue;
      const Placement changed = state_.Clear(job);
      settled_[job] = state_.Fits(job, current_[job]);
      state_.Place(job, settled_[job] ? current_[job] : changed);
      any |= settled_[job];
    }
    return any;
  }

  bool CanStay(int job) const {
    const int count = CountReplicas(current_[job]);
    return count >= state_.job(job).min_replicas && count <= state_.job(job).max_replicas;
  }

  const Problem& problem_;
  const GrowthOptions& options_;
  const std::vector<Placement>& current_;
  ClusterState state_;
  Grower grower_;
  std::vector<bool> held_back_;
  std::vector<bool> settled_;  // put back; not to be changed again
};

// A job that may have certain sizes only: no speed-up at the others.
void KeepToAllowedSizes(JobInfo* job) {
  const std::vector<int>& allowed = job->allowed_replicas;
  if (allowed.empty()) return;
  std::vector<double> one_node(job->max_replicas + 1, 0);
  std::vector<double> several_nodes(job->max_replicas + 1, 0);
  for (const int replicas : allowed) {
    if (replicas > job->max_replicas) break;
    one_node[replicas] = job->speedup->At(1, replicas);
    several_nodes[replicas] = job->speedup->At(2, replicas);
  }
  job->speedup = std::make_shared<const goodput::SpeedupTable>(
      goodput::SpeedupTable::FromRows(std::move(one_node), std::move(several_nodes)));
}

std::vector<std::string> ToAllocation(const JobInfo& job, const Placement& placement,
                                      const ClusterView& view) {
  std::map<std::string, int> replicas;
  for (const Share& share : placement) replicas[view.nodes[share.node].id] = share.replicas;
  return OrderRanks(job.allocation, std::move(replicas));
}

}  // namespace

Decision GreedyPolicy::Decide(const ClusterView& given, uint64_t /*seed*/) const {
  ClusterView view = given;
  for (JobInfo& job : view.jobs) KeepToAllowedSizes(&job);
  Problem problem = Analyse(view);
  bool must_change = problem.must_change || OverCapacity(problem);
  std::vector<bool> held_back(view.jobs.size(), false);
  // Ends: each further round starts more jobs, or earlier ones, or adds to the sum of the speed-ups.
  for (;;) {
    Round round(problem, options_.growth);
    round.Build();
    for (size_t j = 0; j < held_back.size(); ++j) held_back[j] = round.held_back(static_cast<int>(j));
    if (!must_change && !round.IsBetter()) break;
    for (size_t j = 0; j < view.jobs.size(); ++j) {
      view.jobs[j].allocation = ToAllocation(view.jobs[j], round.placement(static_cast<int>(j)), view);
    }
    problem = Analyse(view);
    must_change = false;
  }

  ClusterState state(view, problem.present);
  Decision decision;
  std::vector<int> waiting;
  for (int job = 0; job < state.job_count(); ++job) state.Place(job, problem.present[job]);
  for (int job = 0; job < state.job_count(); ++job) {
    JobDecision result;
    result.key = view.jobs[job].key;
    result.allocation = view.jobs[job].allocation;
    result.unschedulable = !problem.impossible[job].empty();
    result.speedup = state.Speedup(job);
    decision.value += result.speedup;
    if (result.unschedulable) {
      result.reason = problem.impossible[job];
    } else if (result.allocation.empty()) {
      result.reason = WhyWaiting(job, state, held_back[job]);
      waiting.push_back(job);
    } else {
      result.reason = WhyThisSize(job, state, problem.pinned[job], options_.growth);
    }
    decision.jobs.push_back(std::move(result));
  }
  decision.capacity =
      DecideCapacity(view, std::move(state), waiting, problem.pinned, options_.growth, options_.capacity);
  return decision;
}

}  // namespace adaptdl::scheduling
