#include "simulator/nodes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "simulator/random.h"

namespace adaptdl::simulator {
namespace {

int CountNodes(const Cluster& cluster, int type) {
  return static_cast<int>(std::count_if(cluster.nodes().begin(), cluster.nodes().end(),
                                        [type](const Cluster::Node& node) { return node.type == type; }));
}

bool IsPaid(NodePhase phase) { return phase != NodePhase::kAbsent && phase != NodePhase::kAway; }

absl::Status CheckTypes(const NodeOptions& options, const Cluster& cluster) {
  const size_t types = cluster.gpu_types().size();
  for (size_t type = 0; type < options.spot_nodes.size(); ++type) {
    const int most = type < types ? CountNodes(cluster, static_cast<int>(type)) : 0;
    if (options.spot_nodes[type] < 0 || options.spot_nodes[type] > most) {
      return absl::InvalidArgumentError(absl::StrCat("--spot-nodes: ", options.spot_nodes[type],
                                                     " spot nodes of a type; there are 0 to ", most));
    }
  }
  for (size_t type = 0; type < options.pools.size(); ++type) {
    const PoolBounds& pool = options.pools[type];
    const int most = type < types ? CountNodes(cluster, static_cast<int>(type)) : 0;
    if (pool.min < 0 || pool.start < pool.min || pool.start > pool.max || pool.max != most) {
      return absl::InvalidArgumentError(absl::StrCat("--autoscale: ", pool.min, "..", pool.max,
                                                     " does not contain the ", pool.start,
                                                     " nodes of --cluster; change one of them"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNodeOptions(const NodeOptions& options, const Cluster& cluster) {
  const std::pair<const char*, double> times[] = {
      {"--node-mtbf", options.mtbf},
      {"--node-repair", options.repair},
      {"--spot-lifetime", options.spot_lifetime},
      {"--spot-notice", options.spot_notice},
      {"--spot-return", options.spot_return},
      {"--spot-refusal", options.spot_refusal},
      {"--spot-scarcity", options.spot_scarcity},
      {"--node-start", options.start},
      {"--cooldown", options.cooldown},
      {"--deadline", options.deadline},
  };
  for (const auto& [flag, seconds] : times) {
    if (!std::isfinite(seconds) || seconds < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " is ", seconds, " s; write a time of at least 0, as in 10m"));
    }
  }
  if (options.spot_lifetime > 0 && options.spot_nodes.empty()) {
    return absl::InvalidArgumentError(
        "--spot-lifetime: there are no spot nodes; say how many with --spot-nodes, or leave it out");
  }
  if (!(options.spot_together >= 0) || options.spot_together > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--spot-together is ", options.spot_together, "; it is a chance, from 0 to 1"));
  }
  if (options.spot_together > 0 && options.spot_lifetime == 0) {
    return absl::InvalidArgumentError(
        "--spot-together: spot nodes are never taken away; say how long they live with --spot-lifetime");
  }
  if ((options.spot_refusal > 0 || options.spot_scarcity > 0) && options.pools.empty()) {
    return absl::InvalidArgumentError(
        "--spot-refusal, --spot-scarcity: without --autoscale nobody asks for nodes; add it, or leave them "
        "out");
  }
  if (options.spot_scarcity > 0 && options.spot_refusal == 0) {
    return absl::InvalidArgumentError(
        "--spot-scarcity: times without capacity have no length; say how long with --spot-refusal");
  }
  if (!options.pools.empty()) {
    const absl::Status target = nodepools::CheckTarget(options.target, !options.lasting_prices.empty());
    if (!target.ok()) return absl::InvalidArgumentError(absl::StrCat("--target: ", target.message()));
  }
  return CheckTypes(options, cluster);
}

Nodes::Nodes(const Cluster& cluster, const NodeOptions& options, uint64_t seed)
    : options_(options),
      seed_(seed),
      types_(static_cast<int>(cluster.gpu_types().size())),
      market_({options.spot_together, options.spot_lifetime, options.spot_refusal, options.spot_scarcity},
              types_, seed) {
  std::vector<int> seen(cluster.gpu_types().size(), 0);
  for (const Cluster::Node& node : cluster.nodes()) {
    const int index = static_cast<int>(nodes_.size());
    const int rank = seen[node.type]++;
    const int spot = options.spot_nodes.empty() ? 0 : options.spot_nodes[node.type];
    nodes_.push_back({.type = node.type});
    status_.push_back({.spot = rank >= CountNodes(cluster, node.type) - spot});
    Enter(index, NodePhase::kAbsent, 0, kNever);
    if (options.pools.empty() || rank < options.pools[node.type].start) {
      Arrive(index, 0);
    }
  }
}

double Nodes::Draw(const char* what, int node, double mean, double now) {
  if (mean <= 0) return kNever;
  const std::string key = absl::StrCat(what, ":", node);
  return now + std::max(1.0, std::ceil(KeyedExponential(seed_, key, nodes_[node].draws, mean)));
}

void Nodes::Enter(int node, NodePhase phase, double now, double seconds) {
  Node& it = nodes_[node];
  if (IsPaid(it.phase) && !IsPaid(phase)) CloseSpan(node, now);
  if (!IsPaid(it.phase) && IsPaid(phase)) it.paid_since = now;
  it.phase = phase;
  it.phase_end = now + seconds;
  const bool leaves = phase == NodePhase::kDraining || phase == NodePhase::kLeaving;
  if (phase != NodePhase::kUp && phase != NodePhase::kDraining) it.notice_at = kNever;
  if (phase != NodePhase::kUp && !leaves) it.fails_at = kNever;
  status_[node].up = phase == NodePhase::kUp || leaves;
  status_[node].draining = leaves;
}

void Nodes::Lose(int node, bool returns, double now, double seconds) {
  if (returns) {
    Enter(node, NodePhase::kAway, now, seconds);
  } else {
    Enter(node, NodePhase::kAbsent, now, kNever);
  }
}

void Nodes::Arrive(int node, double now) {
  Enter(node, NodePhase::kUp, now, kNever);
  nodes_[node].fails_at = Draw("failure", node, options_.mtbf, now);
  const bool alone = status_[node].spot && options_.spot_together == 0;
  nodes_[node].notice_at = alone ? Draw("eviction", node, options_.spot_lifetime, now) : kNever;
  ++nodes_[node].draws;
}

double Nodes::NextEvent() const {
  double next = kNever;
  for (const Node& node : nodes_) {
    next = std::min({next, node.phase_end, node.fails_at, node.notice_at});
  }
  for (int type = 0; type < types_; ++type) next = std::min(next, market_.NextReclaim(type));
  return next;
}

std::vector<Nodes::Event> Nodes::Advance(double now) {
  std::vector<Event> events;
  Reclaim(now, &events);
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
    const Node& it = nodes_[node];
    if (it.fails_at <= now) {
      Lose(node, it.phase != NodePhase::kDraining, now, options_.repair);
      events.push_back({node, Change::kFailed});
    } else if (it.notice_at <= now) {
      Enter(node, NodePhase::kLeaving, now, options_.spot_notice);
      events.push_back({node, Change::kNotice});
    } else if (it.phase_end <= now && it.phase == NodePhase::kLeaving) {
      Lose(node, options_.pools.empty(), now, options_.spot_return);
      events.push_back({node, Change::kTaken});
    } else if (it.phase_end <= now) {
      Arrive(node, now);
      events.push_back({node, Change::kArrived});
    }
  }
  return events;
}

void Nodes::Reclaim(double now, std::vector<Event>* events) {
  for (int type = 0; type < types_; ++type) {
    for (; market_.NextReclaim(type) <= now; market_.PassReclaim(type)) {
      for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
        if (nodes_[node].type != type || !status_[node].spot || !market_.Takes(type, node)) continue;
        const NodePhase phase = nodes_[node].phase;
        if (phase == NodePhase::kUp || phase == NodePhase::kDraining) {
          Enter(node, NodePhase::kLeaving, now, options_.spot_notice);
          events->push_back({node, Change::kNotice});
        } else if (phase == NodePhase::kStarting) {
          Lose(node, options_.pools.empty(), now, options_.spot_return);
          events->push_back({node, Change::kTaken});
        }
      }
    }
  }
}

bool Nodes::HasCapacity(int node, double now) {
  return !status_[node].spot || market_.HasCapacity(nodes_[node].type, now);
}

void Nodes::Start(int node, double now) { Enter(node, NodePhase::kStarting, now, options_.start); }

void Nodes::Drain(int node) { Enter(node, NodePhase::kDraining, 0, kNever); }

void Nodes::Remove(int node, double now) { Enter(node, NodePhase::kAbsent, now, kNever); }

void Nodes::CloseSpan(int node, double now) {
  if (now > nodes_[node].paid_since) {
    spans_.push_back({node, nodes_[node].paid_since, now, status_[node].spot});
  }
}

std::vector<NodeSpan> Nodes::CloseSpans(double end) {
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
    if (IsPaid(nodes_[node].phase)) CloseSpan(node, end);
  }
  return std::move(spans_);
}

}  // namespace adaptdl::simulator
