#include "libs/hints/hints.h"

namespace adaptdl::hints {

goodput::PerfParams ToPerfParams(const v1::PerfParams& params) {
  return {params.alpha_c(), params.beta_c(), params.alpha_n(), params.beta_n(),
          params.alpha_r(), params.beta_r(), params.gamma()};
}

goodput::BatchLimits ToLimits(const v1::Hints& hints) {
  return {hints.max_batch_size(), hints.min_local_batch_size(), hints.max_local_batch_size(),
          hints.gradient_accumulation()};
}

std::optional<goodput::GoodputFunction> ModelOf(const v1::Hints& hints) {
  if (!hints.has_perf_params() || hints.init_batch_size() < 1) return std::nullopt;
  const goodput::PerfParams perf = ToPerfParams(hints.perf_params());
  goodput::GradParams grad;
  if (hints.has_grad_params()) grad = {hints.grad_params().norm(), hints.grad_params().var()};
  if (!goodput::Validate(perf).ok() || !goodput::Validate(grad).ok()) return std::nullopt;
  return goodput::GoodputFunction(perf, grad, hints.init_batch_size());
}

}  // namespace adaptdl::hints
