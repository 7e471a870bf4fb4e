#include "libs/scheduling/capacity.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/scheduling/cluster_state.h"
#include "libs/scheduling/goodput/cluster_model.h"
#include "libs/scheduling/goodput/cluster_size.h"
#include "libs/scheduling/growth.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {
namespace {

std::string Nodes(int count) { return absl::StrCat(count, count == 1 ? " node" : " nodes"); }

// What new nodes will probably be like: the commonest kind of node. Null without nodes.
const NodeInfo* CommonestNode(const ClusterView& view) {
  std::map<Resources, int> counts;
  for (const NodeInfo& node : view.nodes) ++counts[node.capacity];
  const NodeInfo* commonest = nullptr;
  for (const NodeInfo& node : view.nodes) {
    if (commonest == nullptr || counts[node.capacity] > counts[commonest->capacity]) commonest = &node;
  }
  return commonest;
}

class CapacityPlanner {
 public:
  CapacityPlanner(ClusterState* state, const std::vector<bool>& fixed, const GrowthOptions& growth,
                  const CapacityOptions& options)
      : state_(*state), fixed_(fixed), growth_(growth), options_(options) {
    for (int job = 0; job < state_.job_count(); ++job) {
      if (!fixed[job]) flexible_.push_back(job);
    }
  }

  // Takes away nodes that are hardly used, the least used first. Returns how many.
  int RemovePoorlyUsed() {
    int removed = 0;
    for (;;) {
      const std::vector<double> uses = Uses();
      int worst = -1;
      for (int node = 0; node < state_.node_count(); ++node) {
        if (!state_.usable(node) || state_.IsIdle(node) || uses[node] >= options_.least_kept_use) continue;
        if (worst < 0 || uses[node] < uses[worst]) worst = node;
      }
      if (worst < 0) return removed;
      for (int job = 0; job < state_.job_count(); ++job) {
        const int replicas = state_.replicas_on(job, worst);
        if (replicas > 0) state_.Remove(job, worst, replicas);
      }
      ++removed;
    }
  }

  // Adds nodes until the waiting jobs have their minimum. Returns how many.
  int AddForWaiting(const std::vector<int>& waiting, const Resources& kind) {
    int added = 0;
    Grower grower(growth_, &state_);
    for (const int job : waiting) {
      const int each = TimesThatFit(job, kind);
      if (each == 0) continue;
      int lacking = StartSize(state_.job(job));
      for (int node = 0; node < state_.node_count() && lacking > 0; ++node) {
        lacking -= state_.RoomFor(job, node, Room::kAny);
      }
      const int more = lacking > 0 ? (lacking + each - 1) / each : 0;
      if (added + more > options_.most_new_nodes) break;
      for (int i = 0; i < more; ++i) state_.AddNode(kind);
      added += more;
      grower.Admit(job);
    }
    return added;
  }

  // Adds nodes as long as each is put to good use by making jobs faster. Returns how many.
  int AddForSpeed(const Resources& kind, int most) {
    int added = 0;
    Grower grower(growth_, &state_);
    std::vector<int> each(state_.job_count(), 0);
    for (const int job : flexible_) each[job] = TimesThatFit(job, kind);
    while (added < most) {
      const int node = state_.AddNode(kind);
      double use = 0;
      for (const Grower::Gain& gain : grower.GrowOnto(node, flexible_)) {
        use += gain.speedup / std::max(each[gain.job], 1);
      }
      if (use < options_.least_use) break;
      ++added;
    }
    return added;
  }

 private:
  static constexpr int kMostPerNode = 1 << 20;

  int TimesThatFit(int job, const Resources& kind) const {
    return static_cast<int>(scheduling::TimesThatFit(state_.job(job).request, kind, kMostPerNode));
  }

  // By node: the speed-up that would be lost without it. Infinite where a job can't do without.
  std::vector<double> Uses() const {
    std::vector<double> uses(state_.node_count(), 0.0);
    for (int job = 0; job < state_.job_count(); ++job) {
      const Placement& placement = state_.placement(job);
      for (const Share& share : placement) {
        const int rest = state_.replicas(job) - share.replicas;
        if (fixed_[job] || rest < StartSize(state_.job(job))) {
          uses[share.node] = HUGE_VAL;
          continue;
        }
        const double lost =
            state_.Speedup(job) - state_.Speedup(job, static_cast<int>(placement.size()) - 1, rest);
        uses[share.node] += lost / std::max(state_.Capacity(job, share.node), share.replicas);
      }
    }
    return uses;
  }

  ClusterState& state_;
  const std::vector<bool>& fixed_;
  const GrowthOptions& growth_;
  const CapacityOptions& options_;
  std::vector<int> flexible_;
};

}  // namespace

CapacityDecision DecideCapacity(const ClusterView& view, ClusterState state, const std::vector<int>& waiting,
                                const std::vector<bool>& fixed, const GrowthOptions& growth,
                                const CapacityOptions& options) {
  CapacityDecision decision;
  std::vector<int> idle;
  for (int node = 0; node < state.node_count(); ++node) {
    if (!state.usable(node)) continue;
    ++decision.current_nodes;
    if (state.IsIdle(node)) idle.push_back(node);
  }
  const NodeInfo* kind = CommonestNode(view);
  if (kind == nullptr) {
    decision.desired_nodes = waiting.empty() ? 0 : 1;
    decision.start_nodes = decision.desired_nodes;
    decision.reason =
        waiting.empty() ? "there are no jobs" : "jobs wait, and what a node holds is not known yet";
    return decision;
  }
  std::vector<Placement> placements;
  for (int job = 0; job < state.job_count(); ++job) placements.push_back(state.placement(job));
  CapacityPlanner planner(&state, fixed, growth, options);
  const int poor = waiting.empty() ? planner.RemovePoorlyUsed() : 0;
  const int for_waiting = planner.AddForWaiting(waiting, kind->capacity);
  const int for_speed =
      poor > 0 ? 0 : planner.AddForSpeed(kind->capacity, options.most_new_nodes - for_waiting);
  // A job that waits for more nodes may need the idle ones too.
  for (const int node : idle) {
    if (state.IsIdle(node)) decision.idle_nodes.push_back(view.nodes[node].id);
  }
  const int used = decision.current_nodes - static_cast<int>(decision.idle_nodes.size());
  decision.desired_nodes = used - poor + for_waiting + for_speed;
  decision.reason = absl::StrCat(Nodes(used), " in use");
  if (poor > 0) absl::StrAppend(&decision.reason, ", ", poor, " of them with hardly any gain");
  if (for_waiting > 0) {
    absl::StrAppend(&decision.reason, ", ", for_waiting, " more for waiting jobs (", waiting.size(), ")");
  }
  if (for_speed > 0) absl::StrAppend(&decision.reason, ", ", for_speed, " more would speed jobs up well");
  if (!decision.idle_nodes.empty()) {
    absl::StrAppend(&decision.reason, ", ", decision.idle_nodes.size(), " idle");
  }
  decision.start_nodes = decision.desired_nodes;
  if (view.capacity_curve) AddCapacityCurve(ClusterModel(view), placements, options, &decision);
  return decision;
}

}  // namespace adaptdl::scheduling
