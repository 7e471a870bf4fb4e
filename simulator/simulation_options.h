// What a simulation goes by. Plain values; thread-safe.

#ifndef ADAPTDL_SIMULATOR_SIMULATION_OPTIONS_H_
#define ADAPTDL_SIMULATOR_SIMULATION_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "simulator/batch_choice.h"
#include "simulator/nodes.h"
#include "simulator/restart_times.h"
#include "simulator/schedulers/scheduler.h"
#include "simulator/traces/workload.h"

namespace adaptdl::simulator {

struct SimulationOptions {
  // Length of a round, in seconds. 0: decisions follow events (arrival, completion, a job's first measurement
  // at a size), as in the live allocator.
  double round_seconds = 60;
  // With events: how long the scheduler waits for further ones, the longest time between decisions, and how
  // often jobs report. All greater than 0, in seconds.
  double debounce_seconds = 0.1;
  double interval_seconds = 60;
  double report_seconds = 30;
  // What a restart costs, in seconds. Nothing: what the application's constant says.
  std::optional<double> restart_seconds = 30;
  // Not null: what restarts cost is drawn from these, instead. They cover the workload.
  std::shared_ptr<const RestartTimes> restart_times = nullptr;
  // Not null: what changes take of a job that runs and keeps a replica where it is (GPUs of the same type on
  // a node that it has already). They cover the workload. Null: changes are restarts.
  std::shared_ptr<const RestartTimes> in_place_times = nullptr;
  // Not null: so long before such a change, which waits for them, are its newcomers launched; meanwhile the job trains
  // as before, and all of its GPUs are taken. They cover the workload. Null: newcomers are there at once.
  std::shared_ptr<const RestartTimes> newcomer_times = nullptr;
  // Nodes that fail, are taken away, or come and go with the demand.
  NodeOptions nodes = {};
  // How often jobs write a checkpoint; a failure costs them what came after the last one. Greater than 0.
  double checkpoint_seconds = 600;
  // Jobs know their gradients' statistics as averages over about the last so many batches of the initial size, as the
  // training library does (1000), and the squared norm as the most that it may be by that, of an estimate in one step of
  // `gradient_period`. 0: as they are at the moment, as in the published simulators.
  double gradient_memory = 0;
  int gradient_period = 8;
  // Of everything that is random here.
  uint64_t seed = 1;
  // Whether a job may move to other nodes without a restart, if shape and GPU type stay.
  bool free_moves = false;
  // Distributed jobs (on several nodes) that share a node are slowed down by this fraction. In [0, 1).
  double interference = 0;
  BatchSearch search = BatchSearch::kGrid;
  // The job whose course is recorded. Empty: none.
  std::string watched_job = {};  // a default, so that designated initialisers may leave it out

  RestartCost restart() const {
    return {restart_seconds, restart_times.get(), seed, in_place_times.get(), newcomer_times.get()};
  }
};

// Whether they make sense, also for this workload and scheduler; the options of nodes are checked by
// CheckNodeOptions(). INVALID_ARGUMENT: one does not; names it.
absl::Status CheckOptions(const SimulationOptions& options, absl::Span<const WorkloadJob> workload,
                          const Scheduler& scheduler);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SIMULATION_OPTIONS_H_
