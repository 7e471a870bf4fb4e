// What a job that trains tells of itself: its model, and how far it is. Each job's differ a little. Pure; thread-safe.

#ifndef ADAPTDL_BENCH_LOAD_PLAYED_TRAINING_H_
#define ADAPTDL_BENCH_LOAD_PLAYED_TRAINING_H_

#include <functional>
#include <string>

#include "adaptdl/v1/hints.pb.h"
#include "adaptdl/v1/job.pb.h"

namespace adaptdl::load {

// In [0, 1).
inline double DifferenceOf(const std::string& job) {
  return static_cast<double>(std::hash<std::string>{}(job) % 1000) / 1000.0;
}

inline v1::Hints PlayedHints(const std::string& job) {
  v1::Hints hints;
  hints.set_init_batch_size(128);
  hints.set_max_batch_size(4096);
  hints.set_max_local_batch_size(512);
  hints.set_gradient_accumulation(true);
  hints.set_max_profiled_replicas(16);
  v1::PerfParams* perf = hints.mutable_perf_params();
  perf->set_alpha_c(0.01 + 0.01 * DifferenceOf(job));
  perf->set_beta_c(0.001);
  perf->set_alpha_n(0.02);
  perf->set_beta_n(0.001);
  perf->set_alpha_r(0.01);
  perf->set_beta_r(0.001);
  perf->set_gamma(1.5);
  hints.mutable_grad_params()->set_norm(0.001);
  hints.mutable_grad_params()->set_var(0.5 + DifferenceOf(job));
  return hints;
}

// Goes on by some steps.
inline void PlayProgress(const std::string& job, v1::TrainingProgress* progress) {
  progress->set_optimizer_steps(progress->optimizer_steps() + 100);
  progress->set_scale_invariant_steps(progress->scale_invariant_steps() + 400);
  progress->set_fraction(-1);
  progress->set_total_batch_size(1024);
  progress->set_local_batch_size(64);
  progress->set_throughput(500 + DifferenceOf(job));
  progress->set_efficiency(0.75);
  progress->set_gradient_noise_scale(1500.5);
  progress->set_learning_rate_factor(2.5);
  progress->mutable_step_times()->set_compute(0.125);
  progress->mutable_step_times()->set_sync(0.03);
  if (progress->metrics_size() == 0) progress->add_metrics()->set_name("loss");
  progress->mutable_metrics(0)->set_value(1 + DifferenceOf(job));
  progress->mutable_metrics(0)->set_step(progress->optimizer_steps());
}

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_PLAYED_TRAINING_H_
