#include "libs/elastic/profile/hints_reporter.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/say.h"
#include "libs/goodput/fit.h"
#include "libs/goodput/model.h"

namespace adaptdl::elastic {
namespace {

// 0 stands for "none".
std::optional<int64_t> IfAny(int64_t value) {
  return value > 0 ? std::optional<int64_t>(value) : std::nullopt;
}

}  // namespace

std::optional<goodput::PerfParams> FitProfile(const StepProfile& profile,
                                              const std::vector<std::string>& gpu_types) {
  const std::vector<goodput::Measurement> measurements = profile.Measurements(gpu_types);
  if (measurements.empty()) return std::nullopt;
  const absl::StatusOr<goodput::PerfParams> fitted = goodput::FitPerfParams(measurements);
  if (fitted.ok()) return *fitted;
  Say(Severity::kWarning, absl::StrCat("the step times cannot be fitted: ", fitted.status().ToString()));
  return std::nullopt;
}

Hints MakeHints(const StepProfile& profile, const JobTraits& traits) {
  Hints hints;
  hints.init_batch_size = traits.init_batch_size;
  hints.max_batch_size = IfAny(traits.limits.max_batch_size);
  hints.min_local_batch_size = IfAny(traits.limits.min_local);
  hints.max_local_batch_size = IfAny(traits.limits.max_local);
  hints.gradient_accumulation = traits.limits.accumulation;
  hints.max_profiled_replicas = profile.MaxProfiledReplicas();
  if (traits.grad_params) {
    hints.grad_params = HintGradParams{traits.grad_params->sqr, traits.grad_params->var};
  }
  const std::vector<std::vector<std::string>> all = profile.GpuTypes();
  for (const std::vector<std::string>& types : all) {
    const bool newest = &types == &all.back();
    if (types.size() != 1 && !newest) continue;
    const std::optional<goodput::PerfParams> fitted = FitProfile(profile, types);
    if (!fitted) continue;
    const HintPerfParams params = {fitted->alpha_c, fitted->beta_c, fitted->alpha_n, fitted->beta_n,
                                   fitted->alpha_r, fitted->beta_r, fitted->gamma};
    if (types.size() == 1) hints.perf_params_by_gpu_type[types.front()] = params;
    if (newest) hints.perf_params = params;
  }
  return hints;
}

void HintsReporter::SetBatchSize(int64_t init_batch_size, const goodput::BatchLimits& limits) {
  MutexLock lock(&mutex_);
  traits_.init_batch_size = init_batch_size;
  traits_.limits = limits;
}

void HintsReporter::SetGradParams(const goodput::GradParams& grad) {
  MutexLock lock(&mutex_);
  traits_.grad_params = grad;
}

bool HintsReporter::HasGrown() {
  const int measured = profile_->MaxProfiledReplicas();
  const double seconds = profile_->AddedSeconds();
  if (measured > measured_replicas_) {
    measured_replicas_ = measured;
    measured_from_ = seconds;
  }
  return measured_replicas_ > told_replicas_ && seconds - measured_from_ >= options_.first_after;
}

bool HintsReporter::Tick(double now) {
  JobTraits traits;
  {
    MutexLock lock(&mutex_);
    traits = traits_;
  }
  const bool has_grown = HasGrown();
  if (traits.init_batch_size == 0 || profile_->AddedSeconds() < options_.first_after) return false;
  if (last_ && now - *last_ < (has_grown ? options_.first_after : options_.period)) return false;
  last_ = now;
  const Hints hints = MakeHints(*profile_, traits);
  told_replicas_ = hints.max_profiled_replicas;
  const absl::Status status = control_->ReportHints(hints);
  if (!status.ok()) {
    Say(Severity::kWarning, absl::StrCat("hints were not reported, training goes on: ", status.ToString()));
  }
  return status.ok();
}

}  // namespace adaptdl::elastic
