#include "services/allocator/snapshot_converter.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"
#include "libs/hints/hints.h"
#include "libs/jobspec/checks.h"
#include "libs/jobspec/job_spec.h"
#include "libs/jobspec/limits.h"
#include "libs/jobspec/placement.h"
#include "libs/messages/proto_time.h"
#include "libs/pastwork/past_work.h"
#include "services/allocator/node_resources.h"
#include "services/allocator/places.h"

namespace adaptdl::allocator {
namespace {

using goodput::GoodputFunction;
using goodput::GradParams;
using goodput::PerfParams;
using goodput::SpeedupTable;
using hints::ToLimits;
using hints::ToPerfParams;
using scheduling::JobInfo;
using scheduling::NodeInfo;

constexpr int kMostReplicas = jobspec::kMaxReplicas;
// Tables go no further than this beyond what the job may have; they take two searches per replica.
constexpr int kLargestTable = 1024;
absl::Status CheckSpec(const v1::JobSpec& spec) {
  // Earlier versions took more; the job gets no more than any.
  v1::JobSpec counts;
  counts.set_min_replicas(spec.min_replicas());
  counts.set_max_replicas(std::min(spec.max_replicas(), kMostReplicas));
  *counts.mutable_allowed_replicas() = spec.allowed_replicas();
  const absl::Status status = jobspec::CheckReplicaCounts(counts);
  if (!status.ok()) return status;
  return jobspec::CheckRange("spec.priority", spec.priority(), -jobspec::kMaxPriority, jobspec::kMaxPriority);
}

// What a change of this job took. Nullopt: it had none.
std::optional<double> RescaleSeconds(const v1::Job& job) {
  if (!job.status().has_rescale_duration()) return std::nullopt;
  return std::max(0.0, absl::ToDoubleSeconds(messages::ToDuration(job.status().rescale_duration())));
}

// Whether its next change will be made while training goes on. Programs that report hints and no progress are
// those of AdaptDL's Python package, which start again.
bool RescalesInPlace(const v1::Job& job) {
  return job.spec().rescale() == v1::RESCALE_MODE_IN_PLACE &&
         (job.status().rescales() > 0 || job.status().has_progress());
}

// What the job has cost, and would lose.
void SetHistory(const v1::Job& job, JobInfo* info) {
  const v1::JobStatus& status = job.status();
  info->restarts = std::max(0, status.restarts());
  info->elastic = status.has_hints() || status.has_progress();
  info->run_seconds = std::max(0.0, absl::ToDoubleSeconds(messages::ToDuration(status.running_time())));
  // A plain program loses all; what it did in earlier runs is lost already, but how long those were is not
  // told. An elastic one writes a checkpoint when it is stopped, unless its checkpoints fail: since when is
  // not told.
  const bool saves = info->elastic && status.checkpoint_error().empty();
  info->unsaved_seconds = saves || info->allocation.empty() ? 0 : info->run_seconds;
  info->restarting = status.phase() == v1::JOB_PHASE_STARTING || status.phase() == v1::JOB_PHASE_STOPPING;
  // An approximation: as if the job had had its present size all the time. Only the running time is recorded.
  const auto gpus = info->request.find(scheduling::kGpu);
  const double per_replica = gpus == info->request.end() ? 1 : static_cast<double>(gpus->second);
  info->attained_service = std::max(0.0, absl::ToDoubleSeconds(messages::ToDuration(status.running_time()))) *
                           per_replica * static_cast<double>(std::max<size_t>(1, info->allocation.size()));
}

// Time at speed-up 1 that so many scale-invariant steps take; speed-up 1 stands for `goodput` samples of the
// initial batch size per second.
std::optional<double> SecondsFor(double steps, const v1::JobStatus& status, double goodput) {
  if (!(goodput > 0)) return std::nullopt;
  const double seconds =
      std::max(0.0, steps) * static_cast<double>(status.hints().init_batch_size()) / goodput;
  return std::isfinite(seconds) ? std::optional<double>(seconds) : std::nullopt;
}

// What the job counts as by what others of its kind took, at speed-up 1.
std::optional<double> ExpectedSeconds(const v1::JobStatus& status, double goodput) {
  if (!(goodput > 0)) return std::nullopt;
  const v1::PastWork& work = status.past_work();
  const pastwork::PastWork past = {work.jobs(), work.mean_log(), work.squares_log()};
  const double done = std::max(0.0, status.progress().scale_invariant_steps()) *
                      static_cast<double>(status.hints().init_batch_size());
  const std::optional<double> samples = past.Length(done);
  if (!samples.has_value() || !std::isfinite(*samples / goodput)) return std::nullopt;
  return *samples / goodput;
}

// The largest allowed size that is at most `most`; the smallest one if there is none.
int LargestAllowed(const std::vector<int>& allowed, int most) {
  const auto above = std::upper_bound(allowed.begin(), allowed.end(), most);
  return above == allowed.begin() ? allowed.front() : *std::prev(above);
}

// Without statistics: perfect scaling.
GradParams ToGradParams(const v1::Hints& hints) {
  if (!hints.has_grad_params()) return {};
  return {hints.grad_params().norm(), hints.grad_params().var()};
}

// Replicas that can each be given the least batch.
int64_t ReplicasThatCanBeFed(const v1::Hints& hints) {
  const int64_t total = hints.max_batch_size() > 0 ? hints.max_batch_size() : hints.init_batch_size();
  return total / std::max<int64_t>(1, hints.min_local_batch_size());
}

// The type whose parameters are those that the job knows best; empty if it says of none.
std::string BestKnownType(const v1::Hints& hints) {
  const std::string best = hints.perf_params().SerializeAsString();
  for (const v1::GpuTypePerfParams& typed : hints.perf_params_by_gpu_type()) {
    if (typed.perf_params().SerializeAsString() == best) return typed.gpu_type();
  }
  return "";
}

// Whether the job's nodes could take it, if they were empty.
bool FitsWhereItIs(const JobInfo& job, const std::vector<NodeInfo>& nodes) {
  std::map<std::string, int64_t> shares;
  for (const std::string& id : job.allocation) ++shares[id];
  return std::all_of(shares.begin(), shares.end(), [&](const auto& share) {
    const auto node =
        std::lower_bound(nodes.begin(), nodes.end(), share.first,
                         [](const NodeInfo& info, const std::string& id) { return info.id < id; });
    return node != nodes.end() && node->id == share.first && !node->draining &&
           scheduling::TimesThatFit(job.request, node->capacity, share.second) == share.second;
  });
}

// Whether the node drains only since it is likely to be taken away.
bool IsFading(const v1::Node& node) {
  const bool leaves = node.status().has_preemption_time();
  return node.status().phase() == v1::NODE_PHASE_DRAINING && !leaves &&
         std::any_of(node.taints().begin(), node.taints().end(),
                     [](const v1::Taint& taint) { return taint.key() == jobspec::kLikelyToLeave; });
}

}  // namespace

void Freeze(JobInfo* info) {
  info->preemptible = false;
  info->min_replicas = 1;
  info->max_replicas = std::max<int>(1, static_cast<int>(info->allocation.size()));
  info->speedup = std::make_shared<SpeedupTable>(SpeedupTable::Linear(info->max_replicas));
}

absl::Status CheckHints(const v1::Hints& hints) {
  if (hints.max_profiled_replicas() < 0 || hints.max_profiled_replicas() > kMostReplicas) {
    return absl::InvalidArgumentError(absl::StrCat("hints.max_profiled_replicas is ",
                                                   hints.max_profiled_replicas(), "; it must be in [0, ",
                                                   kMostReplicas, "]"));
  }
  absl::Status status = goodput::Validate(ToLimits(hints), hints.init_batch_size());
  if (status.ok() && hints.has_perf_params()) status = goodput::Validate(ToPerfParams(hints.perf_params()));
  for (const v1::GpuTypePerfParams& typed : hints.perf_params_by_gpu_type()) {
    if (status.ok()) status = goodput::Validate(ToPerfParams(typed.perf_params()));
  }
  if (status.ok()) status = goodput::Validate(ToGradParams(hints));
  return status.ok() ? status : absl::InvalidArgumentError(absl::StrCat("hints: ", status.message()));
}

std::string HintSignature(const v1::Job& job) {
  const v1::JobStatus& status = job.status();
  if (!status.has_hints()) return "";
  const v1::Hints& hints = status.hints();
  return absl::StrCat(hints.max_profiled_replicas(), "/", hints.has_perf_params(), "/",
                      hints.perf_params_by_gpu_type_size(), "/", hints.init_batch_size(), "/",
                      hints.max_batch_size(), "/", hints.min_local_batch_size(), "/",
                      hints.max_local_batch_size());
}

void SnapshotConverter::Expect(std::vector<scheduling::NodeKind> kinds) { expected_ = std::move(kinds); }

ConvertedCluster SnapshotConverter::Convert(const v1::ClusterSnapshot& snapshot, absl::Time now) {
  ConvertedCluster result;
  result.view.now = now;
  for (auto& [uid, cached] : tables_) cached.used = false;
  ConvertNodes(snapshot, &result);
  FindPlaces(snapshot, &result);
  shapes_.clear();
  gpu_types_.clear();
  for (const NodeInfo& node : result.view.nodes) {
    ++shapes_[node.capacity];
    if (!node.gpu_type.empty() && node.capacity.count(scheduling::kGpu) > 0) gpu_types_.insert(node.gpu_type);
  }
  for (const scheduling::NodeKind& kind : expected_) {
    if (!kind.gpu_type.empty() && kind.capacity.count(scheduling::kGpu) > 0) gpu_types_.insert(kind.gpu_type);
  }
  ConvertQuotas(snapshot, &result);
  LearnSpeeds(snapshot);
  LearnRescales(snapshot);
  for (int i = 0; i < snapshot.jobs_size(); ++i) ConvertJob(snapshot.jobs(i), i, &result);
  absl::erase_if(tables_, [](const auto& entry) { return !entry.second.used; });
  return result;
}

void SnapshotConverter::ConvertNodes(const v1::ClusterSnapshot& snapshot, ConvertedCluster* result) {
  std::set<std::string> seen;
  quarantined_.clear();
  fading_.clear();
  for (const v1::Node& node : snapshot.nodes()) {
    NodeInfo info;
    info.id = node.node_id();
    const absl::Status status = ToResources(node.capacity(), &info.capacity);
    if (!status.ok() || info.id.empty() || !seen.insert(info.id).second) {
      result->refusals.push_back({absl::StrCat("node ", info.id), status.ok()
                                                                      ? "node_id is empty or not unique"
                                                                      : std::string(status.message())});
      continue;
    }
    info.gpu_type = node.gpu_type();
    info.draining = node.status().phase() != v1::NODE_PHASE_READY;
    if (node.status().phase() == v1::NODE_PHASE_QUARANTINED) quarantined_.insert(info.id);
    if (IsFading(node)) fading_.insert(info.id);
    info.preemptible = node.preemptible();
    info.unreachable.assign(node.status().unreachable_nodes().begin(),
                            node.status().unreachable_nodes().end());
    result->view.nodes.push_back(std::move(info));
  }
  std::sort(result->view.nodes.begin(), result->view.nodes.end(),
            [](const NodeInfo& a, const NodeInfo& b) { return a.id < b.id; });
}

void SnapshotConverter::FindPlaces(const v1::ClusterSnapshot& snapshot, ConvertedCluster* result) {
  std::map<absl::string_view, const v1::Node*> by_id;
  for (const v1::Node& node : snapshot.nodes()) by_id.emplace(node.node_id(), &node);
  std::vector<const v1::Node*> known;
  for (const NodeInfo& node : result->view.nodes) known.push_back(by_id.at(node.id));
  Places places(std::move(known), &result->view.nodes);
  places_.clear();
  for (const v1::Job& job : snapshot.jobs()) {
    places_.push_back(places.ResourceFor(job.spec().template_().placement()));
  }
}

void SnapshotConverter::ConvertQuotas(const v1::ClusterSnapshot& snapshot, ConvertedCluster* result) {
  for (const v1::NamespaceQuota& quota : snapshot.quotas()) {
    if (quota.gpus() < 0 || !(quota.weight() > 0) || !std::isfinite(quota.weight())) {
      result->refusals.push_back({absl::StrCat("quota ", quota.namespace_()),
                                  absl::StrCat("gpus is ", quota.gpus(), " and weight ", quota.weight(),
                                               "; they must be at least 0, and greater than 0")});
      continue;
    }
    result->view.namespaces[quota.namespace_()] = {quota.gpus(), quota.weight()};
  }
}

void SnapshotConverter::LearnSpeeds(const v1::ClusterSnapshot& snapshot) {
  speeds_ = RelativeSpeeds();
  for (const v1::Job& job : snapshot.jobs()) {
    const v1::Hints& hints = job.status().hints();
    if (hints.perf_params_by_gpu_type_size() < 2 || !CheckHints(hints).ok()) continue;
    // A batch that is near to what was measured.
    const double batch = std::max(
        1.0, static_cast<double>(hints.init_batch_size()) / std::max(1, hints.max_profiled_replicas()));
    std::map<std::string, double> times;
    for (const v1::GpuTypePerfParams& typed : hints.perf_params_by_gpu_type()) {
      times[typed.gpu_type()] = goodput::AccumTime(ToPerfParams(typed.perf_params()), batch);
    }
    speeds_.Add(times);
  }
}

void SnapshotConverter::LearnRescales(const v1::ClusterSnapshot& snapshot) {
  for (const v1::Job& job : snapshot.jobs()) {
    const std::optional<double> seconds = RescaleSeconds(job);
    // The figure of a job that knows both ways is of neither.
    const bool both = job.status().rescales() > 0 && job.status().restarts() > 0;
    if (seconds.has_value() && !both) {
      rescale_costs_.Learn(job.uid(), {.in_place = job.status().rescales() > 0, .seconds = *seconds});
    }
  }
}

void SnapshotConverter::ConvertJob(const v1::Job& job, int index, ConvertedCluster* result) {
  // It has nothing, and is to get nothing.
  if (job.spec().suspend()) {
    ++result->held_jobs;
    return;
  }
  JobInfo info;
  info.key = absl::StrCat(job.namespace_(), "/", job.name());
  info.name_space = job.namespace_();
  info.created = absl::FromUnixSeconds(job.status().submit_time().seconds());
  info.allocation.assign(job.status().desired_allocation().begin(), job.status().desired_allocation().end());
  absl::Status status = ToResources(job.spec().template_().resources(), &info.request);
  if (status.ok()) status = CheckSpec(job.spec());
  if (status.ok() && job.uid().empty()) status = absl::InvalidArgumentError("uid is empty");
  // What the job's specification says is the default.
  const bool waits = job.spec().template_().api_access() && info.request.count(scheduling::kMemory) > 0;
  if (info.request.count(scheduling::kCpu) == 0 && info.request.count(scheduling::kGpu) == 0 && !waits) {
    info.request[scheduling::kCpu] = 1000;
  }
  if (!places_[index].empty()) info.request[places_[index]] = 1;
  if (job.spec().has_deadline()) info.deadline = messages::ToTime(job.spec().deadline());
  SetHistory(job, &info);
  info.rescale_seconds = RescaleSeconds(job).value_or(rescale_costs_.Expect(RescalesInPlace(job)));
  const auto runs_on = [&](const std::set<std::string>& nodes) {
    return job.status().phase() != v1::JOB_PHASE_PENDING &&
           std::any_of(info.allocation.begin(), info.allocation.end(),
                       [&](const std::string& id) { return nodes.count(id) > 0; });
  };
  const bool on_quarantined = runs_on(quarantined_);
  if (runs_on(fading_)) result->fading_jobs.insert(static_cast<int>(result->view.jobs.size()));
  if (!status.ok() || job.status().cancel_requested() || on_quarantined) {
    if (!status.ok()) {
      result->refusals.push_back({absl::StrCat("job ", info.key), std::string(status.message())});
    }
    if (info.allocation.empty()) {
      if (!status.ok()) result->unusable_jobs.emplace_back(index, std::string(status.message()));
      return;
    }
    Freeze(&info);
  } else {
    info.preemptible = !job.spec().has_preemptible() || job.spec().preemptible();
    // One that waits has nothing to keep on nodes that can't take it any more: a GPU may have failed.
    const bool waits = job.status().phase() == v1::JOB_PHASE_PENDING && !info.preemptible;
    if (waits && !FitsWhereItIs(info, result->view.nodes)) info.allocation.clear();
    info.min_replicas = std::max(1, job.spec().min_replicas());
    info.priority = job.spec().priority();
    info.allowed_replicas.assign(job.spec().allowed_replicas().begin(), job.spec().allowed_replicas().end());
    if (!info.allowed_replicas.empty()) {
      info.min_replicas =
          *std::lower_bound(info.allowed_replicas.begin(), info.allowed_replicas.end(), info.min_replicas);
    }
    if (job.status().has_hints()) status = CheckHints(job.status().hints());
    if (!status.ok()) {
      // As if it had none, but nothing is taken from a job for what it reports.
      result->refusals.push_back({absl::StrCat("job ", info.key), std::string(status.message())});
      info.max_replicas = std::max<int>(info.min_replicas, static_cast<int>(info.allocation.size()));
      info.max_replicas_reason = std::string(status.message());
      info.speedup = std::make_shared<SpeedupTable>(SpeedupTable::Linear(info.max_replicas));
    } else {
      UseHints(job, &info);
    }
  }
  result->view.jobs.push_back(std::move(info));
  result->job_index.push_back(index);
}

int SnapshotConverter::MostReplicas(const v1::Job& job, const JobInfo& info, std::string* reason) {
  int64_t most = info.min_replicas;
  *reason = "no more before it has reported how fast it is";
  const auto lower = [&](int64_t limit, const std::string& why) {
    if (limit >= most) return;
    most = limit;
    *reason = why;
  };
  const std::vector<int>& allowed = info.allowed_replicas;
  if (job.status().has_hints()) {
    const v1::Hints& hints = job.status().hints();
    most = std::max(1, 2 * hints.max_profiled_replicas());
    *reason = absl::StrCat("no more than twice the largest size that it has measured, ",
                           hints.max_profiled_replicas());
    // A job that may not double goes on to the next size that it may have.
    const auto next = std::upper_bound(allowed.begin(), allowed.end(), hints.max_profiled_replicas());
    if (next != allowed.end()) most = std::max<int64_t>(most, *next);
    lower(ReplicasThatCanBeFed(hints), "its largest batch can't feed more");
  }
  lower(kMostReplicas, "the most that any job may have");
  if (job.spec().max_replicas() > 0) {
    lower(job.spec().max_replicas(), absl::StrCat("maxReplicas is ", job.spec().max_replicas()));
  }
  if (most < info.min_replicas) {
    *reason = absl::StrCat("minReplicas is ", info.min_replicas, ", and ", *reason);
    return info.min_replicas;
  }
  if (allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), most)) {
    return static_cast<int>(most);
  }
  const int largest = LargestAllowed(allowed, static_cast<int>(most));
  *reason = largest == allowed.back() ? absl::StrCat("allowedReplicas holds no more than ", largest)
                                      : absl::StrCat("allowedReplicas holds nothing from ", largest + 1,
                                                     " to ", most, ", and ", *reason);
  return largest;
}

int SnapshotConverter::TableSize(const v1::Job& job, const JobInfo& info) const {
  int64_t most = 0;
  for (const auto& [capacity, count] : shapes_) {
    most += count * scheduling::TimesThatFit(info.request, capacity, kLargestTable);
  }
  most = std::min<int64_t>(most, kLargestTable);
  if (job.spec().max_replicas() > 0) most = std::min<int64_t>(most, job.spec().max_replicas());
  if (job.status().has_hints()) most = std::min(most, ReplicasThatCanBeFed(job.status().hints()));
  return std::max(static_cast<int>(most), info.max_replicas);
}

void SnapshotConverter::UseHints(const v1::Job& job, JobInfo* info) {
  info->max_replicas = MostReplicas(job, *info, &info->max_replicas_reason);
  info->measured_replicas = job.status().hints().max_profiled_replicas();
  info->speedup = TableFor(job, TableSize(job, *info));
  SetTablesByType(job, info);
  const v1::TrainingProgress& progress = job.status().progress();
  const double done = progress.scale_invariant_steps();
  const double total = progress.total_scale_invariant_steps();
  const double goodput = info->speedup->base_goodput();
  info->done_seconds = SecondsFor(done, job.status(), goodput);
  if (total > 0) {
    info->remaining_seconds = SecondsFor(total - done, job.status(), goodput);
  } else if (job.status().has_past_work()) {
    info->expected_seconds = ExpectedSeconds(job.status(), goodput);
  }
}

std::shared_ptr<const SpeedupTable> SnapshotConverter::TableFor(const v1::Job& job, int max_replicas) {
  const v1::Hints& hints = job.status().hints();
  if (!hints.has_perf_params()) return std::make_shared<SpeedupTable>(SpeedupTable::Linear(max_replicas));
  CachedTable& cached = tables_[job.uid()];
  cached.used = true;
  std::string serialized = hints.SerializeAsString();
  // A table that goes further is as good: nodes come and go.
  if (cached.table == nullptr || cached.hints != serialized || cached.max_replicas < max_replicas) {
    const GoodputFunction goodput(ToPerfParams(hints.perf_params()), ToGradParams(hints),
                                  hints.init_batch_size());
    cached.table =
        std::make_shared<SpeedupTable>(SpeedupTable::Build(goodput, ToLimits(hints), max_replicas));
    cached.by_type.clear();
    cached.hints = std::move(serialized);
    cached.max_replicas = max_replicas;
  }
  return cached.table;
}

void SnapshotConverter::SetTablesByType(const v1::Job& job, JobInfo* info) {
  const v1::Hints& hints = job.status().hints();
  if (info->request.count(scheduling::kGpu) == 0 || !hints.has_perf_params()) return;
  const std::string best = BestKnownType(hints);
  const double base = info->speedup->base_goodput();
  if (best.empty() || !(base > 0)) return;
  std::map<std::string, PerfParams> measured;
  for (const v1::GpuTypePerfParams& typed : hints.perf_params_by_gpu_type()) {
    measured[typed.gpu_type()] = ToPerfParams(typed.perf_params());
  }
  CachedTable& cached = tables_[job.uid()];
  for (const std::string& type : gpu_types_) {
    double ratio = 0;
    absl::StatusOr<PerfParams> params = measured[best];
    if (const auto known = measured.find(type); known != measured.end()) {
      params = known->second;
    } else {
      ratio = speeds_.Ratio(best, type).value_or(1);
      params = goodput::ScaleToGpuType(measured[best], ratio);
    }
    if (!params.ok()) continue;
    auto& [built_with, table] = cached.by_type[type];
    if (table == nullptr || built_with != ratio) {
      const GoodputFunction goodput(*params, ToGradParams(hints), hints.init_batch_size());
      table = std::make_shared<SpeedupTable>(
          SpeedupTable::Build(goodput, ToLimits(hints), cached.max_replicas, base));
      built_with = ratio;
    }
    info->speedup_by_type[type] = table;
  }
  // One type that all nodes have needs no telling apart.
  if (gpu_types_.size() == 1 && gpu_types_.count(best) > 0) info->speedup_by_type.clear();
}

}  // namespace adaptdl::allocator
