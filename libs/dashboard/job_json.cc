#include "libs/dashboard/job_json.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/strip.h"
#include "google/protobuf/timestamp.pb.h"
#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"
#include "libs/hints/hints.h"

namespace adaptdl::dashboard {
namespace {

using nlohmann::json;

// Of the curve: more replicas are not shown.
constexpr int kMostReplicas = 64;
constexpr int kFewestReplicas = 8;

double SecondsOf(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + time.nanos() * 1e-9;
}

std::string PhaseOf(v1::JobPhase phase) {
  return std::string(absl::StripPrefix(v1::JobPhase_Name(phase), "JOB_PHASE_"));
}

void PutNumber(json* row, const char* name, double value) {
  if (std::isfinite(value) && value != 0) (*row)[name] = value;
}

json ProgressOf(const v1::TrainingProgress& progress) {
  json made = {{"steps", progress.optimizer_steps()}, {"epoch", progress.epoch()}};
  PutNumber(&made, "epochs", progress.total_epochs());
  if (progress.fraction() >= 0) PutNumber(&made, "fraction", progress.fraction());
  PutNumber(&made, "batchSize", static_cast<double>(progress.total_batch_size()));
  PutNumber(&made, "localBatchSize", static_cast<double>(progress.local_batch_size()));
  PutNumber(&made, "accumulationSteps", progress.accumulation_steps());
  PutNumber(&made, "throughput", progress.throughput());
  PutNumber(&made, "efficiency", progress.efficiency());
  PutNumber(&made, "goodput", progress.throughput() * progress.efficiency());
  PutNumber(&made, "noise", progress.gradient_noise_scale());
  PutNumber(&made, "learningRateFactor", progress.learning_rate_factor());
  if (progress.has_step_times()) {
    const v1::StepTimes& times = progress.step_times();
    made["stepTimes"] = {{"compute", times.compute()}, {"sync", times.sync()}, {"data", times.data()}};
  }
  for (const v1::ReportedMetric& metric : progress.metrics()) {
    if (std::isfinite(metric.value())) made["metrics"][metric.name()] = metric.value();
  }
  return made;
}

}  // namespace

json JobRow(const v1::Job& job) {
  const v1::JobStatus& status = job.status();
  json row = {{"namespace", job.namespace_()},
              {"name", job.name()},
              {"uid", job.uid()},
              {"phase", PhaseOf(status.phase())},
              {"replicas", status.allocation_size()},
              {"minReplicas", std::max(1, job.spec().min_replicas())},
              {"maxReplicas", job.spec().max_replicas()}};
  if (!status.reason().empty()) row["reason"] = status.reason();
  if (!status.message().empty()) row["message"] = status.message();
  if (status.has_submit_time()) row["submitted"] = SecondsOf(status.submit_time());
  if (status.has_start_time()) row["started"] = SecondsOf(status.start_time());
  if (status.has_completion_time()) row["completed"] = SecondsOf(status.completion_time());
  if (status.has_estimated_completion_time()) row["expected"] = SecondsOf(status.estimated_completion_time());
  if (status.has_progress()) row["progress"] = ProgressOf(status.progress());
  if (status.has_cost()) row["cost"] = status.cost();
  PutNumber(&row, "restarts", status.restarts());
  PutNumber(&row, "rescales", status.rescales());
  PutNumber(&row, "priority", job.spec().priority());
  if (job.spec().suspend()) row["suspended"] = true;
  if (status.cancel_requested()) row["cancelRequested"] = true;
  // How many replicas each node has.
  for (const std::string& node : status.allocation()) {
    json& count = row["nodes"][node];
    count = count.is_null() ? 1 : count.get<int>() + 1;
  }
  return row;
}

json JobDetails(const v1::Job& job) {
  json details = JobRow(job);
  const v1::JobStatus& status = job.status();
  details["labels"] = json::object();
  for (const auto& [key, value] : job.labels()) details["labels"][key] = value;
  details["group"] = status.group();
  details["decision"] = status.allocation_reason();
  details["explanation"] = json::array();
  for (const std::string& sentence : status.allocation_explanation())
    details["explanation"].push_back(sentence);
  details["checkpointError"] = status.checkpoint_error();
  details["members"] = json::array();
  for (const v1::Replica& replica : status.replicas()) {
    details["members"].push_back(
        {{"rank", replica.rank()},
         {"node", replica.node_id()},
         {"state", std::string(absl::StripPrefix(v1::ReplicaState_Name(replica.state()), "REPLICA_STATE_"))},
         {"message", replica.message()}});
  }
  return details;
}

json GoodputCurve(const v1::Job& job) {
  const v1::Hints& said = job.status().hints();
  const std::optional<goodput::GoodputFunction> model = hints::ModelOf(said);
  if (!model.has_value()) return {{"reason", "the job has not measured enough of itself yet"}};
  const goodput::BatchLimits limits = hints::ToLimits(said);
  if (!goodput::Validate(limits, said.init_batch_size()).ok()) {
    return {{"reason", "the job's limits of batch sizes contradict each other"}};
  }
  const int wanted = job.spec().max_replicas();
  const int most = std::min(
      kMostReplicas, wanted > 0 ? wanted : std::max(kFewestReplicas, 2 * job.status().allocation_size()));
  json points = json::array();
  int best = 0;
  double best_goodput = 0;
  for (int replicas = 1; replicas <= most; ++replicas) {
    const auto near = goodput::OptimizeBatchSize(*model, {1, replicas}, limits);
    const auto far = goodput::OptimizeBatchSize(*model, {replicas, replicas}, limits);
    if (!near.has_value() || !far.has_value()) continue;
    const auto total = replicas * near->batch.atomic_batch_size * (near->batch.accumulation_steps + 1);
    points.push_back(
        {{"replicas", replicas}, {"oneNode", near->goodput}, {"spread", far->goodput}, {"batchSize", total}});
    if (replicas < job.spec().min_replicas() || near->goodput <= best_goodput) continue;
    best = replicas;
    best_goodput = near->goodput;
  }
  return {{"points", points}, {"best", best}};
}

std::string ToText(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace adaptdl::dashboard
