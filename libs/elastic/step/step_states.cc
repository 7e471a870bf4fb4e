#include "libs/elastic/step/step_states.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "libs/base/say.h"

namespace adaptdl::elastic {

bool NoiseState::Load(const std::string& bytes) {
  const absl::Status status = noise_->Load(bytes);
  if (!status.ok()) Say(Severity::kError, status.ToString());
  return status.ok();
}

std::string GradScalerState::Save() {
  return absl::StrFormat("%.17g %d", scaler_->scale(), scaler_->growth_steps());
}

bool GradScalerState::Load(const std::string& bytes) {
  const std::vector<std::string> parts = absl::StrSplit(bytes, ' ');
  double scale = 0;
  int64_t steps = 0;
  if (parts.size() != 2 || !absl::SimpleAtod(parts[0], &scale) || !absl::SimpleAtoi(parts[1], &steps) ||
      !(scale > 0) || !std::isfinite(scale) || steps < 0) {
    return false;
  }
  scaler_->Restore(scale, steps);
  return true;
}

}  // namespace adaptdl::elastic
