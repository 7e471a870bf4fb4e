#include "libs/elastic/hints_reporter.h"

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/goodput/fit.h"
#include "libs/goodput/model.h"

namespace adaptdl::elastic {

Hints MakeHints(const StepProfile& profile, int64_t batch_size) {
  Hints hints;
  hints.init_batch_size = batch_size;
  hints.max_profiled_replicas = profile.MaxProfiledReplicas();
  const std::vector<goodput::Measurement> measurements = profile.Measurements();
  if (measurements.empty()) return hints;
  const absl::StatusOr<goodput::PerfParams> fitted = goodput::FitPerfParams(measurements);
  if (!fitted.ok()) {
    std::fprintf(stderr, "adaptdl: the step times cannot be fitted: %s\n",
                 fitted.status().ToString().c_str());
    return hints;
  }
  hints.perf_params = HintPerfParams{fitted->alpha_c, fitted->beta_c, fitted->alpha_n, fitted->beta_n,
                                     fitted->alpha_r, fitted->beta_r, fitted->gamma};
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
