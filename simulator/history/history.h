// What a live cluster remembers of its jobs: when they came, what they learnt about themselves, how far they
// got. `adaptdl what-if` gathers it; simulator/history/fitted_workload.h makes jobs of it that can be
// replayed.
//
// Plain values; thread-safe.

#ifndef ADAPTDL_SIMULATOR_HISTORY_HISTORY_H_
#define ADAPTDL_SIMULATOR_HISTORY_HISTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/goodput/model.h"
#include "libs/scheduling/resources.h"
#include "simulator/traces/workload.h"

namespace adaptdl::simulator {

// The type of nodes without GPUs.
inline constexpr char kNoGpuType[] = "cpu";

enum class RecordedEnd { kNotYet = 0, kSucceeded = 1, kFailed = 2, kCancelled = 3 };

// Times are in seconds since any moment, the same for all jobs.
struct RecordedJob {
  // Unique. "namespace/name".
  std::string name;
  double submitted = 0;
  std::optional<double> started = {};
  std::optional<double> completed = {};
  RecordedEnd end = RecordedEnd::kNotYet;
  // Re-scales in place among them, as in the simulation.
  int restarts = 0;
  // Replicas that it held, times time.
  double replica_seconds = 0;

  // Its hints. Batch sizes in samples; 0: it has told nothing (the initial one), or as in
  // goodput::BatchLimits.
  int64_t init_batch_size = 0;
  int64_t max_batch_size = 0;
  int64_t min_local = 0;
  int64_t max_local = 0;
  bool accumulation = false;
  // Fitted throughput model, by GPU type (kNoGpuType: none).
  std::map<std::string, goodput::PerfParams> perf = {};
  std::optional<goodput::GradParams> gradient = {};

  // Work in scale-invariant steps: done, and in all as far as the program says. 0: unknown.
  double steps_done = 0;
  double steps_total = 0;
  // What a re-scale took, measured.
  std::optional<double> rescale_seconds = {};
  ReplicaDemand demand = {};
};

struct RecordedNode {
  std::string id;
  // kNoGpuType: none.
  std::string gpu_type;
  scheduling::Resources capacity;
};

struct History {
  std::vector<RecordedNode> nodes;
  std::vector<RecordedJob> jobs;
};

// The file format: one JSON object.
std::string ToJson(const History& history);
// INVALID_ARGUMENT: no such document; names what is wrong.
absl::StatusOr<History> ParseHistory(absl::string_view text);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_HISTORY_HISTORY_H_
