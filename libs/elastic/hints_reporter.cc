#include "libs/elastic/hints_reporter.h"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/goodput/fit.h"
#include "libs/goodput/model.h"

namespace adaptdl::elastic {

namespace {

std::optional<HintPerfParams> Fit(const std::vector<goodput::Measurement>& measurements) {
  if (measurements.empty()) return std::nullopt;
  const absl::StatusOr<goodput::PerfParams> fitted = goodput::FitPerfParams(measurements);
  if (!fitted.ok()) {
    std::fprintf(stderr, "adaptdl: the step times cannot be fitted: %s\n",
                 fitted.status().ToString().c_str());
    return std::nullopt;
  }
  return HintPerfParams{fitted->alpha_c, fitted->beta_c, fitted->alpha_n, fitted->beta_n,
                        fitted->alpha_r, fitted->beta_r, fitted->gamma};
}

}  // namespace

Hints MakeHints(const StepProfile& profile, int64_t batch_size) {
  Hints hints;
  hints.init_batch_size = batch_size;
  hints.max_profiled_replicas = profile.MaxProfiledReplicas();
  const std::vector<std::vector<std::string>> all = profile.GpuTypes();
  for (const std::vector<std::string>& types : all) {
    const bool newest = &types == &all.back();
    if (types.size() != 1 && !newest) continue;
    const std::optional<HintPerfParams> params = Fit(profile.Measurements(types));
    if (params && types.size() == 1) hints.perf_params_by_gpu_type[types.front()] = *params;
    if (newest) hints.perf_params = params;
  }
  return hints;
}

bool HintsReporter::Tick(double now) {
  const int64_t batch_size = batch_size_;
  if (batch_size == 0 || profile_->AddedSeconds() < options_.first_after) return false;
  if (last_ && now - *last_ < options_.period) return false;
  last_ = now;
  const absl::Status status = control_->ReportHints(MakeHints(*profile_, batch_size));
  if (!status.ok()) {
    std::fprintf(stderr, "adaptdl: hints were not reported, training goes on: %s\n",
                 status.ToString().c_str());
  }
  return status.ok();
}

}  // namespace adaptdl::elastic
