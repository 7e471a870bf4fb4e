// `adaptdl-sim replay`: one workload under one policy. Thread-safe.

#ifndef ADAPTDL_SIMULATOR_REPLAY_H_
#define ADAPTDL_SIMULATOR_REPLAY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine.h"
#include "simulator/schedulers/factory.h"

namespace adaptdl::simulator {

enum class OutputFormat { kTable = 0, kJson = 1, kCsv = 2 };

struct ReplayOptions {
  // Jobs recorded on a live cluster (simulator/history), with its nodes: then workload, traces and cluster
  // are not used, decisions follow events, and batch sizes and restarts are those of our own jobs. Empty:
  // none.
  std::string history = {};
  std::string workload;
  // The folders of traces. Behind them, a folder `pollux` beside the first one is looked into, too: Sia's
  // traces lack what they share with Pollux's.
  std::vector<std::string> traces;
  std::string cluster = "16x4";
  std::string policy;
  SchedulerOptions scheduler;
  // `free_moves` is set by the traces' rules, `seed` by the scheduler's.
  SimulationOptions simulation;
  // Recorded times of restarts (see RestartTimes). Empty: none.
  std::string restart_times;
  // The same of changes in place, of the jobs that can.
  std::string in_place_times;
  std::string newcomer_times;
  // Chance of each job to be a plain program, in [0, 1].
  double plain_part = 0;
  // Deviation of the logarithm of the jobs' work from their applications', at least 0.
  double work_scatter = 0;
  // Jobs of each application that were done before the first one came, for policies that go by those.
  int earlier_jobs = 0;
  // See simulator/node_flags.h; they set the parts of `simulation.nodes` that depend on GPU types. Empty:
  // none.
  std::string autoscale;
  std::string spot_nodes;
  std::string price;
  std::string spot_price;
  OutputFormat format = OutputFormat::kTable;
  // Whether the JSON has the GPUs of each job over time.
  bool timeline = false;
};

// The text for the standard output.
absl::StatusOr<std::string> Replay(const ReplayOptions& options);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_REPLAY_H_
