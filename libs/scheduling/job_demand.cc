#include "libs/scheduling/job_demand.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libs/scheduling/sizes.h"

namespace adaptdl::scheduling {
namespace {

constexpr int64_t kMostOnOneNode = 1 << 14;

Resources WithoutPlaces(const Resources& request) {
  Resources amounts;
  for (const auto& [name, amount] : request) {
    if (!IsPlace(name)) amounts[name] = amount;
  }
  return amounts;
}

double SlopeOf(const DemandSize& from, const DemandSize& to) {
  return (to.speedup - from.speedup) / (to.replicas - from.replicas);
}

// Drops what is no faster than a smaller size, or lies below the line between its neighbours.
void KeepUpperHull(std::vector<DemandSize>* sizes) {
  std::vector<DemandSize> hull;
  for (const DemandSize& size : *sizes) {
    if (!hull.empty() && size.speedup <= hull.back().speedup) continue;
    while (hull.size() >= 2 && SlopeOf(hull[hull.size() - 2], hull.back()) <= SlopeOf(hull.back(), size))
      hull.pop_back();
    hull.push_back(size);
  }
  *sizes = std::move(hull);
}

KindDemand DemandOn(const JobInfo& job, const NodeKind& kind, int index, int most_nodes) {
  KindDemand demand;
  demand.kind = index;
  demand.per_node = static_cast<int>(TimesThatFit(WithoutPlaces(job.request), kind.capacity, kMostOnOneNode));
  if (demand.per_node == 0) return demand;
  const goodput::SpeedupTable& table = SpeedupOn(job, kind.gpu_type);
  std::vector<int> allowed;
  AllowedSizes(job, demand.per_node, most_nodes, &allowed);
  for (const int replicas : allowed) {
    const int nodes = (replicas + demand.per_node - 1) / demand.per_node;
    const double speedup = table.At(nodes, replicas);
    if (speedup > 0) demand.sizes.push_back({replicas, speedup});
  }
  KeepUpperHull(&demand.sizes);
  return demand;
}

// GPUs of a replica; 1 for one that has none.
int64_t GpusPerReplica(const JobInfo& job) {
  const auto found = job.request.find(kGpu);
  return found == job.request.end() ? 1 : std::max<int64_t>(found->second, 1);
}

// Jobs of the namespace in the order in which they come first: by priority, then by submission.
std::vector<size_t> MembersOf(const std::string& name_space, const ClusterView& view) {
  std::vector<size_t> members;
  for (size_t j = 0; j < view.jobs.size(); ++j) {
    if (view.jobs[j].name_space == name_space) members.push_back(j);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](size_t a, size_t b) { return view.jobs[a].priority > view.jobs[b].priority; });
  return members;
}

void HonourQuota(const std::string& name_space, int64_t quota, const ClusterView& view,
                 std::vector<JobDemand>* demands) {
  const std::vector<size_t> members = MembersOf(name_space, view);
  for (const size_t j : members) {
    const int64_t least = GpusPerReplica(view.jobs[j]) * view.jobs[j].min_replicas;
    if ((*demands)[j].kinds.empty()) continue;
    if (least > quota) {
      (*demands)[j].kinds.clear();
    } else {
      quota -= least;
    }
  }
  for (const size_t j : members) {
    const int64_t most = view.jobs[j].min_replicas + quota / GpusPerReplica(view.jobs[j]);
    for (KindDemand& kind : (*demands)[j].kinds) {
      while (kind.sizes.size() > 1 && kind.sizes.back().replicas > most) kind.sizes.pop_back();
    }
  }
}

double WeightOf(const JobInfo& job, const ClusterView& view) {
  const auto found = view.namespaces.find(job.name_space);
  return job.weight * (found == view.namespaces.end() ? 1 : found->second.weight);
}

}  // namespace

double SpeedupAt(const KindDemand& demand, int replicas) {
  const std::vector<DemandSize>& sizes = demand.sizes;
  if (replicas <= sizes.front().replicas) return sizes.front().speedup * replicas / sizes.front().replicas;
  for (size_t i = 1; i < sizes.size(); ++i) {
    if (replicas > sizes[i].replicas) continue;
    const double part =
        static_cast<double>(replicas - sizes[i - 1].replicas) / (sizes[i].replicas - sizes[i - 1].replicas);
    return sizes[i - 1].speedup + part * (sizes[i].speedup - sizes[i - 1].speedup);
  }
  return sizes.back().speedup;
}

std::vector<JobDemand> MakeJobDemands(const ClusterView& view, const Decision& decision,
                                      const std::vector<NodeKind>& kinds, const DemandOptions& options) {
  std::vector<JobDemand> demands;
  demands.reserve(view.jobs.size());
  for (size_t j = 0; j < view.jobs.size(); ++j) {
    const JobInfo& job = view.jobs[j];
    JobDemand demand;
    demand.key = job.key;
    demand.weight = WeightOf(job, view);
    demand.priority = job.priority;
    demand.remaining_seconds = job.remaining_seconds;
    demand.deadline = job.deadline;
    if (j < decision.jobs.size()) demand.nodes = decision.jobs[j].allocation;
    demand.pinned = !job.preemptible && !demand.nodes.empty();
    for (size_t k = 0; k < kinds.size(); ++k) {
      if (options.admits != nullptr && !options.admits(static_cast<int>(j), static_cast<int>(k))) continue;
      KindDemand on = DemandOn(job, kinds[k], static_cast<int>(k), options.most_nodes);
      if (!on.sizes.empty()) demand.kinds.push_back(std::move(on));
    }
    demands.push_back(std::move(demand));
  }
  for (const auto& [name, info] : view.namespaces) {
    if (info.gpu_quota > 0) HonourQuota(name, info.gpu_quota, view, &demands);
  }
  return demands;
}

}  // namespace adaptdl::scheduling
