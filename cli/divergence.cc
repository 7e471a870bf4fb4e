#include "cli/divergence.h"

#include <cmath>
#include <cstdint>
#include <optional>

namespace adaptdl::cli {

std::optional<int64_t> LastSoundStep(const v1::GetJobHistoryResponse& history) {
  int64_t sound = -1;
  bool diverged = false;
  for (const v1::HistoryPoint& point : history.points()) {
    for (const v1::ReportedMetric& metric : point.metrics()) {
      if (metric.name() != "loss") continue;
      // A loss that is no number may be one again, as after a restart from a checkpoint.
      diverged = !std::isfinite(metric.value());
      if (!diverged) sound = metric.step();
    }
  }
  if (!diverged) return std::nullopt;
  return sound;
}

}  // namespace adaptdl::cli
