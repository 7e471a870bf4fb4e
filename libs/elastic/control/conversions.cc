#include "libs/elastic/control/conversions.h"

namespace adaptdl::elastic {

v1::Hints ToProto(const Hints& hints) {
  v1::Hints proto;
  proto.set_init_batch_size(hints.init_batch_size);
  if (hints.max_batch_size) proto.set_max_batch_size(*hints.max_batch_size);
  if (hints.min_local_batch_size) proto.set_min_local_batch_size(*hints.min_local_batch_size);
  if (hints.max_local_batch_size) proto.set_max_local_batch_size(*hints.max_local_batch_size);
  proto.set_gradient_accumulation(hints.gradient_accumulation);
  proto.set_max_profiled_replicas(hints.max_profiled_replicas);
  if (hints.perf_params) {
    v1::PerfParams* perf = proto.mutable_perf_params();
    perf->set_alpha_c(hints.perf_params->alpha_c);
    perf->set_beta_c(hints.perf_params->beta_c);
    perf->set_alpha_n(hints.perf_params->alpha_n);
    perf->set_beta_n(hints.perf_params->beta_n);
    perf->set_alpha_r(hints.perf_params->alpha_r);
    perf->set_beta_r(hints.perf_params->beta_r);
    perf->set_gamma(hints.perf_params->gamma);
  }
  if (hints.grad_params) {
    proto.mutable_grad_params()->set_norm(hints.grad_params->norm);
    proto.mutable_grad_params()->set_var(hints.grad_params->var);
  }
  return proto;
}

v1::TrainingProgress ToProto(const Progress& progress) {
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
  return proto;
}

}  // namespace adaptdl::elastic
