#include "simulator/schedulers/policy_scheduler.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace adaptdl::simulator {
namespace {

constexpr int kType = 0;  // the only one

absl::Time ToTime(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

int MostReplicas(const Job& job, int total_gpus) {
  const Application& app = job.application();
  const int64_t by_batch = app.max_batch_size() / app.min_local[kType];
  const int by_profile = std::max(2 * job.profiled_replicas(), 1);
  const int by_traces = std::min(app.max_replicas, app.step_times[kType].max_replicas());
  return static_cast<int>(std::min<int64_t>({by_batch, by_profile, by_traces, total_gpus}));
}

}  // namespace

absl::StatusOr<std::vector<Placement>> PolicyScheduler::Schedule(const Situation& situation) {
  if (situation.cluster.gpu_types().size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("cluster: the policy ", std::string(policy_->name()),
                                                   " knows one GPU type only; give one group, as in 16x4"));
  }
  PrepareNodes(situation.cluster);
  scheduling::ClusterView view;
  view.now = ToTime(situation.now);
  view.nodes = nodes_;
  for (const Job* job : situation.jobs) {
    view.jobs.push_back(Describe(*job, situation));
  }
  const scheduling::Decision decision = policy_->Decide(view, seed_++);
  if (decision.jobs.size() != view.jobs.size()) {
    return absl::InternalError(
        absl::StrCat("the policy decided on ", decision.jobs.size(), " jobs; there are ", view.jobs.size()));
  }
  std::vector<Placement> placements;
  for (const scheduling::JobDecision& job : decision.jobs) {
    absl::StatusOr<Placement> placement = ToPlacement(job);
    if (!placement.ok()) {
      return placement.status();
    }
    placements.push_back(*std::move(placement));
  }
  return placements;
}

void PolicyScheduler::PrepareNodes(const Cluster& cluster) {
  if (!nodes_.empty()) {
    return;
  }
  for (int i = 0; i < static_cast<int>(cluster.nodes().size()); ++i) {
    const Cluster::Node& node = cluster.nodes()[i];
    scheduling::NodeInfo info;
    info.id = absl::StrFormat("node-%06d", i);
    info.capacity[scheduling::kGpu] = node.gpus;
    info.gpu_type = cluster.gpu_types()[node.type];
    node_index_[info.id] = i;
    nodes_.push_back(std::move(info));
  }
}

scheduling::JobInfo PolicyScheduler::Describe(const Job& job, const Situation& situation) {
  const int total_gpus = situation.cluster.total_gpus();
  const int jobs = static_cast<int>(situation.jobs.size());
  scheduling::JobInfo info;
  info.key = job.spec().name;
  info.request[scheduling::kGpu] = 1;
  info.max_replicas = MostReplicas(job, total_gpus);
  // Policies may compare with a fair share, also where the job may not have so much yet.
  info.speedup = Speedup(job, std::max(info.max_replicas, (total_gpus + jobs - 1) / jobs));
  info.created = ToTime(job.spec().submitted);
  info.attained_service = job.attained_service();
  info.restarts = job.restarts();
  for (const NodeShare& share : job.placement()) {
    info.allocation.insert(info.allocation.end(), share.gpus, nodes_[share.node].id);
  }
  return info;
}

std::shared_ptr<const goodput::SpeedupTable> PolicyScheduler::Speedup(const Job& job, int max_replicas) {
  CachedSpeedup& cached = speedups_[&job];
  const goodput::GradParams& gradient = job.gradient();
  if (cached.table != nullptr && cached.profile_version == job.profile_version() &&
      cached.max_replicas >= max_replicas && cached.gradient.sqr == gradient.sqr &&
      cached.gradient.var == gradient.var) {
    return cached.table;
  }
  cached = {job.profile_version(), max_replicas, gradient, nullptr};
  const std::optional<goodput::PerfParams>& perf = job.knowledge(kType).perf;
  if (perf) {
    const BatchBounds bounds = job.Bounds(kType);
    const goodput::GoodputFunction goodput(*perf, gradient, bounds.init_batch_size);
    cached.table = std::make_shared<const goodput::SpeedupTable>(goodput::SpeedupTable::Build(
        goodput, {bounds.max_batch_size, bounds.min_local, bounds.max_local, /*accumulation=*/true},
        max_replicas));
  } else {
    cached.table = std::make_shared<const goodput::SpeedupTable>(goodput::SpeedupTable::Linear(max_replicas));
  }
  return cached.table;
}

absl::StatusOr<Placement> PolicyScheduler::ToPlacement(const scheduling::JobDecision& decision) const {
  // In order of node: ranks that change places are no change.
  std::map<int, int> gpus;
  for (const std::string& node : decision.allocation) {
    const auto found = node_index_.find(node);
    if (found == node_index_.end()) {
      return absl::InternalError(
          absl::StrCat("the policy placed ", decision.key, " on ", node, ", which is no node"));
    }
    ++gpus[found->second];
  }
  Placement placement;
  for (const auto& [node, count] : gpus) {
    placement.push_back({node, count});
  }
  return placement;
}

}  // namespace adaptdl::simulator
