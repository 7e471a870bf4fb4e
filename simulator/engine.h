// The simulation: jobs arrive, a scheduler decides, jobs advance, until all are done.
//
//   absl::StatusOr<SimulationResult> result = Simulate(cluster, workload, scheduler, clock, {});
//
// Deterministic but for the measured decision times. Thread-safe for different schedulers.

#ifndef ADAPTDL_SIMULATOR_ENGINE_H_
#define ADAPTDL_SIMULATOR_ENGINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/base/clock.h"
#include "simulator/cluster.h"
#include "simulator/nodes.h"
#include "simulator/schedulers/scheduler.h"
#include "simulator/simulation_options.h"
#include "simulator/traces/workload.h"

namespace adaptdl::simulator {

struct JobOutcome {
  std::string name;
  std::string application;
  double submitted = 0;
  double started = 0;
  double completed = 0;
  double gpu_seconds = 0;
  int restarts = 0;
  // Failures of its nodes, and the time spent on work that these cost it; a plain job loses work whenever it
  // is stopped.
  int failures = 0;
  double lost_seconds = 0;
  bool plain = false;

  double jct() const { return completed - submitted; }
};

// GPUs of one job over one stretch of time.
struct Segment {
  int job = 0;  // index of its outcome
  double start = 0;
  double end = 0;
  int gpus = 0;
  int gpu_type = 0;
};

// How one job stands after a decision, while it has GPUs and has measured its gradients.
struct JobSample {
  double time = 0;
  int gpus = 0;
  int64_t batch_size = 0;
  // Of the gradients, in samples: the initial batch size times variance by squared norm. Up to about this
  // batch size, larger batches save steps (McCandlish and others, 2018).
  double noise_scale = 0;
};

struct SimulationResult {
  std::vector<JobOutcome> jobs;  // in order of submission
  std::vector<Segment> timeline;
  std::vector<double> decision_seconds;  // real time, by decision
  std::vector<JobSample> watched = {};   // the course of the watched job
  // When nodes were there, from the first submission on. Empty: all of them, all the time.
  std::vector<NodeSpan> nodes = {};
  int node_failures = 0;
  int node_evictions = 0;  // spot nodes that were told that they are taken away
};

// INVALID_ARGUMENT: an option is out of its range, or the watched job is not in the workload. INTERNAL: the
// scheduler's answer does not fit the cluster. FAILED_PRECONDITION: the traces do not cover what was decided,
// or the scheduler leaves jobs waiting for ever. `clock` measures decisions.
absl::StatusOr<SimulationResult> Simulate(const Cluster& cluster, absl::Span<const WorkloadJob> workload,
                                          Scheduler& scheduler, const Clock& clock,
                                          const SimulationOptions& options);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_ENGINE_H_
