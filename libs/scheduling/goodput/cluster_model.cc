#include "libs/scheduling/goodput/cluster_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "libs/scheduling/sizes.h"

namespace adaptdl::scheduling {
namespace {

// Units of a node, at most. Parts that have no smaller common divisor are rounded up.
constexpr int kMostUnits = 5040;
constexpr int kMostPerNode = 1 << 14;

std::vector<std::string> ResourceNames(const ClusterView& view) {
  std::set<std::string> names = {kGpu};
  for (const JobInfo& job : view.jobs) {
    for (const auto& [name, amount] : job.request) {
      if (amount > 0) names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

std::vector<int64_t> ToVector(const Resources& resources, const std::vector<std::string>& names) {
  std::vector<int64_t> amounts(names.size(), 0);
  for (size_t r = 0; r < names.size(); ++r) {
    const auto found = resources.find(names[r]);
    if (found != resources.end()) amounts[r] = std::max<int64_t>(found->second, 0);
  }
  return amounts;
}

int TimesIn(const std::vector<int64_t>& need, const int64_t* offer) {
  int64_t times = kMostPerNode;
  for (size_t r = 0; r < need.size(); ++r) {
    if (need[r] > 0) times = std::min(times, std::max<int64_t>(offer[r], 0) / need[r]);
  }
  return static_cast<int>(times);
}

QueueRole QueueRoleOf(const JobInfo& job) {
  if (job.done_seconds.has_value() || job.remaining_seconds.has_value()) return QueueRole::kCompetes;
  // A plain program never measures itself, and loses all that it did when it is stopped.
  if (job.elastic && job.run_seconds >= MeasuringSeconds(job)) return QueueRole::kCompetes;
  return job.allocation.empty() ? QueueRole::kNewcomer : QueueRole::kKeepsPlace;
}

}  // namespace

double MeasuringSeconds(const JobInfo& job) {
  constexpr double kFirst = 300;
  constexpr int kMostDoublings = 10;
  // Of all its runs together.
  return kFirst * (std::exp2(std::clamp(job.restarts, 0, kMostDoublings) + 1) - 1);
}

int GpusOf(const JobInfo& job, int replicas) {
  const auto found = job.request.find(kGpu);
  const int64_t each = found == job.request.end() ? 1 : std::max<int64_t>(found->second, 1);
  return static_cast<int>(each) * replicas;
}

ClusterModel::ClusterModel(const ClusterView& view) : view_(view), names_(ResourceNames(view)) {
  gpu_ = std::find(names_.begin(), names_.end(), kGpu) - names_.begin();
  MakePools();
  jobs_.resize(view.jobs.size());
  tables_.resize(view.jobs.size() * pools_.size());
  absl::flat_hash_map<absl::string_view, int> node_index;
  node_index.reserve(view.nodes.size());
  for (size_t n = 0; n < view.nodes.size(); ++n) node_index.emplace(view.nodes[n].id, static_cast<int>(n));
  for (size_t j = 0; j < jobs_.size(); ++j) {
    Placement& present = jobs_[j].present;
    for (const std::string& id : view.jobs[j].allocation) {
      if (!present.empty() && view.nodes[present.back().node].id == id) {
        ++present.back().replicas;
        continue;
      }
      const auto found = node_index.find(id);
      if (found == node_index.end()) continue;
      // Ranks of a node stand together as a rule.
      auto share = std::find_if(present.rbegin(), present.rend(),
                                [&](const Share& held) { return held.node == found->second; });
      if (share == present.rend()) {
        present.push_back({found->second, 1});
      } else {
        ++share->replicas;
      }
    }
    ReadJob(static_cast<int>(j));
  }
  MeasureUnits();
  for (const Pool& pool : pools_) exact_units_ = exact_units_ && pool.kinds.size() == 1;
  for (const JobModel& job : jobs_) exact_units_ = exact_units_ && !job.pinned && job.need == jobs_[0].need;
}

void ClusterModel::MakePools() {
  std::map<std::pair<absl::string_view, bool>, int> by_type;
  std::vector<int64_t> offer;
  for (size_t n = 0; n < view_.nodes.size(); ++n) {
    const NodeInfo& node = view_.nodes[n];
    // Nodes that are alike stand together as a rule.
    if (n == 0 || node.capacity != view_.nodes[n - 1].capacity) offer = ToVector(node.capacity, names_);
    free_.insert(free_.end(), offer.begin(), offer.end());
    node_pool_.push_back(-1);
    if (node.draining) continue;
    const auto [found, is_new] = by_type.emplace(
        std::make_pair(absl::string_view(node.gpu_type), offer[gpu_] > 0), static_cast<int>(pools_.size()));
    if (is_new) {
      pools_.emplace_back();
      pools_.back().gpu_type = node.gpu_type;
      pools_.back().reference.assign(names_.size(), 0);
    }
    Pool& pool = pools_[found->second];
    node_pool_.back() = found->second;
    pool.nodes.push_back(static_cast<int>(n));
    if (std::find(pool.kinds.begin(), pool.kinds.end(), offer) == pool.kinds.end())
      pool.kinds.push_back(offer);
    for (size_t r = 0; r < names_.size(); ++r) pool.reference[r] = std::max(pool.reference[r], offer[r]);
  }
}

void ClusterModel::ReadJob(int index) {
  const JobInfo& info = view_.jobs[index];
  JobModel& job = jobs_[index];
  job.need = ToVector(info.request, names_);
  job.queue_role = QueueRoleOf(info);
  std::sort(job.present.begin(), job.present.end(),
            [](const Share& a, const Share& b) { return a.node < b.node; });
  const int held = static_cast<int>(info.allocation.size());
  job.pinned = !info.preemptible && held > 0 && CountReplicas(job.present) == held;
  if (job.pinned) {
    for (const Share& share : job.present) {
      for (size_t r = 0; r < names_.size(); ++r) {
        free_[share.node * names_.size() + r] -= job.need[r] * share.replicas;
      }
    }
  } else {
    job.present.erase(std::remove_if(job.present.begin(), job.present.end(),
                                     [&](const Share& share) { return node_pool_[share.node] < 0; }),
                      job.present.end());
  }
  if (!job.present.empty()) job.present_pool = node_pool_[job.present.front().node];
  const bool one_pool = std::all_of(job.present.begin(), job.present.end(), [&](const Share& share) {
    return node_pool_[share.node] == job.present_pool;
  });
  job.can_stay = held > 0 && one_pool && CountReplicas(job.present) == held && Allows(index, held);
  for (size_t p = 0; p < pools_.size(); ++p) {
    int per_node = 0;
    for (const auto& kind : pools_[p].kinds) per_node = std::max(per_node, TimesIn(job.need, kind.data()));
    job.per_node.push_back(per_node);
    tables_[index * pools_.size() + p] = &SpeedupOn(info, pools_[p].gpu_type);
  }
}

void ClusterModel::CutReference(int pool) {
  std::vector<int64_t>& reference = pools_[pool].reference;
  if (reference[gpu_] > 0) return;
  std::vector<int64_t> usable(names_.size(), 0);
  for (const JobModel& job : jobs_) {
    for (size_t r = 0; r < names_.size(); ++r)
      usable[r] = std::max(usable[r], job.need[r] * job.per_node[pool]);
  }
  for (size_t r = 0; r < names_.size(); ++r) reference[r] = std::min(reference[r], usable[r]);
}

void ClusterModel::MeasureUnits() {
  for (size_t p = 0; p < pools_.size(); ++p) {
    Pool& pool = pools_[p];
    CutReference(static_cast<int>(p));
    int64_t units = 1;
    int last = 0;
    for (const JobModel& job : jobs_) {
      const int per_node = job.per_node[p];
      if (per_node == 0 || per_node == last) continue;
      last = per_node;
      units = std::min<int64_t>(std::lcm(units, per_node), kMostUnits);
    }
    pool.units_per_node = static_cast<int>(units);
    int64_t capacity = 0;
    for (const int node : pool.nodes) capacity += UnitsIn(static_cast<int>(p), free(node));
    pool.capacity = static_cast<int>(std::min<int64_t>(capacity, 1 << 28));
  }
}

int ClusterModel::UnitsIn(int pool, const int64_t* left) const {
  const std::vector<int64_t>& reference = pools_[pool].reference;
  const auto share = [&](size_t r) {
    return static_cast<double>(left[r]) / static_cast<double>(reference[r]);
  };
  double part = 1;
  if (reference[gpu_] > 0) {
    part = std::min(part, share(gpu_));
  } else {
    for (size_t r = 0; r < names_.size(); ++r) {
      if (reference[r] > 0 && !IsPlace(names_[r])) part = std::min(part, share(r));
    }
  }
  return static_cast<int>(std::max(part, 0.0) * pools_[pool].units_per_node + 1e-9);
}

int ClusterModel::UnitsOf(int job, int pool, int replicas) const {
  const int per_node = jobs_[job].per_node[pool];
  if (per_node == 0) return pools_[pool].capacity + 1;
  const int64_t units = pools_[pool].units_per_node;
  return static_cast<int>((units * replicas + per_node - 1) / per_node);
}

double ClusterModel::FairShare(int job) const {
  double replicas = 0;
  for (size_t p = 0; p < pools_.size(); ++p) {
    replicas += static_cast<double>(jobs_[job].per_node[p]) * static_cast<double>(pools_[p].nodes.size());
  }
  return replicas / std::max(job_count(), 1);
}

bool ClusterModel::Allows(int job, int replicas) const { return AllowsSize(view_.jobs[job], replicas); }

}  // namespace adaptdl::scheduling
