#include "services/autoscaler/kinds.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::autoscaler {
namespace {

// As many as the allocator answers for.
constexpr size_t kMostKinds = 64;

// What tells sorts of nodes apart, for those that are in no pool. Labels that differ from node to node do not.
std::string SortOf(const v1::Node& node) {
  std::string sort = absl::StrCat(node.capacity().cpu_millis(), "/", node.capacity().memory_bytes(), "/",
                                  node.capacity().gpus(), "/", node.gpu_type());
  for (const v1::Taint& taint : node.taints()) absl::StrAppend(&sort, "/", taint.SerializeAsString());
  std::map<std::string, int64_t> extended(node.capacity().extended().begin(),
                                          node.capacity().extended().end());
  for (const auto& [name, amount] : extended) absl::StrAppend(&sort, "/", name, "=", amount);
  return sort;
}

// Machines of one type differ by so much of what they offer.
constexpr double kAboutEqual = 0.9;

// Whether the node is at least as good as the other, or about as good.
bool Covers(const v1::Node& node, const v1::Node& other, double part = 1) {
  const auto covers = [part](int64_t offer, int64_t need) {
    return static_cast<double>(offer) >= part * static_cast<double>(need);
  };
  for (const auto& [name, amount] : other.capacity().extended()) {
    const auto found = node.capacity().extended().find(name);
    if (amount > (found == node.capacity().extended().end() ? 0 : found->second)) return false;
  }
  return node.gpu_type() == other.gpu_type() && node.capacity().gpus() >= other.capacity().gpus() &&
         covers(node.capacity().cpu_millis(), other.capacity().cpu_millis()) &&
         covers(node.capacity().memory_bytes(), other.capacity().memory_bytes());
}

bool StandsInFor(const KindQuestion& question, int kind, int other) {
  const v1::Node& a = question.kinds[kind];
  const v1::Node& b = question.kinds[other];
  if (kind >= question.pools) return Covers(a, b);
  return Covers(a, b, kAboutEqual) && Covers(b, a, kAboutEqual);
}

// The speed-ups of a kind that can be used. Empty: none.
scheduling::KindDemand ReadKind(const v1::KindSpeedups& speedups, int kinds) {
  scheduling::KindDemand demand;
  if (speedups.kind() < 0 || speedups.kind() >= kinds || speedups.replicas_per_node() < 1 ||
      speedups.replicas_size() != speedups.speedups_size())
    return demand;
  demand.kind = speedups.kind();
  demand.per_node = speedups.replicas_per_node();
  for (int i = 0; i < speedups.replicas_size(); ++i) {
    const scheduling::DemandSize size{speedups.replicas(i), speedups.speedups(i)};
    const bool rises = demand.sizes.empty() ? size.replicas > 0 && size.speedup > 0
                                            : size.replicas > demand.sizes.back().replicas &&
                                                  size.speedup > demand.sizes.back().speedup;
    if (!rises || !std::isfinite(size.speedup)) break;
    demand.sizes.push_back(size);
  }
  return demand;
}

scheduling::JobDemand ReadJob(const v1::JobDemand& job, int kinds) {
  scheduling::JobDemand demand;
  demand.key = absl::StrCat(job.namespace_(), "/", job.name());
  demand.weight = job.weight() > 0 && std::isfinite(job.weight()) ? job.weight() : 1;
  demand.priority = job.priority();
  demand.pinned = job.pinned();
  if (job.has_remaining_seconds() && job.remaining_seconds() >= 0 && std::isfinite(job.remaining_seconds()))
    demand.remaining_seconds = job.remaining_seconds();
  if (job.has_deadline()) demand.deadline = messages::ToTime(job.deadline());
  demand.nodes.assign(job.node_ids().begin(), job.node_ids().end());
  std::set<int> seen;
  for (const v1::KindSpeedups& speedups : job.kinds()) {
    scheduling::KindDemand kind = ReadKind(speedups, kinds);
    if (!kind.sizes.empty() && seen.insert(kind.kind).second) demand.kinds.push_back(std::move(kind));
  }
  return demand;
}

// Which jobs can run on each kind.
std::vector<std::vector<bool>> Takers(const std::vector<scheduling::JobDemand>& jobs, int kinds) {
  std::vector<std::vector<bool>> takers(kinds, std::vector<bool>(jobs.size(), false));
  for (size_t j = 0; j < jobs.size(); ++j) {
    for (const scheduling::KindDemand& kind : jobs[j].kinds) takers[kind.kind][j] = true;
  }
  return takers;
}

// The kind of the job's nodes, all of which are of one. -1: it has none that are known.
int PresentKind(const scheduling::JobDemand& job, const KindQuestion& question,
                const std::map<std::string, int>& node_pools, const std::vector<int>& merged) {
  if (job.nodes.empty()) return -1;
  const auto pool = node_pools.find(job.nodes.front());
  if (pool != node_pools.end()) return merged[pool->second];
  const auto fixed = question.fixed_nodes.find(job.nodes.front());
  return fixed == question.fixed_nodes.end() ? -1 : merged[fixed->second];
}

}  // namespace

KindQuestion AskAbout(const std::vector<v1::Node>& pools, const std::vector<v1::Node>& others) {
  KindQuestion question;
  question.kinds = pools;
  question.pools = static_cast<int>(pools.size());
  std::map<std::string, int> sorts;
  for (const v1::Node& node : others) {
    const auto [sort, is_new] = sorts.try_emplace(SortOf(node), static_cast<int>(question.kinds.size()));
    if (is_new && question.kinds.size() < kMostKinds) {
      question.kinds.push_back(node);
    } else if (is_new) {
      // One of those that are asked about stands for it: it is no better than this one.
      const auto like = std::find_if(question.kinds.begin(), question.kinds.end(),
                                     [&](const v1::Node& kind) { return Covers(node, kind); });
      if (like == question.kinds.end()) {
        sorts.erase(sort);
        continue;
      }
      sort->second = static_cast<int>(like - question.kinds.begin());
    }
    question.fixed_nodes[node.node_id()] = sort->second;
  }
  return question;
}

KindAnswer Interpret(const KindQuestion& question, const std::map<std::string, int>& node_pools,
                     const std::vector<v1::JobDemand>& demands) {
  const int kinds = static_cast<int>(question.kinds.size());
  std::vector<scheduling::JobDemand> jobs;
  jobs.reserve(demands.size());
  for (const v1::JobDemand& demand : demands) jobs.push_back(ReadJob(demand, kinds));
  KindAnswer answer;
  const std::vector<std::vector<bool>> takers = Takers(jobs, kinds);
  std::vector<int> first;  // of each kind that is left
  for (int k = 0; k < kinds; ++k) {
    const auto same = std::find_if(first.begin(), first.end(), [&](int other) {
      return takers[k] == takers[other] && StandsInFor(question, k, other);
    });
    answer.merged.push_back(static_cast<int>(same - first.begin()));
    if (same == first.end()) first.push_back(k);
  }
  answer.kinds = static_cast<int>(first.size());
  for (scheduling::JobDemand& job : jobs) {
    nodepools::JobView view;
    view.present_kind = PresentKind(job, question, node_pools, answer.merged);
    std::vector<scheduling::KindDemand> left;
    for (scheduling::KindDemand& kind : job.kinds) {
      const int merged = answer.merged[kind.kind];
      if (first[merged] != kind.kind) continue;
      kind.kind = merged;
      if (merged == view.present_kind)
        view.present_speedup = scheduling::SpeedupAt(kind, static_cast<int>(job.nodes.size()));
      left.push_back(std::move(kind));
    }
    job.kinds = std::move(left);
    view.demand = std::move(job);
    answer.jobs.push_back(std::move(view));
  }
  return answer;
}

}  // namespace adaptdl::autoscaler
