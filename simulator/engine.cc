#include "simulator/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "simulator/placement_check.h"
#include "simulator/simulated_autoscaler.h"
#include "simulator/simulation_options.h"

namespace adaptdl::simulator {
namespace {

// Events that are this close are one.
constexpr double kSameTime = 1e-9;
// A scheduler that starts nobody for so long never will.
constexpr double kLongestStandstill = 30.0 * 24 * 3600;
// Where nodes fail faster than jobs write checkpoints, nobody is ever done.
constexpr double kLongestVainEffort = 100.0 * 24 * 3600;

bool HaveSameShape(const Placement& a, const Placement& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const NodeShare& x, const NodeShare& y) { return x.gpus == y.gpus; });
}

bool ShareANode(const Placement& a, const Placement& b) {
  return std::any_of(a.begin(), a.end(), [&](const NodeShare& x) {
    return std::any_of(b.begin(), b.end(), [&](const NodeShare& y) { return x.node == y.node; });
  });
}

// Whether a node has more in `a` than in `b`.
bool HasMoreSomewhere(const Placement& a, const Placement& b) {
  return std::any_of(a.begin(), a.end(), [&](const NodeShare& share) {
    const auto before =
        std::find_if(b.begin(), b.end(), [&](const NodeShare& other) { return other.node == share.node; });
    return before == b.end() || before->gpus < share.gpus;
  });
}

class Simulation {
 public:
  Simulation(const Cluster& cluster, absl::Span<const WorkloadJob> workload, Scheduler& scheduler,
             const Clock& clock, const SimulationOptions& options)
      : cluster_(cluster),
        scheduler_(scheduler),
        clock_(clock),
        options_(options),
        nodes_(cluster, options_.nodes, options_.seed),
        autoscaler_(cluster, options_.nodes, &nodes_) {
    const double round = options.round_seconds;
    const JobOptions job_options{
        scheduler.adaptive(),       options.search,          round > 0 && round == std::floor(round),
        options.checkpoint_seconds, options.gradient_memory, options.gradient_period};
    for (const WorkloadJob& spec : workload) {
      jobs_.emplace_back(spec, static_cast<int>(cluster.gpu_types().size()), job_options);
    }
    speed_.assign(jobs_.size(), 1.0);
    open_.resize(jobs_.size());
  }

  absl::StatusOr<SimulationResult> Run() {
    const absl::Status status = options_.round_seconds > 0 ? RunRounds() : RunEvents();
    if (!status.ok()) {
      return status;
    }
    CollectOutcomes();
    return std::move(result_);
  }

 private:
  // The segment of the timeline that a job is in.
  struct OpenSegment {
    double start = 0;
    int gpus = 0;
    int gpu_type = 0;
  };

  absl::Status RunRounds();
  absl::Status RunEvents();
  // Admits everyone who was submitted by now, and forgets those who are done.
  void UpdateActive(double now);
  absl::Status AdvanceAll(double until);
  absl::StatusOr<double> NextEvent(size_t job) const;
  absl::Status RenewEvents(std::vector<double>* events) const;

  // When a node comes or goes next. Infinite: never.
  double NextNodeEvent() const;
  // What happens to nodes by now, and to the jobs on them. REQUIRES: jobs were advanced to now. Returns
  // whether a scheduler would want to know.
  bool ChangeNodes(double now);
  void StopJobsOn(int node, bool crash, double now);
  // Advances jobs from one change of nodes to the next.
  absl::Status AdvanceThroughNodeEvents(double until);
  // By node: the part of its GPUs that jobs hold.
  std::vector<double> NodeUse() const;
  // Tells the autoscaler what the last decision said; without jobs there is nothing to decide. Returns whether the
  // scheduler would want to know what follows.
  bool FollowDemand(double now);

  absl::Status Decide(double now);
  void RecordWatched(double now);
  void Apply(size_t job, const Placement& placement, double now);
  void UpdateInterference();
  void CloseSegment(size_t job, double end);
  absl::Status CheckStandstill(double now) const;
  absl::Status CheckVainEffort(double now) const;
  void CollectOutcomes();

  const Cluster& cluster_;
  Scheduler& scheduler_;
  const Clock& clock_;
  const SimulationOptions options_;
  Nodes nodes_;
  SimulatedAutoscaler autoscaler_;

  std::vector<SimulatedJob> jobs_;  // in order of submission
  std::vector<size_t> active_;      // submitted and not done, in order
  size_t arrived_ = 0;              // so many of jobs_ were submitted
  std::vector<double> speed_;       // by job: 1, or less under interference
  std::vector<OpenSegment> open_;
  bool drained_ = false;  // whether the last decision was followed by drains
  double last_running_ = 0;
  double last_completed_ = 0;
  SimulationResult result_;
};

void Simulation::UpdateActive(double now) {
  while (arrived_ < jobs_.size() && jobs_[arrived_].spec().submitted <= now) {
    active_.push_back(arrived_++);
  }
  for (const size_t job : active_) {
    if (jobs_[job].done()) last_completed_ = std::max(last_completed_, *jobs_[job].completed());
  }
  active_.erase(
      std::remove_if(active_.begin(), active_.end(), [this](size_t job) { return jobs_[job].done(); }),
      active_.end());
}

absl::Status Simulation::AdvanceAll(double until) {
  for (const size_t job : active_) {
    if (absl::Status status = jobs_[job].Advance(until, speed_[job]); !status.ok()) {
      return status;
    }
    if (jobs_[job].done()) {
      CloseSegment(job, *jobs_[job].completed());
    }
  }
  return absl::OkStatus();
}

double Simulation::NextNodeEvent() const {
  return options_.nodes.dynamic() ? std::min(nodes_.NextEvent(), autoscaler_.NextEvent()) : kNever;
}

absl::Status Simulation::AdvanceThroughNodeEvents(double until) {
  for (double next = NextNodeEvent(); next <= until; next = NextNodeEvent()) {
    if (absl::Status status = AdvanceAll(next); !status.ok()) {
      return status;
    }
    ChangeNodes(next);
  }
  return AdvanceAll(until);
}

bool Simulation::ChangeNodes(double now) {
  const std::vector<Nodes::Event> events = nodes_.Advance(now);
  for (const Nodes::Event& event : events) {
    const bool failed = event.change == Nodes::Change::kFailed;
    const bool taken = event.change == Nodes::Change::kTaken;
    result_.node_failures += failed;
    result_.node_evictions += event.change == Nodes::Change::kNotice;
    if (failed || taken) {
      StopJobsOn(event.node, failed, now);
    }
  }
  UpdateInterference();
  const bool drained = autoscaler_.enabled() && autoscaler_.Act(now, NodeUse());
  return drained || !events.empty();
}

void Simulation::StopJobsOn(int node, bool crash, double now) {
  for (const size_t active : active_) {
    SimulatedJob& job = jobs_[active];
    const Placement& placement = job.placement();
    const bool here = std::any_of(placement.begin(), placement.end(),
                                  [node](const NodeShare& share) { return share.node == node; });
    if (!here || job.done()) {
      continue;
    }
    CloseSegment(active, now);
    if (crash) {
      job.Crash();
    } else {
      job.Reallocate({}, job.gpu_type(), {});
    }
  }
}

std::vector<double> Simulation::NodeUse() const {
  std::vector<double> use(cluster_.nodes().size(), 0);
  for (const size_t job : active_) {
    if (jobs_[job].done()) continue;
    for (const NodeShare& share : jobs_[job].placement()) {
      use[share.node] += static_cast<double>(share.gpus) / cluster_.nodes()[share.node].gpus;
    }
  }
  return use;
}

bool Simulation::FollowDemand(double now) {
  if (!autoscaler_.enabled()) {
    return false;
  }
  NodeDemand demand;
  if (!active_.empty()) {
    demand = scheduler_.Demand();
  } else {
    for (int node = 0; node < static_cast<int>(cluster_.nodes().size()); ++node) {
      demand.idle_nodes.insert(NodeId(node));
    }
  }
  return autoscaler_.Follow(std::move(demand), now, NodeUse());
}

absl::Status Simulation::RunRounds() {
  // Rounds are counted, so that their times do not drift.
  double round = 0;
  while (!active_.empty() || arrived_ < jobs_.size()) {
    if (active_.empty()) {
      round = std::max(round, std::ceil(jobs_[arrived_].spec().submitted / options_.round_seconds) - 1);
    }
    round += 1;
    const double now = round * options_.round_seconds;
    if (absl::Status status = AdvanceThroughNodeEvents(now); !status.ok()) {
      return status;
    }
    UpdateActive(now);
    if (absl::Status status = Decide(now); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Simulation::NextEvent(size_t job) const {
  absl::StatusOr<std::optional<double>> event = jobs_[job].NextEvent(speed_[job], options_.report_seconds);
  if (!event.ok()) {
    return event.status();
  }
  return event->value_or(kNever);
}

absl::Status Simulation::RenewEvents(std::vector<double>* events) const {
  for (const size_t job : active_) {
    absl::StatusOr<double> next = NextEvent(job);
    if (!next.ok()) {
      return next.status();
    }
    (*events)[job] = *next;
  }
  return absl::OkStatus();
}

absl::Status Simulation::RunEvents() {
  double pending = kNever;  // when the scheduler is to decide next
  std::vector<double> events(jobs_.size(), kNever);
  while (!active_.empty() || arrived_ < jobs_.size()) {
    double now = pending;
    if (arrived_ < jobs_.size()) {
      now = std::min(now, jobs_[arrived_].spec().submitted);
    }
    for (const size_t job : active_) {
      now = std::min(now, events[job]);
    }
    const bool nodes_change = NextNodeEvent() <= now;
    now = std::min(now, NextNodeEvent());
    bool news = false;
    for (const size_t job : active_) {
      if (events[job] > now + kSameTime && !nodes_change) {
        continue;
      }
      const int version = jobs_[job].profile_version();
      if (absl::Status status = jobs_[job].Advance(now, speed_[job]); !status.ok()) {
        return status;
      }
      absl::StatusOr<double> next = NextEvent(job);
      if (!next.ok()) {
        return next.status();
      }
      events[job] = *next;
      news = news || jobs_[job].done() || jobs_[job].profile_version() != version;
      if (jobs_[job].done()) {
        CloseSegment(job, *jobs_[job].completed());
      }
    }
    const size_t arrived = arrived_;
    UpdateActive(now);
    if (nodes_change) {
      news = ChangeNodes(now) || news;
      if (absl::Status status = RenewEvents(&events); !status.ok()) {
        return status;
      }
    }
    if (news || arrived_ > arrived) {
      pending = std::min(pending, now + options_.debounce_seconds);
    }
    if (now < pending) {
      continue;
    }
    if (absl::Status status = AdvanceAll(now); !status.ok()) {
      return status;
    }
    UpdateActive(now);
    if (absl::Status status = Decide(now); !status.ok()) {
      return status;
    }
    const double pause = drained_ ? options_.debounce_seconds : options_.interval_seconds;
    pending = active_.empty() ? kNever : now + pause;
    if (absl::Status status = RenewEvents(&events); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Simulation::Decide(double now) {
  if (active_.empty()) {
    drained_ = FollowDemand(now);
    return absl::OkStatus();
  }
  std::vector<const SimulatedJob*> jobs;
  for (const size_t job : active_) {
    jobs.push_back(&jobs_[job]);
  }
  const bool dynamic = options_.nodes.dynamic();
  const absl::Span<const NodeStatus> status =
      dynamic ? absl::MakeConstSpan(nodes_.status()) : absl::Span<const NodeStatus>();
  const Situation situation{now, cluster_, jobs, options_.restart(), status};
  const absl::Time begin = clock_.Now();
  absl::StatusOr<std::vector<Placement>> placements = scheduler_.Schedule(situation);
  result_.decision_seconds.push_back(absl::ToDoubleSeconds(clock_.Now() - begin));
  if (!placements.ok()) {
    return placements.status();
  }
  if (absl::Status status = CheckPlacements(situation, *placements); !status.ok()) {
    return status;
  }
  bool running = false;
  for (size_t i = 0; i < active_.size(); ++i) {
    running = running || !(*placements)[i].empty();
    if ((*placements)[i] != jobs_[active_[i]].placement()) {
      Apply(active_[i], (*placements)[i], now);
    }
  }
  last_running_ = running ? now : last_running_;
  UpdateInterference();
  RecordWatched(now);
  drained_ = FollowDemand(now);
  return running ? CheckVainEffort(now) : CheckStandstill(now);
}

void Simulation::RecordWatched(double now) {
  for (const size_t active : active_) {
    const SimulatedJob& job = jobs_[active];
    if (job.spec().name != options_.watched_job || job.placement().empty() || job.profiled_replicas() == 0) {
      continue;
    }
    const goodput::GradParams& gradient = job.gradient();
    const double noise_scale =
        static_cast<double>(job.application().init_batch_size()) * gradient.var / gradient.sqr;
    result_.watched.push_back({now, job.gpus(), job.batch_size(), noise_scale});
  }
}

void Simulation::Apply(size_t job, const Placement& placement, double now) {
  SimulatedJob& it = jobs_[job];
  const int type = placement.empty() ? it.gpu_type() : cluster_.nodes()[placement.front().node].type;
  const bool free_move = options_.free_moves && !it.spec().plain && !placement.empty() &&
                         type == it.gpu_type() && HaveSameShape(placement, it.placement());
  CloseSegment(job, now);
  // Brings the clock of a job that has waited to now.
  (void)it.Advance(now, speed_[job]);
  const int starts = it.first_started() ? it.restarts() + 1 : 0;
  const RestartCost cost = options_.restart();
  const bool in_place = cost.in_place != nullptr && !it.spec().plain && type == it.gpu_type() &&
                        !it.restarting() && ShareANode(placement, it.placement());
  SimulatedJob::Change change{.is_free = free_move};
  change.seconds = in_place ? cost.OfChange(it.spec(), starts) : cost.OfStart(it.spec(), starts);
  if (in_place && HasMoreSomewhere(placement, it.placement()))
    change.newcomers_seconds = cost.OfNewcomers(it.spec(), starts);
  it.Reallocate(placement, type, change);
  open_[job] = {now, CountGpus(placement), type};
}

void Simulation::UpdateInterference() {
  if (options_.interference == 0) {
    return;
  }
  std::vector<int> distributed(cluster_.nodes().size(), 0);
  const auto is_distributed = [this](size_t job) { return jobs_[job].placement().size() > 1; };
  for (const size_t job : active_) {
    if (is_distributed(job)) {
      for (const NodeShare& share : jobs_[job].placement()) {
        ++distributed[share.node];
      }
    }
  }
  for (const size_t job : active_) {
    const Placement& placement = jobs_[job].placement();
    const bool slowed =
        is_distributed(job) && std::any_of(placement.begin(), placement.end(),
                                           [&](const auto& share) { return distributed[share.node] > 1; });
    speed_[job] = slowed ? 1 - options_.interference : 1;
  }
}

absl::Status Simulation::CheckVainEffort(double now) const {
  const double since = std::max(last_completed_, jobs_[active_.front()].spec().submitted);
  if (options_.nodes.mtbf == 0 || now - since < kLongestVainEffort) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no job has been done for ", now - since, " s, though ", active_.size(), " jobs run, ",
                   jobs_[active_.front()].spec().name,
                   " first: do nodes fail too often? Raise --node-mtbf, or lower --checkpoint-period"));
}

void Simulation::CloseSegment(size_t job, double end) {
  OpenSegment& open = open_[job];
  if (open.gpus > 0 && end > open.start) {
    result_.timeline.push_back({static_cast<int>(job), open.start, end, open.gpus, open.gpu_type});
  }
  open.gpus = 0;
}

absl::Status Simulation::CheckStandstill(double now) const {
  const double since = std::max(last_running_, jobs_[active_.front()].spec().submitted);
  if (now - since < kLongestStandstill) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("nothing has run for ", now - since, " s, though ", active_.size(), " jobs wait, ",
                   jobs_[active_.front()].spec().name, " first: does it fit the cluster?"));
}

void Simulation::CollectOutcomes() {
  double end = 0;
  for (const SimulatedJob& job : jobs_) {
    result_.jobs.push_back({job.spec().name, job.application().name, job.spec().submitted,
                            *job.first_started(), *job.completed(), job.attained_service(), job.restarts(),
                            job.crashes(), job.lost_seconds(), job.spec().plain});
    end = std::max(end, *job.completed());
  }
  if (!options_.nodes.dynamic()) {
    return;
  }
  const double begin = jobs_.front().spec().submitted;
  for (NodeSpan span : nodes_.CloseSpans(end)) {
    span.start = std::max(span.start, begin);
    span.end = std::min(span.end, end);
    if (span.end > span.start) {
      result_.nodes.push_back(span);
    }
  }
}

}  // namespace

absl::StatusOr<SimulationResult> Simulate(const Cluster& cluster, absl::Span<const WorkloadJob> workload,
                                          Scheduler& scheduler, const Clock& clock,
                                          const SimulationOptions& options) {
  if (absl::Status status = CheckOptions(options, workload, scheduler); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckNodeOptions(options.nodes, cluster); !status.ok()) {
    return status;
  }
  const auto is_watched = [&](const WorkloadJob& job) { return job.name == options.watched_job; };
  if (!options.watched_job.empty() && std::none_of(workload.begin(), workload.end(), is_watched)) {
    return absl::InvalidArgumentError(absl::StrCat("no job of the workload is ", options.watched_job));
  }
  return Simulation(cluster, workload, scheduler, clock, options).Run();
}

}  // namespace adaptdl::simulator
