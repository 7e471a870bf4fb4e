#include "libs/scheduling/cluster_state.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libs/scheduling/policy.h"
#include "libs/scheduling/resources.h"

namespace adaptdl::scheduling {
namespace {

// The part of what a job holds that makes up its minimum, from the nodes that hold most of it.
Placement CoreOf(const Placement& present, int min_replicas) {
  Placement by_size = present;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Share& a, const Share& b) { return a.replicas > b.replicas; });
  Placement core;
  int left = min_replicas;
  for (const Share& share : by_size) {
    const int taken = std::min(left, share.replicas);
    if (taken > 0) core.push_back({share.node, taken});
    left -= taken;
  }
  std::sort(core.begin(), core.end(), [](const Share& a, const Share& b) { return a.node < b.node; });
  return core;
}

}  // namespace

int CountReplicas(const Placement& placement) {
  int count = 0;
  for (const Share& share : placement) count += share.replicas;
  return count;
}

ClusterState::ClusterState(const ClusterView& view, const std::vector<Placement>& present)
    : view_(view),
      placed_(view.jobs.size()),
      present_(present),
      core_(view.jobs.size()),
      replicas_(view.jobs.size(), 0) {
  std::set<std::string> names;
  for (const JobInfo& job : view.jobs) {
    for (const auto& [name, amount] : job.request) {
      if (amount > 0) names.insert(name);
    }
  }
  if (names.empty()) names.insert(kCpu);
  names_.assign(names.begin(), names.end());
  std::vector<int64_t> total(names_.size(), 0);
  for (const NodeInfo& node : view.nodes) {
    const int index = AddNode(node.capacity);
    usable_[index] = !node.draining;
    preemptible_[index] = node.preemptible;
    for (size_t r = 0; r < total.size(); ++r) total[r] += capacity_[Cell(index) + r];
  }
  for (size_t j = 0; j < view.jobs.size(); ++j) {
    needs_.emplace_back();
    main_resource_.push_back(0);
    dominant_share_.push_back(1e-9);
    for (size_t r = 0; r < names_.size(); ++r) {
      const auto found = view.jobs[j].request.find(names_[r]);
      if (found == view.jobs[j].request.end() || found->second <= 0) continue;
      needs_[j].push_back({static_cast<int>(r), found->second});
      const double share =
          static_cast<double>(found->second) / static_cast<double>(std::max<int64_t>(total[r], 1));
      if (share <= dominant_share_[j]) continue;
      dominant_share_[j] = share;
      main_resource_[j] = static_cast<int>(r);
    }
    core_[j] = CoreOf(present_[j], view.jobs[j].min_replicas);
    for (const Share& held : present_[j])
      Occupy(Room::kUnclaimed, static_cast<int>(j), held.node, held.replicas);
    for (const Share& held : core_[j])
      Occupy(Room::kSpareCores, static_cast<int>(j), held.node, held.replicas);
  }
}

int ClusterState::AddNode(const Resources& capacity) {
  for (const std::string& name : names_) {
    const auto found = capacity.find(name);
    const int64_t amount = found == capacity.end() ? 0 : std::max<int64_t>(found->second, 0);
    capacity_.push_back(amount);
    for (auto& free : free_) free.push_back(amount);
  }
  usable_.push_back(1);
  preemptible_.push_back(0);
  replicas_on_node_.push_back(0);
  return static_cast<int>(usable_.size()) - 1;
}

int ClusterState::TimesIn(int job, const int64_t* amounts) const {
  int64_t times = view_.jobs[job].max_replicas;
  for (const Need& need : needs_[job]) {
    times = std::min(times, std::max<int64_t>(amounts[need.resource], 0) / need.amount);
  }
  return static_cast<int>(times);
}

int ClusterState::RoomFor(int job, int node, Room room) const {
  if (!usable_[node]) return 0;
  return TimesIn(job, &free_[static_cast<int>(room)][Cell(node)]);
}

bool ClusterState::HasRoom(int job, int node, int replicas, Room room) const {
  if (!usable_[node]) return false;
  const int64_t* free = &free_[static_cast<int>(room)][Cell(node)];
  for (const Need& need : needs_[job]) {
    if (free[need.resource] < need.amount * replicas) return false;
  }
  return replicas <= view_.jobs[job].max_replicas;
}

int ClusterState::Capacity(int job, int node) const { return TimesIn(job, &capacity_[Cell(node)]); }

bool ClusterState::Fits(int job, const Placement& placement) const {
  for (const Share& share : placement) {
    if (!HasRoom(job, share.node, share.replicas, Room::kAny)) return false;
  }
  return true;
}

void ClusterState::Occupy(Room room, int job, int node, int64_t replicas) {
  int64_t* free = &free_[static_cast<int>(room)][Cell(node)];
  for (const Need& need : needs_[job]) free[need.resource] -= replicas * need.amount;
}

int ClusterState::On(const Placement& placement, int node) {
  for (const Share& share : placement) {
    if (share.node == node) return share.replicas;
  }
  return 0;
}

int ClusterState::replicas_on(int job, int node) const { return On(placed_[job], node); }
int ClusterState::present_on(int job, int node) const { return On(present_[job], node); }

void ClusterState::Add(int job, int node, int replicas) {
  Placement& placed = placed_[job];
  auto share = std::lower_bound(placed.begin(), placed.end(), node,
                                [](const Share& s, int wanted) { return s.node < wanted; });
  if (share == placed.end() || share->node != node) share = placed.insert(share, {node, 0});
  const int before = share->replicas;
  const int after = before + replicas;
  share->replicas = after;
  if (after == 0) placed.erase(share);
  replicas_[job] += replicas;
  replicas_on_node_[node] += replicas;
  // A claim counts only as far as it exceeds what is placed.
  const int claimed = On(present_[job], node);
  const int core = On(core_[job], node);
  Occupy(Room::kAny, job, node, replicas);
  Occupy(Room::kUnclaimed, job, node, std::max(claimed, after) - std::max(claimed, before));
  Occupy(Room::kSpareCores, job, node, std::max(core, after) - std::max(core, before));
}

void ClusterState::Remove(int job, int node, int replicas) { Add(job, node, -replicas); }

void ClusterState::Place(int job, const Placement& placement) {
  for (const Share& share : placement) Add(job, share.node, share.replicas);
}

Placement ClusterState::Clear(int job) {
  const Placement placement = placed_[job];
  for (const Share& share : placement) Remove(job, share.node, share.replicas);
  return placement;
}

void ClusterState::DropClaims(int job) {
  for (const Share& held : present_[job]) {
    const int placed = replicas_on(job, held.node);
    Occupy(Room::kUnclaimed, job, held.node, std::min(placed - held.replicas, 0));
  }
  for (const Share& held : core_[job]) {
    const int placed = replicas_on(job, held.node);
    Occupy(Room::kSpareCores, job, held.node, std::min(placed - held.replicas, 0));
  }
  present_[job].clear();
  core_[job].clear();
}

double ClusterState::Speedup(int job) const { return Speedup(job, placed_[job]); }

double ClusterState::Speedup(int job, const Placement& placement) const {
  return Speedup(job, static_cast<int>(placement.size()), CountReplicas(placement));
}

}  // namespace adaptdl::scheduling
