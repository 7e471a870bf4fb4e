#include "libs/elastic/control/grpc/conversions.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adaptdl::elastic {

namespace {

google::protobuf::Duration ToProto(double seconds) {
  const double whole = std::floor(seconds);
  google::protobuf::Duration duration;
  duration.set_seconds(static_cast<int64_t>(whole));
  duration.set_nanos(static_cast<int32_t>((seconds - whole) * 1e9));
  return duration;
}

v1::PerfParams ToProto(const HintPerfParams& params) {
  v1::PerfParams perf;
  perf.set_alpha_c(params.alpha_c);
  perf.set_beta_c(params.beta_c);
  perf.set_alpha_n(params.alpha_n);
  perf.set_beta_n(params.beta_n);
  perf.set_alpha_r(params.alpha_r);
  perf.set_beta_r(params.beta_r);
  perf.set_gamma(params.gamma);
  return perf;
}

}  // namespace

v1::Hints ToProto(const Hints& hints) {
  v1::Hints proto;
  proto.set_init_batch_size(hints.init_batch_size);
  if (hints.max_batch_size) proto.set_max_batch_size(*hints.max_batch_size);
  if (hints.min_local_batch_size) proto.set_min_local_batch_size(*hints.min_local_batch_size);
  if (hints.max_local_batch_size) proto.set_max_local_batch_size(*hints.max_local_batch_size);
  proto.set_gradient_accumulation(hints.gradient_accumulation);
  proto.set_max_profiled_replicas(hints.max_profiled_replicas);
  if (hints.perf_params) *proto.mutable_perf_params() = ToProto(*hints.perf_params);
  for (const auto& [type, params] : hints.perf_params_by_gpu_type) {
    v1::GpuTypePerfParams* typed = proto.add_perf_params_by_gpu_type();
    typed->set_gpu_type(type);
    *typed->mutable_perf_params() = ToProto(params);
  }
  if (hints.grad_params) {
    proto.mutable_grad_params()->set_norm(hints.grad_params->norm);
    proto.mutable_grad_params()->set_var(hints.grad_params->var);
  }
  return proto;
}

v1::TrainingProgress ToProto(const Progress& progress, const std::vector<ReportedMetric>& metrics) {
  v1::TrainingProgress proto;
  proto.set_optimizer_steps(progress.optimizer_steps);
  proto.set_epoch(progress.epoch);
  proto.set_total_epochs(progress.total_epochs);
  proto.set_fraction(progress.fraction);
  proto.set_total_batch_size(progress.total_batch_size);
  proto.set_local_batch_size(progress.local_batch_size);
  proto.set_accumulation_steps(progress.accumulation_steps);
  proto.set_throughput(progress.throughput);
  proto.set_scale_invariant_steps(progress.scale_invariant_steps);
  proto.set_total_scale_invariant_steps(progress.total_scale_invariant_steps);
  proto.set_gain(progress.gain);
  proto.set_efficiency(progress.efficiency);
  proto.set_gradient_noise_scale(progress.gradient_noise_scale);
  proto.set_learning_rate_factor(progress.learning_rate_factor);
  if (progress.step_times.has_value()) {
    v1::StepTimes* times = proto.mutable_step_times();
    times->set_compute(progress.step_times->compute);
    times->set_sync(progress.step_times->sync);
    times->set_data(progress.step_times->data);
  }
  for (const ReportedMetric& metric : metrics) {
    v1::ReportedMetric* told = proto.add_metrics();
    told->set_name(metric.name);
    told->set_value(metric.value);
    told->set_step(metric.step);
  }
  return proto;
}

v1::RescaleTimes ToProto(const RescaleTimes& times) {
  v1::RescaleTimes proto;
  proto.set_group(times.group);
  *proto.mutable_agree() = ToProto(times.agree);
  *proto.mutable_rebuild() = ToProto(times.rebuild);
  *proto.mutable_synchronize() = ToProto(times.synchronize);
  *proto.mutable_first_step() = ToProto(times.first_step);
  return proto;
}

v1::Activity ToProto(const Activity& activity) {
  v1::Activity proto;
  if (activity.waiting > 0) *proto.mutable_waiting() = ToProto(activity.waiting);
  if (activity.idle > 0) *proto.mutable_idle() = ToProto(activity.idle);
  if (activity.patience > 0) *proto.mutable_patience() = ToProto(activity.patience);
  if (activity.standing.has_value()) {
    const Standing& standing = *activity.standing;
    v1::Standing* told = proto.mutable_standing();
    told->set_group(standing.group);
    told->set_collective(standing.collective);
    told->set_step(standing.step);
    if (standing.peer >= 0) told->set_peer(standing.peer);
    *told->mutable_stalled() = ToProto(standing.stalled);
  }
  return proto;
}

GroupMembership FromProto(const v1::GroupFormed& formed) {
  GroupMembership membership;
  membership.group = formed.group();
  membership.rank = formed.rank();
  membership.world_size = formed.world_size();
  membership.num_nodes = formed.num_nodes();
  membership.master_address = formed.master_address();
  membership.gpu_types = {formed.gpu_types().begin(), formed.gpu_types().end()};
  membership.token = formed.token();
  membership.newcomers = formed.newcomers();
  return membership;
}

std::string DescribeMissing(const v1::GroupForming& forming) {
  std::string missing;
  for (const v1::GroupMember& member : forming.missing()) {
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", "rank ", member.rank(), " on ", member.node_id());
  }
  return absl::StrCat("waiting for ", forming.missing_size(), " more of the group: ", missing);
}

}  // namespace adaptdl::elastic
