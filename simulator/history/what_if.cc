#include "simulator/history/what_if.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/clock.h"
#include "simulator/engine.h"
#include "simulator/history/node_changes.h"
#include "simulator/policies/policies.h"
#include "simulator/report/cost.h"
#include "simulator/report/summary.h"
#include "simulator/schedulers/factory.h"

namespace adaptdl::simulator {
namespace {

using ByType = std::map<std::string, double>;

// What became of one job, recorded or by the model.
struct JobTimes {
  double submitted = 0;
  double started = 0;
  double completed = 0;
  double used_seconds = 0;  // GPUs or cores, times time
  int restarts = 0;
};

double Amount(const scheduling::Resources& resources, const char* name) {
  const auto found = resources.find(name);
  return found == resources.end() ? 0 : static_cast<double>(found->second);
}

bool HasGpus(const std::vector<RecordedNode>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const RecordedNode& node) { return Amount(node.capacity, scheduling::kGpu) > 0; });
}

// GPUs, or cores.
double Count(const scheduling::Resources& resources, bool gpus) {
  return gpus ? Amount(resources, scheduling::kGpu)
              : Amount(resources, scheduling::kCpu) / static_cast<double>(kMillisPerCore);
}

absl::StatusOr<Cluster> MakeCluster(const std::vector<RecordedNode>& nodes) {
  std::vector<Cluster::Group> groups;
  for (const RecordedNode& node : nodes) groups.push_back({node.gpu_type, 1, node.capacity});
  return Cluster::FromGroups(groups);
}

// The keys as the nodes have them.
absl::StatusOr<ByType> ResolveTypes(const std::string& flag, const ByType& values,
                                    const std::vector<RecordedNode>& nodes) {
  ByType resolved;
  for (const auto& [text, value] : values) {
    if (!std::isfinite(value) || value <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " of ", text, " is ", value, "; it must be greater than 0"));
    }
    absl::StatusOr<std::string> type = FindGpuType(nodes, text);
    if (!type.ok()) return type.status();
    const bool known = std::any_of(nodes.begin(), nodes.end(),
                                   [&](const RecordedNode& node) { return node.gpu_type == *type; });
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat(flag, " of ", text, ": no node has such GPUs"));
    }
    resolved[*type] = value;
  }
  return resolved;
}

absl::Status CheckPrices(const ByType& prices, const std::vector<RecordedNode>& nodes) {
  for (const RecordedNode& node : nodes) {
    if (!prices.empty() && prices.count(node.gpu_type) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("price: give one for ", node.gpu_type, ", too, or none at all"));
    }
  }
  return absl::OkStatus();
}

// `jobs` is not empty.
Figures Summarise(const std::vector<JobTimes>& jobs, const std::vector<RecordedNode>& nodes, bool gpus,
                  const ByType& prices) {
  Figures figures;
  figures.jobs = static_cast<int>(jobs.size());
  std::vector<double> jcts;
  double begin = jobs.front().submitted;
  double end = jobs.front().completed;
  for (const JobTimes& job : jobs) {
    jcts.push_back(job.completed - job.submitted);
    figures.avg_wait_s += (job.started - job.submitted) / figures.jobs;
    figures.avg_jct_s += jcts.back() / figures.jobs;
    figures.restarts_per_job += static_cast<double>(job.restarts) / figures.jobs;
    figures.used_hours += job.used_seconds / kSecondsPerHour;
    begin = std::min(begin, job.submitted);
    end = std::max(end, job.completed);
  }
  figures.p99_jct_s = Percentile(jcts, 99);
  figures.makespan_s = end - begin;
  double cost = 0;
  for (const RecordedNode& node : nodes) {
    const double hours = figures.makespan_s / kSecondsPerHour;
    figures.offered_hours += Count(node.capacity, gpus) * hours;
    if (!prices.empty()) cost += prices.at(node.gpu_type) * hours;
  }
  if (!prices.empty()) figures.cost = cost;
  return figures;
}

absl::StatusOr<std::vector<JobTimes>> Replay(const Cluster& cluster, const FittedWorkload& workload,
                                             const std::string& policy, bool gpus,
                                             const WhatIfOptions& options) {
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler = MakeScheduler(policy, {.seed = options.seed});
  if (!scheduler.ok()) return scheduler.status();
  SimulationOptions simulation;
  simulation.round_seconds = 0;
  simulation.interval_seconds = options.interval_seconds;
  simulation.restart_seconds.reset();
  simulation.search = BatchSearch::kLibrary;
  const RealClock clock;
  const absl::StatusOr<SimulationResult> result =
      Simulate(cluster, workload.jobs, **scheduler, clock, simulation);
  if (!result.ok()) return result.status();
  std::vector<JobTimes> jobs;
  for (size_t i = 0; i < result->jobs.size(); ++i) {
    const JobOutcome& job = result->jobs[i];
    // The engine counts replicas.
    const double used = job.gpu_seconds * Count(workload.jobs[i].demand.request, gpus);
    jobs.push_back({job.submitted, job.started, job.completed, used, job.restarts});
  }
  return jobs;
}

// Of the jobs that have ended; nullopt for others.
std::vector<std::optional<JobTimes>> Recorded(const History& history, const FittedWorkload& workload,
                                              bool gpus) {
  std::vector<std::optional<JobTimes>> jobs;
  for (const int index : workload.recorded) {
    const RecordedJob& job = history.jobs[index];
    jobs.emplace_back();
    if (!job.started || !job.completed) continue;
    jobs.back() = JobTimes{job.submitted, *job.started, *job.completed,
                           job.replica_seconds * Count(job.demand.request, gpus), job.restarts};
  }
  return jobs;
}

void Compare(const std::vector<std::optional<JobTimes>>& recorded, const std::vector<JobTimes>& modelled,
             WhatIfReport* report) {
  std::vector<double> errors;
  for (size_t i = 0; i < recorded.size(); ++i) {
    if (!recorded[i]) continue;
    const double real = recorded[i]->completed - recorded[i]->submitted;
    const double model = modelled[i].completed - modelled[i].submitted;
    errors.push_back(std::abs(model / real - 1));
    report->modelled_jct_s += model;
  }
  if (errors.empty()) return;
  report->modelled_jct_s /= static_cast<double>(errors.size());
  report->median_error = Percentile(errors, 50);
}

std::vector<std::string> AllTypes(const std::vector<RecordedNode>& a, const std::vector<RecordedNode>& b) {
  std::set<std::string> types;
  for (const std::vector<RecordedNode>* nodes : {&a, &b}) {
    for (const RecordedNode& node : *nodes) types.insert(node.gpu_type);
  }
  return {types.begin(), types.end()};
}

absl::Status CheckPolicy(const std::string& name) {
  const Policies policies = PoliciesWithoutSolver();
  if (policies.count(name) > 0) return absl::OkStatus();
  const std::string names =
      absl::StrJoin(policies, ", ", [](std::string* out, const auto& policy) { out->append(policy.first); });
  return absl::InvalidArgumentError(
      absl::StrCat("there is no policy \"", name, "\" here; choose one of ", names,
                   ", or save the history (--save-history FILE) for one of \"adaptdl-sim replay --history "
                   "FILE\", which knows more"));
}

class Question {
 public:
  Question(const History& history, const WhatIfOptions& options) : history_(history), options_(options) {}

  absl::StatusOr<WhatIfReport> Answer() {
    absl::Status status = Prepare();
    if (status.ok()) status = Fit();
    if (!status.ok()) return status;
    WhatIfReport report;
    report.gpus = gpus_;
    absl::StatusOr<std::vector<JobTimes>> before = ReplayOn(history_.nodes, options_.policy, &report.before);
    absl::StatusOr<std::vector<JobTimes>> after = ReplayOn(changed_, PolicyAfter(), &report.after);
    if (!before.ok() || !after.ok()) return before.ok() ? after.status() : before.status();
    const std::vector<std::optional<JobTimes>> recorded = Recorded(history_, workload_, gpus_);
    std::vector<JobTimes> ended;
    for (const std::optional<JobTimes>& job : recorded) {
      if (job) ended.push_back(*job);
    }
    if (!ended.empty()) report.recorded = Summarise(ended, history_.nodes, gpus_, prices_);
    Compare(recorded, *before, &report);
    report.left_out = std::move(workload_.left_out);
    report.notes = std::move(workload_.notes);
    return report;
  }

 private:
  const std::string& PolicyAfter() const {
    return options_.policy_after.empty() ? options_.policy : options_.policy_after;
  }

  absl::Status Prepare() {
    if (history_.nodes.empty()) {
      return absl::FailedPreconditionError("the cluster has no node that takes replicas");
    }
    changed_ = history_.nodes;
    absl::Status status = CheckPolicy(options_.policy);
    status.Update(CheckPolicy(PolicyAfter()));
    for (const std::string& text : options_.removed) status.Update(RemoveNodes(text, &changed_));
    for (const std::string& text : options_.added) status.Update(AddNodes(text, &changed_));
    if (!status.ok()) return status;
    if (changed_.empty()) return absl::InvalidArgumentError("the changed cluster has no nodes");
    std::vector<RecordedNode> all = history_.nodes;
    all.insert(all.end(), changed_.begin(), changed_.end());
    gpus_ = HasGpus(all);
    absl::StatusOr<ByType> prices = ResolveTypes("price", options_.prices, all);
    absl::StatusOr<ByType> speeds = ResolveTypes("speed", options_.speeds, all);
    if (!prices.ok() || !speeds.ok()) return prices.ok() ? speeds.status() : prices.status();
    prices_ = *std::move(prices);
    speeds_ = *std::move(speeds);
    return CheckPrices(prices_, all);
  }

  // The jobs that both clusters can hold, with models for the types of both.
  absl::Status Fit() {
    workload_ = FitWorkload(history_, AllTypes(history_.nodes, changed_), speeds_);
    const std::pair<const std::vector<RecordedNode>*, std::string> clusters[] = {
        {&history_.nodes, "the cluster"}, {&changed_, "the changed cluster"}};
    for (const auto& [nodes, what] : clusters) {
      const absl::StatusOr<Cluster> cluster = MakeCluster(*nodes);
      if (!cluster.ok()) return cluster.status();
      LeaveOutWhatDoesNotFit(*cluster, what, &workload_);
    }
    return workload_.jobs.empty() ? absl::FailedPreconditionError(NothingToReplay(workload_.left_out))
                                  : absl::OkStatus();
  }

  absl::StatusOr<std::vector<JobTimes>> ReplayOn(const std::vector<RecordedNode>& nodes,
                                                 const std::string& policy, Figures* figures) {
    const absl::StatusOr<Cluster> cluster = MakeCluster(nodes);
    if (!cluster.ok()) return cluster.status();
    FittedWorkload workload = FitWorkload(history_, cluster->gpu_types(), speeds_);
    Keep(&workload);
    absl::StatusOr<std::vector<JobTimes>> jobs = Replay(*cluster, workload, policy, gpus_, options_);
    if (jobs.ok()) *figures = Summarise(*jobs, nodes, gpus_, prices_);
    return jobs;
  }

  // Only the jobs of `workload_`.
  void Keep(FittedWorkload* workload) const {
    const std::set<int> kept(workload_.recorded.begin(), workload_.recorded.end());
    std::vector<WorkloadJob> jobs;
    for (size_t i = 0; i < workload->jobs.size(); ++i) {
      if (kept.count(workload->recorded[i]) > 0) jobs.push_back(std::move(workload->jobs[i]));
    }
    for (size_t i = 0; i < jobs.size(); ++i) jobs[i].submitted = workload_.jobs[i].submitted;
    workload->jobs = std::move(jobs);
    workload->recorded = workload_.recorded;
  }

  const History& history_;
  const WhatIfOptions& options_;
  std::vector<RecordedNode> changed_;
  bool gpus_ = true;
  ByType prices_;
  ByType speeds_;
  FittedWorkload workload_;
};

}  // namespace

absl::StatusOr<WhatIfReport> WhatIf(const History& history, const WhatIfOptions& options) {
  return Question(history, options).Answer();
}

absl::StatusOr<Cluster> ToCluster(const History& history) { return MakeCluster(history.nodes); }

}  // namespace adaptdl::simulator
