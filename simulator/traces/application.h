// What the simulator knows about an application, and where it reads it.
//
// The folders are those of the published simulators:
//   traces/<application>/validation-<batch size>.csv    how it trains
//   traces/<application>/placements[-<GPU type>].csv    step times (no type: "aws")
//   interp-table/<application>.f64, index.json          step times on many nodes, tabulated
//   delaunay/<application>[-<GPU type>]-points.csv, ... step times on many nodes, triangulated
// Several folders may be given: each file is taken from the first one that has it.
//
// Immutable once loaded; thread-safe.

#ifndef ADAPTDL_SIMULATOR_TRACES_APPLICATION_H_
#define ADAPTDL_SIMULATOR_TRACES_APPLICATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/traces/step_times.h"
#include "simulator/traces/training_curve.h"

namespace adaptdl::simulator {

// The two published simulators differ in some constants.
enum class TraceRules {
  kPollux = 0,
  // Divides all speeds by a factor per application; bounds the atomic batch size by what was measured on the
  // very placement; a change of nodes that keeps the shape and the GPU type is no restart.
  kSia = 1,
};

// The rules that the traces in a folder were made for: Sia's name the GPU type in their files.
TraceRules DetectRules(const std::string& folder);

struct Application {
  std::string name;
  TrainingCurve curve;
  // By GPU type, in the order asked for.
  std::vector<StepTimes> step_times = {};
  // Bounds of the atomic batch size, by GPU type.
  std::vector<int64_t> min_local = {};
  std::vector<int64_t> max_local = {};
  // True speeds are divided by this.
  double calibration = 1;
  // Whether the largest atomic batch size depends on the placement.
  bool local_limit_per_placement = false;
  // Whether a job may accumulate gradients over several micro-steps.
  bool accumulation = true;
  // How long a restart takes.
  double restart_seconds = 30;
  // Adaptive jobs: most GPUs, and the batch size they keep; 0: they choose.
  int max_replicas = 64;
  int64_t kept_batch_size = 0;

  int64_t init_batch_size() const { return curve.min_batch_size(); }
  int64_t max_batch_size() const { return curve.max_batch_size(); }
};

// Reads one application for these GPU types. NOT_FOUND: no such traces, named.
absl::StatusOr<Application> LoadApplication(const std::vector<std::string>& folders, const std::string& name,
                                            const std::vector<std::string>& gpu_types, TraceRules rules);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_TRACES_APPLICATION_H_
