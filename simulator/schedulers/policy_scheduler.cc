#include "simulator/schedulers/policy_scheduler.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace adaptdl::simulator {
namespace {

using goodput::SpeedupTable;

absl::Time ToTime(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

int MostReplicasOn(const SimulatedJob& job, int type, const Cluster& cluster) {
  const Application& app = job.application();
  const int64_t by_batch = app.max_batch_size() / app.min_local[type];
  const int by_traces = std::min(app.max_replicas, app.step_times[type].max_replicas());
  const int by_nodes = cluster.TotalReplicas(type, job.spec().demand.request);
  return static_cast<int>(std::min<int64_t>({by_batch, by_traces, by_nodes}));
}

int MostReplicas(const SimulatedJob& job, const Cluster& cluster) {
  int most = 1;
  for (int type = 0; type < static_cast<int>(cluster.gpu_types().size()); ++type) {
    most = std::max(most, MostReplicasOn(job, type, cluster));
  }
  return most;
}

// What the job may have now: twice what it has measured, or the next size that it may have, within the limits
// of its own; the rules of the live allocator. `most`: the size of its tables.
int LargestSizeNow(const SimulatedJob& job, int min_replicas, int most) {
  const ReplicaDemand& demand = job.spec().demand;
  const std::vector<int>& allowed = demand.allowed_replicas;
  int64_t limit = std::max(2 * job.profiled_replicas(), 1);
  if (job.profiled_replicas() == 0) limit = min_replicas;
  const auto next = std::upper_bound(allowed.begin(), allowed.end(), job.profiled_replicas());
  if (job.profiled_replicas() > 0 && next != allowed.end()) limit = std::max<int64_t>(limit, *next);
  limit = std::min<int64_t>(limit, most);
  if (demand.max_replicas > 0) limit = std::min<int64_t>(limit, demand.max_replicas);
  limit = std::max<int64_t>(limit, min_replicas);
  if (allowed.empty()) return static_cast<int>(limit);
  const auto above = std::upper_bound(allowed.begin(), allowed.end(), limit);
  return above == allowed.begin() ? allowed.front() : *std::prev(above);
}

// The fewest replicas that the job may have.
int LeastReplicas(const ReplicaDemand& demand) {
  const std::vector<int>& allowed = demand.allowed_replicas;
  const auto first = std::lower_bound(allowed.begin(), allowed.end(), demand.min_replicas);
  return first == allowed.end() ? demand.min_replicas : *first;
}

// GPUs of one replica; 1 for one that has none, as the live allocator counts.
double GpusPerReplica(const ReplicaDemand& demand) {
  const auto gpus = demand.request.find(scheduling::kGpu);
  return gpus == demand.request.end() ? 1 : static_cast<double>(gpus->second);
}

// Scale-invariant iterations in samples.
double ToSamples(const SimulatedJob& job, double progress) {
  return progress * static_cast<double>(job.application().init_batch_size());
}

// What a job's model of one GPU type says, in samples per second for each unit of the table.
struct Scaling {
  SpeedupTable table;
  double unit = 0;
};

Scaling ModelledScaling(const SimulatedJob& job, int type, int max_replicas) {
  const BatchBounds bounds = job.Bounds(type);
  const goodput::GoodputFunction goodput(*job.knowledge(type).perf, job.gradient(), bounds.init_batch_size);
  const goodput::BatchLimits limits{bounds.max_batch_size, bounds.min_local, bounds.max_local,
                                    bounds.accumulation};
  SpeedupTable table = SpeedupTable::Build(goodput, limits, max_replicas);
  const double unit = table.base_goodput();
  return {std::move(table), unit};
}

// `table` times a factor; nothing above `most` replicas.
SpeedupTable Scaled(const SpeedupTable& table, double factor, int most) {
  std::vector<double> one_node;
  std::vector<double> several_nodes;
  for (int replicas = 0; replicas <= table.max_replicas(); ++replicas) {
    const double kept = replicas <= most ? factor : 0;
    one_node.push_back(kept * table.At(1, replicas));
    several_nodes.push_back(kept * table.At(2, replicas));
  }
  return SpeedupTable::FromRows(std::move(one_node), std::move(several_nodes));
}

// The same for a type that is known by another only: as many GPUs there may need another number of nodes.
SpeedupTable Projected(const SpeedupTable& table, int gpus_per_node, double factor, int most) {
  std::vector<double> row;
  for (int replicas = 0; replicas <= table.max_replicas(); ++replicas) {
    row.push_back(replicas <= most ? factor * table.At(replicas > gpus_per_node ? 2 : 1, replicas) : 0);
  }
  return SpeedupTable::FromRows(row, row);
}

std::vector<BatchBounds> AllBounds(const SimulatedJob& job, int types) {
  std::vector<BatchBounds> bounds;
  bounds.reserve(types);
  for (int type = 0; type < types; ++type) {
    bounds.push_back(job.Bounds(type));
  }
  return bounds;
}

// The type that the job has measured most; nullopt: none.
std::optional<int> BestKnownType(const SimulatedJob& job, int types) {
  std::optional<int> best;
  for (int type = 0; type < types; ++type) {
    if (!job.knowledge(type).perf) {
      continue;
    }
    if (!best || job.knowledge(type).profile.size() > job.knowledge(*best).profile.size()) {
      best = type;
    }
  }
  return best;
}

}  // namespace

absl::StatusOr<std::vector<Placement>> PolicyScheduler::Schedule(const Situation& situation) {
  if (situation.cluster.gpu_types().size() > 1 && !policy_->knows_gpu_types()) {
    return absl::InvalidArgumentError(absl::StrCat("cluster: the policy ", std::string(policy_->name()),
                                                   " knows one GPU type only; give one group, as in 16x4"));
  }
  PrepareNodes(situation.cluster);
  ForgetOthers(situation);
  KeepHistory(situation);
  view_.now = ToTime(situation.now);
  view_.capacity_curve = false;
  DescribeNodes(situation);
  view_.jobs.clear();
  for (const SimulatedJob* job : situation.jobs) {
    view_.jobs.push_back(Describe(*job, situation));
  }
  decision_ = policy_->Decide(view_, seed_++);
  if (decision_.jobs.size() != view_.jobs.size()) {
    return absl::InternalError(absl::StrCat("the policy decided on ", decision_.jobs.size(),
                                            " jobs; there are ", view_.jobs.size()));
  }
  std::vector<Placement> placements;
  for (const scheduling::JobDecision& job : decision_.jobs) {
    absl::StatusOr<Placement> placement = ToPlacement(job);
    if (!placement.ok()) {
      return placement.status();
    }
    placements.push_back(*std::move(placement));
  }
  return placements;
}

NodeDemand PolicyScheduler::Demand() const {
  const std::vector<std::string>& idle = decision_.capacity.idle_nodes;
  return {scheduling::MakeJobDemands(view_, decision_, kinds_, {}), {idle.begin(), idle.end()}};
}

void PolicyScheduler::PrepareNodes(const Cluster& cluster) {
  if (!nodes_.empty()) {
    return;
  }
  for (int i = 0; i < static_cast<int>(cluster.nodes().size()); ++i) {
    const Cluster::Node& node = cluster.nodes()[i];
    scheduling::NodeInfo info;
    info.id = NodeId(i);
    info.capacity = node.capacity;
    info.gpu_type = cluster.gpu_types()[node.type];
    node_index_[info.id] = i;
    nodes_.push_back(std::move(info));
    if (node.type == static_cast<int>(kinds_.size()))
      kinds_.push_back({node.capacity, nodes_.back().gpu_type});
  }
}

void PolicyScheduler::DescribeNodes(const Situation& situation) {
  // As a rule they are as they were.
  const bool same =
      std::equal(situation.status.begin(), situation.status.end(), status_.begin(), status_.end());
  if (same && !view_.nodes.empty()) return;
  status_.assign(situation.status.begin(), situation.status.end());
  view_.nodes.clear();
  if (status_.empty()) view_.nodes = nodes_;
  for (size_t i = 0; i < status_.size(); ++i) {
    const NodeStatus& status = status_[i];
    if (!status.up) continue;
    view_.nodes.push_back(nodes_[i]);
    view_.nodes.back().draining = status.draining;
    view_.nodes.back().preemptible = status.spot;
  }
}

void PolicyScheduler::ForgetOthers(const Situation& situation) {
  if (speedups_.size() <= 2 * situation.jobs.size()) return;
  std::unordered_map<const SimulatedJob*, CachedSpeedups> kept;
  for (const SimulatedJob* job : situation.jobs) {
    if (auto known = speedups_.extract(job)) kept.insert(std::move(known));
  }
  speedups_ = std::move(kept);
}

void PolicyScheduler::KeepHistory(const Situation& situation) {
  for (const SimulatedJob* job : present_) {
    if (job->done() && job->adaptive())
      past_[job->application().name].Add(ToSamples(*job, job->total_progress()));
  }
  present_.assign(situation.jobs.begin(), situation.jobs.end());
}

scheduling::JobInfo PolicyScheduler::Describe(const SimulatedJob& job, const Situation& situation) {
  const Cluster& cluster = situation.cluster;
  scheduling::JobInfo info;
  info.key = job.spec().name;
  const ReplicaDemand& demand = job.spec().demand;
  info.request = demand.request;
  info.name_space = demand.name_space;
  info.priority = demand.priority;
  info.preemptible = demand.preemptible;
  info.allowed_replicas = demand.allowed_replicas;
  info.min_replicas = LeastReplicas(demand);
  // Policies may ask what the job could do with more than it may have yet.
  info.max_replicas = LargestSizeNow(job, info.min_replicas, MostReplicas(job, cluster));
  const CachedSpeedups& known = Speedups(job, cluster);
  const std::vector<Table>& tables = known.tables;
  if (known.unit > 0) {
    info.done_seconds = ToSamples(job, job.progress()) / known.unit;
    const double left = ToSamples(job, job.total_progress() - job.progress()) / known.unit;
    if (options_.remaining_work == RemainingWork::kKnown) info.remaining_seconds = left;
    if (options_.remaining_work == RemainingWork::kHistory) {
      const std::optional<double> samples =
          past_[job.application().name].Length(ToSamples(job, job.progress()));
      if (samples.has_value()) info.expected_seconds = *samples / known.unit;
    }
  }
  info.speedup = tables[job.gpu_type() < static_cast<int>(tables.size()) ? job.gpu_type() : 0];
  for (size_t type = 0; type < tables.size() && tables.size() > 1; ++type) {
    info.speedup_by_type[cluster.gpu_types()[type]] = tables[type];
  }
  info.created = ToTime(job.spec().submitted);
  info.attained_service = job.attained_service() * GpusPerReplica(demand);
  info.restarts = job.restarts();
  // A live job is known to be elastic once it reports its progress.
  info.elastic = !job.spec().plain && job.first_started().has_value();
  info.run_seconds = job.run_seconds();
  info.unsaved_seconds = job.unsaved_seconds();
  info.restarting = job.restarting();
  info.rescale_seconds = situation.restart.ExpectedChange(job.application());
  for (const NodeShare& share : job.placement()) {
    info.allocation.insert(info.allocation.end(), share.gpus, nodes_[share.node].id);
  }
  return info;
}

const PolicyScheduler::CachedSpeedups& PolicyScheduler::Speedups(const SimulatedJob& job,
                                                                 const Cluster& cluster) {
  CachedSpeedups& cached = speedups_[&job];
  const goodput::GradParams& gradient = job.gradient();
  const int types = static_cast<int>(cluster.gpu_types().size());
  std::vector<BatchBounds> bounds = AllBounds(job, types);
  if (!cached.tables.empty() && cached.profile_version == job.profile_version() &&
      cached.gradient.sqr == gradient.sqr && cached.gradient.var == gradient.var && cached.bounds == bounds) {
    return cached;
  }
  const int max_replicas = std::max(MostReplicas(job, cluster), LeastReplicas(job.spec().demand));
  cached = {job.profile_version(), gradient, std::move(bounds), {}, 0};
  const auto add = [&cached](SpeedupTable table) {
    cached.tables.push_back(std::make_shared<const SpeedupTable>(std::move(table)));
  };
  const std::optional<int> known = BestKnownType(job, types);
  if (!known) {
    add(SpeedupTable::Linear(max_replicas));
    return cached;
  }
  const Scaling best = ModelledScaling(job, *known, max_replicas);
  cached.unit = best.unit;
  const double throughput = job.application().step_times[*known].single_gpu_throughput();
  for (int type = 0; type < types; ++type) {
    const int most = MostReplicasOn(job, type, cluster);
    if (type == *known && most >= max_replicas) {
      add(best.table);
    } else if (type == *known) {
      add(Scaled(best.table, 1, most));
    } else if (job.knowledge(type).perf) {
      const Scaling scaling = ModelledScaling(job, type, max_replicas);
      add(Scaled(scaling.table, scaling.unit / best.unit, most));
    } else {
      const double ratio = job.application().step_times[type].single_gpu_throughput() / throughput;
      add(Projected(best.table, cluster.LargestNode(*known, job.spec().demand.request), ratio, most));
    }
  }
  return cached;
}

absl::StatusOr<Placement> PolicyScheduler::ToPlacement(const scheduling::JobDecision& decision) const {
  Placement shares;
  const std::string* last = nullptr;
  for (const std::string& node : decision.allocation) {
    // Ranks of a node stand together as a rule.
    if (last != nullptr && node == *last) {
      ++shares.back().gpus;
      continue;
    }
    last = &node;
    const auto found = node_index_.find(node);
    if (found == node_index_.end()) {
      return absl::InternalError(
          absl::StrCat("the policy placed ", decision.key, " on ", node, ", which is no node"));
    }
    shares.push_back({found->second, 1});
  }
  // In order of node: ranks that change places are no change.
  std::sort(shares.begin(), shares.end(),
            [](const NodeShare& a, const NodeShare& b) { return a.node < b.node; });
  Placement placement;
  for (const NodeShare& share : shares) {
    if (!placement.empty() && placement.back().node == share.node) {
      placement.back().gpus += share.gpus;
    } else {
      placement.push_back(share);
    }
  }
  return placement;
}

}  // namespace adaptdl::simulator
