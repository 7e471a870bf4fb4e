#include "cli/history.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/format.h"
#include "cli/timeline.h"
#include "libs/hints/hints.h"

namespace adaptdl::cli {
namespace {

using simulator::RecordedEnd;
using simulator::RecordedJob;

// Of nodes whose GPUs have no name.
constexpr char kNamelessGpuType[] = "gpu";
constexpr int64_t kMillisPerCore = 1000;

double ToSeconds(const google::protobuf::Timestamp& time) {
  return absl::ToDoubleSeconds(ToTime(time) - absl::UnixEpoch());
}

scheduling::Resources ToResources(const v1::Resources& from) {
  scheduling::Resources to;
  if (from.cpu_millis() > 0) to[scheduling::kCpu] = from.cpu_millis();
  if (from.memory_bytes() > 0) to[scheduling::kMemory] = from.memory_bytes();
  if (from.gpus() > 0) to[scheduling::kGpu] = from.gpus();
  for (const auto& [name, amount] : from.extended()) {
    if (amount > 0) to[name] = amount;
  }
  return to;
}

std::string TypeOf(const v1::Node& node) {
  if (node.capacity().gpus() <= 0) return simulator::kNoGpuType;
  return node.gpu_type().empty() ? kNamelessGpuType : node.gpu_type();
}

RecordedEnd ToEnd(v1::JobPhase phase) {
  switch (phase) {
    case v1::JOB_PHASE_SUCCEEDED:
      return RecordedEnd::kSucceeded;
    case v1::JOB_PHASE_FAILED:
      return RecordedEnd::kFailed;
    case v1::JOB_PHASE_CANCELLED:
      return RecordedEnd::kCancelled;
    default:
      return RecordedEnd::kNotYet;
  }
}

simulator::ReplicaDemand ToDemand(const v1::Job& job) {
  const v1::JobSpec& spec = job.spec();
  simulator::ReplicaDemand demand;
  demand.min_replicas = std::max(1, spec.min_replicas());
  demand.max_replicas = spec.max_replicas();
  demand.allowed_replicas.assign(spec.allowed_replicas().begin(), spec.allowed_replicas().end());
  demand.preemptible = !spec.has_preemptible() || spec.preemptible();
  demand.priority = spec.priority();
  demand.name_space = job.namespace_();
  demand.request = ToResources(spec.template_().resources());
  if (demand.request.count(scheduling::kCpu) == 0 && demand.request.count(scheduling::kGpu) == 0) {
    demand.request[scheduling::kCpu] = kMillisPerCore;  // what the specification says is the default
  }
  return demand;
}

// GPU types by node, and the most frequent one.
struct Types {
  std::map<std::string, std::string> by_node;
  std::string usual = simulator::kNoGpuType;
};

Types FindTypes(const v1::ListNodesResponse& nodes) {
  Types types;
  std::map<std::string, int> counts;
  for (const v1::Node& node : nodes.nodes()) {
    const std::string type = TypeOf(node);
    types.by_node[node.node_id()] = type;
    if (++counts[type] > counts[types.usual]) types.usual = type;
  }
  return types;
}

std::string TypeOf(const v1::JobStatus& status, const Types& types) {
  for (auto replica = status.replicas().rbegin(); replica != status.replicas().rend(); ++replica) {
    const auto found = types.by_node.find(replica->node_id());
    if (found != types.by_node.end()) return found->second;
  }
  return types.usual;
}

void UseHints(const v1::JobStatus& status, const Types& types, RecordedJob* job) {
  const v1::Hints& hints = status.hints();
  job->init_batch_size = hints.init_batch_size();
  job->max_batch_size = hints.max_batch_size();
  job->min_local = hints.min_local_batch_size();
  job->max_local = hints.max_local_batch_size();
  job->accumulation = hints.gradient_accumulation();
  for (const v1::GpuTypePerfParams& typed : hints.perf_params_by_gpu_type()) {
    job->perf[typed.gpu_type()] = hints::ToPerfParams(typed.perf_params());
  }
  if (job->perf.empty() && hints.has_perf_params()) {
    job->perf[TypeOf(status, types)] = hints::ToPerfParams(hints.perf_params());
  }
  if (hints.has_grad_params()) job->gradient = {hints.grad_params().norm(), hints.grad_params().var()};
}

double ReplicaSeconds(const TimelineRow& row, absl::Time now) {
  double sum = 0;
  const absl::Time end = std::min(row.end, now);
  for (size_t i = 0; i < row.changes.size(); ++i) {
    const absl::Time until = i + 1 < row.changes.size() ? std::min(row.changes[i + 1].time, end) : end;
    sum += row.changes[i].replicas * std::max(0.0, absl::ToDoubleSeconds(until - row.changes[i].time));
  }
  return sum;
}

RecordedJob ToRecord(const v1::Job& job, const Types& types) {
  const v1::JobStatus& status = job.status();
  RecordedJob record;
  record.name = absl::StrCat(job.namespace_(), "/", job.name());
  record.submitted = ToSeconds(status.submit_time());
  if (status.has_start_time()) record.started = ToSeconds(status.start_time());
  if (status.has_completion_time()) record.completed = ToSeconds(status.completion_time());
  record.end = ToEnd(status.phase());
  record.restarts = status.restarts() + status.rescales();
  if (status.has_hints()) UseHints(status, types, &record);
  record.steps_done = status.progress().scale_invariant_steps();
  record.steps_total = status.progress().total_scale_invariant_steps();
  if (status.has_rescale_duration()) {
    record.rescale_seconds = std::max(0.0, absl::ToDoubleSeconds(ToDuration(status.rescale_duration())));
  }
  record.demand = ToDemand(job);
  return record;
}

}  // namespace

simulator::History ToHistory(const v1::ListJobsResponse& jobs, const v1::ListEventsResponse& events,
                             const v1::ListNodesResponse& nodes, absl::Time since, absl::Time now) {
  simulator::History history;
  for (const v1::Node& node : nodes.nodes()) {
    if (node.status().phase() != v1::NODE_PHASE_READY) continue;
    history.nodes.push_back({node.node_id(), TypeOf(node), ToResources(node.capacity())});
  }
  const Types types = FindTypes(nodes);
  // One row per job, in the same order.
  const std::vector<TimelineRow> rows = TimelineRows(jobs, events);
  for (int i = 0; i < jobs.jobs_size(); ++i) {
    if (ToTime(jobs.jobs(i).status().submit_time()) < since) continue;
    history.jobs.push_back(ToRecord(jobs.jobs(i), types));
    history.jobs.back().replica_seconds = ReplicaSeconds(rows[i], now);
  }
  return history;
}

}  // namespace adaptdl::cli
