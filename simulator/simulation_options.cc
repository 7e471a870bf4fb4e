#include "simulator/simulation_options.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace adaptdl::simulator {

absl::Status CheckOptions(const SimulationOptions& options, absl::Span<const WorkloadJob> workload,
                          const Scheduler& scheduler) {
  const auto check = [](const char* name, double value, double least, bool exclusive) {
    const bool fine = std::isfinite(value) && (exclusive ? value > least : value >= least);
    return fine ? absl::OkStatus()
                : absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; it must be ",
                                                          exclusive ? "greater than " : "at least ", least));
  };
  for (const absl::Status& status : {
           check("round", options.round_seconds, 0, false),
           check("debounce", options.debounce_seconds, 0, true),
           check("interval", options.interval_seconds, 0, true),
           check("report period", options.report_seconds, 0, true),
           check("restart", options.restart_seconds.value_or(0), 0, false),
           check("interference", options.interference, 0, false),
           check("--checkpoint-period", options.checkpoint_seconds, 0, true),
           check("--gradient-memory", options.gradient_memory, 0, false),
       }) {
    if (!status.ok()) {
      return status;
    }
  }
  if (!options.nodes.pools.empty() && !scheduler.knows_demand()) {
    return absl::InvalidArgumentError(
        "--autoscale: this policy does not say what it could make of nodes; choose another one, as goodput");
  }
  for (const RestartTimes* times :
       {options.restart_times.get(), options.in_place_times.get(), options.newcomer_times.get()}) {
    if (times == nullptr) continue;
    if (absl::Status status = times->Cover(workload); !status.ok()) {
      return status;
    }
  }
  if (options.interference >= 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("interference is ", options.interference, "; it must be less than 1"));
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::simulator
