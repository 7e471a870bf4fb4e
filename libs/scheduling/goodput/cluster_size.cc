#include "libs/scheduling/goodput/cluster_size.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/scheduling/capacity_curve.h"
#include "libs/scheduling/goodput/menu.h"

namespace adaptdl::scheduling {
namespace {

std::string Nodes(int count) { return absl::StrCat(count, count == 1 ? " node" : " nodes"); }

int RoundUp(double nodes) { return static_cast<int>(std::ceil(nodes - 1e-9)); }

// A step of a job's speed-up, on the upper hull.
struct HullStep {
  int replicas = 0;
  double use = 0;  // speed-up gained per replica
};

// The steps from the smallest size on, in falling order of use.
std::vector<HullStep> HullSteps(const std::vector<CurveSize>& sizes) {
  std::vector<HullStep> steps;
  for (size_t i = 1; i < sizes.size(); ++i) {
    const int replicas = sizes[i].replicas - sizes[i - 1].replicas;
    HullStep step{replicas, (sizes[i].speedup - sizes[i - 1].speedup) / replicas};
    // Later steps that gain more make one with the earlier ones.
    while (!steps.empty() && steps.back().use <= step.use) {
      const int together = steps.back().replicas + step.replicas;
      step.use = (steps.back().use * steps.back().replicas + step.use * step.replicas) / together;
      step.replicas = together;
      steps.pop_back();
    }
    steps.push_back(step);
  }
  return steps;
}

// Of the pools that could hold jobs, if there are some: what others run on says nothing about nodes for jobs.
int CommonestPool(const ClusterModel& model) {
  const auto rank = [&](size_t pool) {
    bool holds_jobs = false;
    for (int job = 0; job < model.job_count(); ++job) holds_jobs |= model.job(job).per_node[pool] > 0;
    return std::make_pair(holds_jobs, model.pools()[pool].nodes.size());
  };
  int commonest = 0;
  for (size_t p = 1; p < model.pools().size(); ++p) {
    if (rank(p) > rank(commonest)) commonest = static_cast<int>(p);
  }
  return commonest;
}

// The sizes that the job may have in the pool.
CurveJob SizesOf(const ClusterModel& model, int job, int pool, const Placement& placement, int most_nodes) {
  CurveJob sizes;
  const int per_node = model.job(job).per_node[pool];
  if (per_node == 0) return sizes;
  sizes.remaining_seconds = model.view().jobs[job].remaining_seconds;
  sizes.pinned = model.job(job).pinned;
  const auto add = [&](int replicas, double speedup) {
    sizes.sizes.push_back({replicas, static_cast<double>(replicas) / per_node, speedup});
  };
  if (sizes.pinned) {
    const double speedup = model.SpeedupAt(job, placement);
    if (speedup > 0) add(CountReplicas(placement), speedup);
  } else {
    for (const int replicas : UsefulSizes(model, job, pool, most_nodes)) {
      add(replicas, model.Speedup(job, pool, model.NodesFor(job, pool, replicas), replicas));
    }
  }
  if (sizes.sizes.empty()) return sizes;
  const CurveSize& smallest = sizes.sizes.front();
  const double single = model.Speedup(job, pool, 1, 1);
  sizes.full_use = single > 0 ? single : smallest.speedup / smallest.replicas;
  return sizes;
}

// By job. None for jobs that are in other pools.
std::vector<CurveJob> AllSizes(const ClusterModel& model, const std::vector<Placement>& placements,
                               int most_nodes) {
  const int pool = CommonestPool(model);
  std::vector<CurveJob> jobs(model.job_count());
  for (int job = 0; job < model.job_count(); ++job) {
    const Placement& placement = placements[job];
    const bool elsewhere = !placement.empty() && model.pool_of(placement.front().node) != pool;
    if (!elsewhere) jobs[job] = SizesOf(model, job, pool, placement, most_nodes);
  }
  return jobs;
}

// Nodes of the pool that jobs could use, in fractions.
struct Needs {
  double waiting = 0;  // to start jobs that wait
  double running = 0;  // to keep the others at their smallest size
  double wanted = 0;   // steps that are worth a new node
  double kept = 0;     // steps that are worth keeping a node for
};

class Planner {
 public:
  // `sizes`: by job, in the commonest pool.
  Planner(const ClusterModel& model, const std::vector<Placement>& placements,
          const std::vector<CurveJob>& sizes, const CapacityOptions& options)
      : model_(model),
        placements_(placements),
        sizes_(sizes),
        options_(options),
        pool_(CommonestPool(model)) {}

  CapacityDecision Decide() {
    for (int job = 0; job < model_.job_count(); ++job) Count(job);
    const std::vector<char> used = UsedNodes();
    CapacityDecision decision;
    int here = 0;
    int used_here = 0;
    int used_elsewhere = 0;
    for (int node = 0; node < model_.node_count(); ++node) {
      const int pool = model_.pool_of(node);
      if (pool < 0) continue;
      ++decision.current_nodes;
      here += pool == pool_;
      (pool == pool_ ? used_here : used_elsewhere) += used[node];
      // A job that waits may need what is idle, as soon as there is more.
      if (!used[node] && waiting_ == 0) decision.idle_nodes.push_back(model_.view().nodes[node].id);
    }
    const int start = RoundUp(needs_.running + needs_.waiting);
    const int wanted =
        std::min(RoundUp(needs_.running + needs_.waiting + needs_.wanted), here + options_.most_new_nodes);
    const int kept = RoundUp(needs_.running + needs_.waiting + needs_.kept);
    const int desired =
        std::clamp(std::min(here, used_here + (waiting_ > 0 ? here : 0)), wanted, std::max(wanted, kept));
    decision.desired_nodes = used_elsewhere + desired;
    decision.reason = Reason(decision, used_here + used_elsewhere, start, desired - used_here);
    return decision;
  }

 private:
  void Count(int job) {
    const int per_node = model_.job(job).per_node[pool_];
    const Placement& placement = placements_[job];
    const bool elsewhere = !placement.empty() && model_.pool_of(placement.front().node) != pool_;
    if (per_node == 0 || elsewhere) return;
    if (model_.job(job).pinned) {
      needs_.running += static_cast<double>(CountReplicas(placement)) / per_node;
      return;
    }
    const std::vector<CurveSize>& sizes = sizes_[job].sizes;
    if (sizes.empty()) return;
    (placement.empty() ? needs_.waiting : needs_.running) += sizes.front().nodes;
    waiting_ += placement.empty();
    for (const HullStep& step : HullSteps(sizes)) {
      const double nodes = static_cast<double>(step.replicas) / per_node;
      if (step.use >= options_.least_use) needs_.wanted += nodes;
      if (step.use >= options_.least_kept_use) needs_.kept += nodes;
    }
  }

  std::vector<char> UsedNodes() const {
    std::vector<char> used(model_.node_count(), 0);
    for (const Placement& placement : placements_) {
      for (const Share& share : placement) used[share.node] = 1;
    }
    return used;
  }

  std::string Reason(const CapacityDecision& decision, int used, int start, int more) const {
    std::string reason = absl::StrCat(Nodes(used), " in use");
    if (more < 0) absl::StrAppend(&reason, ", ", -more, " of them with hardly any gain");
    const int for_waiting =
        waiting_ > 0 ? std::clamp(start - RoundUp(needs_.running), 0, std::max(more, 0)) : 0;
    if (for_waiting > 0)
      absl::StrAppend(&reason, ", ", for_waiting, " more for waiting jobs (", waiting_, ")");
    if (more > for_waiting)
      absl::StrAppend(&reason, ", ", more - for_waiting, " more would speed jobs up well");
    if (!decision.idle_nodes.empty()) absl::StrAppend(&reason, ", ", decision.idle_nodes.size(), " idle");
    return reason;
  }

  const ClusterModel& model_;
  const std::vector<Placement>& placements_;
  const std::vector<CurveJob>& sizes_;
  const CapacityOptions& options_;
  const int pool_;
  Needs needs_;
  int waiting_ = 0;
};

// Numbers of nodes that a curve goes to at least, where jobs could use them.
constexpr int kLeastReach = 64;

// `sizes`: by job, in the commonest pool.
void AddCurve(const ClusterModel& model, const std::vector<Placement>& placements,
              const std::vector<CurveJob>& sizes, const CapacityOptions& options,
              CapacityDecision* decision) {
  const int pool = CommonestPool(model);
  const int here = static_cast<int>(model.pools()[pool].nodes.size());
  CurveOptions curve;
  std::set<int> other_nodes;
  double most = 0;
  for (int job = 0; job < model.job_count(); ++job) {
    const Placement& placement = placements[job];
    if (!sizes[job].sizes.empty()) most += sizes[job].sizes.back().nodes;
    if (placement.empty() || model.pool_of(placement.front().node) == pool) continue;
    for (const Share& share : placement) {
      if (model.pool_of(share.node) >= 0) other_nodes.insert(share.node);
    }
    const std::optional<double> remaining = model.view().jobs[job].remaining_seconds;
    const double speedup = model.SpeedupAt(job, placement);
    if (!remaining.has_value() || speedup <= 0) continue;
    curve.other_makespan_seconds = std::max(curve.other_makespan_seconds.value_or(0), *remaining / speedup);
  }
  curve.other_nodes = static_cast<int>(other_nodes.size());
  const int reach = std::max({4 * here, kLeastReach, decision->desired_nodes - curve.other_nodes});
  curve.most_nodes = std::min({std::max(here, RoundUp(most)), reach, here + options.most_new_nodes});
  decision->start_nodes = std::min(curve.other_nodes + StartNodes(sizes), decision->desired_nodes);
  decision->curve = MakeCapacityCurve(sizes, curve);
}

}  // namespace

void AddCapacityCurve(const ClusterModel& model, const std::vector<Placement>& placements,
                      const CapacityOptions& options, CapacityDecision* decision) {
  decision->start_nodes = decision->desired_nodes;
  if (model.pools().empty()) return;
  AddCurve(model, placements, AllSizes(model, placements, options.most_new_nodes), options, decision);
}

CapacityDecision DecideClusterSize(const ClusterModel& model, const std::vector<Placement>& placements,
                                   const CapacityOptions& options) {
  CapacityDecision decision;
  if (!model.pools().empty()) {
    const std::vector<CurveJob> sizes = AllSizes(model, placements, options.most_new_nodes);
    decision = Planner(model, placements, sizes, options).Decide();
    decision.start_nodes = decision.desired_nodes;
    if (model.view().capacity_curve) AddCurve(model, placements, sizes, options, &decision);
    return decision;
  }
  const bool waiting = model.job_count() > 0;
  decision.desired_nodes = waiting ? 1 : 0;
  decision.start_nodes = decision.desired_nodes;
  decision.reason = waiting ? "jobs wait, and what a node holds is not known yet" : "there are no jobs";
  return decision;
}

}  // namespace adaptdl::scheduling
