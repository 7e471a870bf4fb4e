#include "libs/client/values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::client {
namespace {

struct NamedPhase {
  Phase phase;
  v1::JobPhase message;
  std::string_view name;
};

constexpr std::array<NamedPhase, 9> kPhases = {{
    {Phase::kUnknown, v1::JOB_PHASE_UNSPECIFIED, "UNKNOWN"},
    {Phase::kPending, v1::JOB_PHASE_PENDING, "PENDING"},
    {Phase::kStarting, v1::JOB_PHASE_STARTING, "STARTING"},
    {Phase::kRunning, v1::JOB_PHASE_RUNNING, "RUNNING"},
    {Phase::kRescaling, v1::JOB_PHASE_RESCALING, "RESCALING"},
    {Phase::kStopping, v1::JOB_PHASE_STOPPING, "STOPPING"},
    {Phase::kSucceeded, v1::JOB_PHASE_SUCCEEDED, "SUCCEEDED"},
    {Phase::kFailed, v1::JOB_PHASE_FAILED, "FAILED"},
    {Phase::kCancelled, v1::JOB_PHASE_CANCELLED, "CANCELLED"},
}};

// More cores than any machine has; what the protocol counts in thousandths.
constexpr double kMostCpus = 1e6;

template <typename Messages>
std::map<std::string, Metric> ToMetrics(const Messages& messages) {
  std::map<std::string, Metric> metrics;
  for (const v1::ReportedMetric& metric : messages) metrics[metric.name()] = {metric.value(), metric.step()};
  return metrics;
}

Progress ToProgress(const v1::TrainingProgress& message) {
  Progress progress;
  progress.epoch = message.epoch();
  progress.total_epochs = message.total_epochs();
  progress.optimizer_steps = message.optimizer_steps();
  progress.fraction = message.fraction();
  progress.throughput = message.throughput();
  progress.efficiency = message.efficiency();
  progress.gradient_noise_scale = message.gradient_noise_scale();
  progress.batch_size = message.total_batch_size();
  progress.local_batch_size = message.local_batch_size();
  progress.accumulation_steps = message.accumulation_steps();
  progress.metrics = ToMetrics(message.metrics());
  return progress;
}

template <typename Message>
absl::Time TimeOf(bool has, const Message& time) {
  return has ? messages::ToTime(time) : absl::InfinitePast();
}

}  // namespace

std::string_view NameOf(Phase phase) {
  for (const NamedPhase& entry : kPhases) {
    if (entry.phase == phase) return entry.name;
  }
  return kPhases.front().name;
}

bool IsFinished(Phase phase) {
  return phase == Phase::kSucceeded || phase == Phase::kFailed || phase == Phase::kCancelled;
}

v1::JobPhase FromPhase(Phase phase) {
  for (const NamedPhase& entry : kPhases) {
    if (entry.phase == phase) return entry.message;
  }
  return v1::JOB_PHASE_UNSPECIFIED;
}

Job ToJob(const v1::Job& message) {
  const v1::JobStatus& status = message.status();
  const v1::ReplicaTemplate& replica = message.spec().template_();
  Job job;
  job.name_space = message.namespace_();
  job.name = message.name();
  job.uid = message.uid();
  job.labels = {message.labels().begin(), message.labels().end()};
  job.command = {replica.command().begin(), replica.command().end()};
  job.command.insert(job.command.end(), replica.args().begin(), replica.args().end());
  for (const NamedPhase& entry : kPhases) {
    if (entry.message == status.phase()) job.phase = entry.phase;
  }
  job.reason = status.reason();
  job.message = status.message();
  job.allocation = {status.allocation().begin(), status.allocation().end()};
  job.desired_allocation = {status.desired_allocation().begin(), status.desired_allocation().end()};
  job.allocation_reason = status.allocation_reason();
  job.group = status.group();
  job.restarts = status.restarts();
  job.rescales = status.rescales();
  job.failures = status.failures();
  if (status.has_progress()) job.progress = ToProgress(status.progress());
  job.submit_time = TimeOf(status.has_submit_time(), status.submit_time());
  job.start_time = TimeOf(status.has_start_time(), status.start_time());
  job.completion_time = TimeOf(status.has_completion_time(), status.completion_time());
  job.running_time = messages::ToDuration(status.running_time());
  return job;
}

Event ToEvent(const v1::Event& message) {
  Event event;
  event.id = message.id();
  event.time = TimeOf(message.has_time(), message.time());
  event.job = message.job();
  event.warning = message.type() == v1::EVENT_TYPE_WARNING;
  event.reason = message.reason();
  event.message = message.message();
  event.count = std::max<int64_t>(message.count(), 1);
  event.group = message.group();
  event.node = message.node_id();
  event.replica_id = message.replica_id();
  return event;
}

HistoryPoint ToPoint(const v1::HistoryPoint& message) {
  HistoryPoint point;
  point.begin = TimeOf(message.has_begin(), message.begin());
  point.end = TimeOf(message.has_end(), message.end());
  point.replicas = message.replicas();
  point.batch_size = message.total_batch_size();
  point.throughput = message.throughput();
  point.goodput = message.goodput();
  point.efficiency = message.efficiency();
  point.gradient_noise_scale = message.gradient_noise_scale();
  point.optimizer_steps = message.optimizer_steps();
  point.fraction = message.fraction();
  point.epoch = message.epoch();
  point.metrics = ToMetrics(message.metrics());
  return point;
}

LogLine ToLine(const v1::LogLine& message) {
  LogLine line;
  line.time = TimeOf(message.has_time(), message.time());
  line.error = message.source() == v1::LOG_SOURCE_STDERR;
  line.replica_id = message.replica_id();
  line.group = message.group();
  line.rank = message.rank();
  line.text = message.text();
  line.partial = message.partial();
  return line;
}

absl::StatusOr<v1::SubmitJobRequest> FromOrder(const JobOrder& order) {
  if (!(order.cpus >= 0 && order.cpus <= kMostCpus)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cpus ", order.cpus, " is not valid: give 0 to ", kMostCpus));
  }
  v1::SubmitJobRequest request;
  v1::Job* job = request.mutable_job();
  v1::JobSpec* spec = job->mutable_spec();
  v1::ReplicaTemplate* replica = spec->mutable_template_();
  job->set_namespace_(order.name_space);
  job->set_name(order.name);
  if (order.name.empty()) request.set_generate_name(order.generate_name);
  job->mutable_labels()->insert(order.labels.begin(), order.labels.end());
  spec->set_min_replicas(order.min_replicas);
  spec->set_max_replicas(order.max_replicas);
  spec->mutable_allowed_replicas()->Assign(order.allowed_replicas.begin(), order.allowed_replicas.end());
  spec->set_priority(order.priority);
  if (order.max_restarts.has_value()) spec->set_max_restarts(*order.max_restarts);
  spec->set_preemptible(order.preemptible);
  replica->mutable_command()->Assign(order.command.begin(), order.command.end());
  for (const auto& [name, value] : order.env) {
    v1::EnvironmentVariable* variable = replica->add_env();
    variable->set_name(name);
    variable->set_value(value);
  }
  replica->set_working_directory(order.working_directory);
  replica->mutable_resources()->set_cpu_millis(std::llround(order.cpus * 1000));
  replica->mutable_resources()->set_memory_bytes(order.memory_bytes);
  replica->mutable_resources()->set_gpus(order.gpus);
  return request;
}

}  // namespace adaptdl::client
