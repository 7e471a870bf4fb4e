// The kinds of models that jobs of a made-up fleet train, and jobs made of them.
//
// All parameters are plausible, none was measured: step times are those of the throughput model (libs/goodput) on a
// reference GPU, an A100 by name; GPUs of other types are so many times as fast.
//
// Pure; thread-safe.

#ifndef ADAPTDL_SIMULATOR_FLEET_MODEL_KINDS_H_
#define ADAPTDL_SIMULATOR_FLEET_MODEL_KINDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "libs/goodput/model.h"
#include "simulator/fleet/submissions.h"
#include "simulator/traces/workload.h"

namespace adaptdl::simulator {

struct ModelKind {
  const char* name = "";
  // Part of the jobs. All parts add up to 1.
  double part = 0;
  // Median of the time that all of the work takes on one reference GPU, in hours.
  double median_hours = 0;
  goodput::PerfParams perf;
  int64_t init_batch_size = 0;
  int64_t max_batch_size = 0;
  int64_t max_local = 0;
  // Of the gradients, in samples: about the batch size up to which larger batches save steps.
  double noise_scale = 0;
  double restart_seconds = 0;
  // More than 1: the model needs so many GPUs, and has multiples of that by powers of two.
  int least_replicas = 1;
};

absl::Span<const ModelKind> ModelKinds();

// How fast one GPU of a type is, by the reference. 1: a type that is not known.
double GpuSpeed(const std::string& gpu_type);

// The job of a submission, for a cluster of these GPU types. Jobs of a kind differ: step times by a factor of up to 1.5 and noise
// by one of up to 2, drawn by seed and number of the submission.
WorkloadJob MakeJob(const Submission& submission, uint64_t seed, const std::vector<std::string>& gpu_types);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_FLEET_MODEL_KINDS_H_
