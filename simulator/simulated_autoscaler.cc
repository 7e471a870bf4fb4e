#include "simulator/simulated_autoscaler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/scheduling/job_demand.h"

namespace adaptdl::simulator {
namespace {

// The live autoscaler's time between two looks.
constexpr double kPollSeconds = 2;

absl::Time TimeAt(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }
double SecondsAt(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

nodepools::Target TargetOf(const NodeOptions& options) {
  nodepools::Target target = options.target;
  target.cooldown = absl::Seconds(options.cooldown);
  target.deadline = TimeAt(options.deadline);
  return target;
}

}  // namespace

SimulatedAutoscaler::SimulatedAutoscaler(const Cluster& cluster, const NodeOptions& options, Nodes* nodes)
    : cluster_(cluster),
      options_(options),
      nodes_(*nodes),
      target_(TargetOf(options)),
      refusals_(nodepools::RefusalOptions()),
      next_(kNever) {
  for (int node = 0; node < static_cast<int>(cluster.nodes().size()); ++node)
    node_index_[NodeId(node)] = node;
  for (int type = 0; type < static_cast<int>(options.pools.size()); ++type) {
    AddPool(type, /*spot=*/false, options.pools[type].min, options.lasting_prices);
    const int rest = options.pools[type].min - pools_.back().min;
    AddPool(type, /*spot=*/true, rest, options.spot_prices);
  }
}

void SimulatedAutoscaler::AddPool(int type, bool spot, int min, const std::vector<double>& prices) {
  Pool pool;
  pool.name = absl::StrCat(cluster_.gpu_types()[type], spot ? "-spot" : "");
  pool.type = type;
  pool.spot = spot;
  if (!prices.empty()) pool.price = prices[type];
  for (int node = 0; node < static_cast<int>(cluster_.nodes().size()); ++node) {
    if (cluster_.nodes()[node].type == type && nodes_.status()[node].spot == spot) pool.nodes.push_back(node);
  }
  pool.min = std::min(min, static_cast<int>(pool.nodes.size()));
  pools_.push_back(std::move(pool));
}

bool SimulatedAutoscaler::Follow(NodeDemand demand, double now, const std::vector<double>& use) {
  demand_ = std::move(demand);
  return Act(now, use);
}

bool SimulatedAutoscaler::Act(double now, const std::vector<double>& use) {
  drained_ = false;
  refused_ = false;
  const nodepools::PoolsDecision decision = nodepools::DecidePools(target_, View(now, use));
  bool acted = false;
  next_ = kNever;
  for (size_t p = 0; p < pools_.size(); ++p) {
    const nodepools::PoolDecision& decided = decision.pools[p];
    acted |= Carry(decided, now, &pools_[p]);
    if (decided.cooldown_end.has_value() && decided.wanted_nodes < decided.target_nodes)
      next_ = std::min(next_, SecondsAt(*decided.cooldown_end));
    const std::optional<nodepools::Refusals::Refusal> refusal = refusals_.Of(pools_[p].name);
    if (refusal.has_value() && refusal->until > TimeAt(now))
      next_ = std::min(next_, SecondsAt(refusal->until));
  }
  if (acted || refused_) next_ = std::min(next_, now + kPollSeconds);
  return drained_;
}

nodepools::ClusterState SimulatedAutoscaler::View(double now, const std::vector<double>& use) const {
  nodepools::ClusterState state;
  state.now = TimeAt(now);
  state.fixed_nodes.assign(cluster_.gpu_types().size(), 0);
  state.jobs = Jobs();
  for (const Pool& pool : pools_) {
    nodepools::Pool view;
    view.name = pool.name;
    view.kind = pool.type;
    view.price_per_hour = pool.price;
    view.preemptible = pool.spot;
    view.min_nodes = pool.min;
    view.max_nodes = static_cast<int>(pool.nodes.size());
    view.start_time = absl::Seconds(options_.start);
    view.last_change = TimeAt(pool.last_change);
    if (const auto refusal = refusals_.Of(pool.name); refusal.has_value())
      view.refused_until = refusal->until;
    for (const int node : pool.nodes) {
      if (nodes_.phase(node) != NodePhase::kAbsent) view.nodes.push_back(ViewOf(node, use[node]));
    }
    state.pools.push_back(std::move(view));
  }
  return state;
}

std::vector<nodepools::JobView> SimulatedAutoscaler::Jobs() const {
  std::vector<nodepools::JobView> jobs;
  for (const scheduling::JobDemand& demand : demand_.jobs) {
    nodepools::JobView view{demand};
    if (!demand.nodes.empty())
      view.present_kind = cluster_.nodes()[node_index_.at(demand.nodes.front())].type;
    for (const scheduling::KindDemand& kind : demand.kinds) {
      if (kind.kind == view.present_kind)
        view.present_speedup = scheduling::SpeedupAt(kind, static_cast<int>(demand.nodes.size()));
    }
    jobs.push_back(std::move(view));
  }
  return jobs;
}

nodepools::PoolNode SimulatedAutoscaler::ViewOf(int node, double use) const {
  nodepools::PoolNode view;
  view.id = NodeId(node);
  view.use = use;
  view.empty = use == 0;
  switch (nodes_.phase(node)) {
    case NodePhase::kUp:
      view.phase = nodepools::NodePhase::kRunning;
      view.idle = view.empty && demand_.idle_nodes.count(view.id) > 0;
      break;
    case NodePhase::kDraining:
    case NodePhase::kLeaving:
      view.phase = nodepools::NodePhase::kDraining;
      break;
    case NodePhase::kAbsent:
    case NodePhase::kStarting:
    case NodePhase::kAway:
      view.phase = nodepools::NodePhase::kStarting;
      break;
  }
  return view;
}

bool SimulatedAutoscaler::Carry(const nodepools::PoolDecision& decision, double now, Pool* pool) {
  for (const nodepools::PoolAction& action : decision.actions) {
    const int node = node_index_.at(action.node_id);
    if (action.kind == nodepools::PoolActionKind::kRemove) {
      nodes_.Remove(node, now);
    } else {
      nodes_.Drain(node);
      drained_ = true;
    }
  }
  const int created = Create(decision.create, now, pool);
  const bool acted = created > 0 || !decision.actions.empty();
  if (acted && decision.changes_size) pool->last_change = now;
  return acted;
}

int SimulatedAutoscaler::Create(int count, double now, Pool* pool) {
  int created = 0;
  for (const int node : pool->nodes) {
    if (created == count) break;
    if (nodes_.phase(node) != NodePhase::kAbsent) continue;
    if (!nodes_.HasCapacity(node, now)) {
      refused_ = true;
      refusals_.Refused(pool->name, "no capacity", TimeAt(now));
      return created;
    }
    nodes_.Start(node, now);
    ++created;
  }
  if (created > 0) refusals_.Gave(pool->name);
  return created;
}

}  // namespace adaptdl::simulator
