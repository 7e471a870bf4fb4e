// The best batch size: the search for the atomic batch size and the accumulation steps with the largest
// goodput.
//
//   std::optional<BatchChoice> best = OptimizeBatchSize(goodput, {.nodes = 1, .replicas = 3},
//                                                       {.max_batch_size = 1280, .max_local = 256});
//   if (!best) ...  // these replicas can't be fed within these limits
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_GOODPUT_OPTIMIZE_H_
#define ADAPTDL_LIBS_GOODPUT_OPTIMIZE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "libs/goodput/model.h"

namespace adaptdl::goodput {

struct BatchLimits {
  // Largest total batch size, in samples. 0: the initial batch size, which fixes the total.
  int64_t max_batch_size = 0;
  // Bounds of the atomic batch size, inclusive. 0: 1, and the largest total batch size.
  int64_t min_local = 0;
  int64_t max_local = 0;
  // Whether gradients may be accumulated over several micro-steps.
  bool accumulation = false;
};

struct BatchChoice {
  BatchConfig batch;
  double goodput = 0;
};

// OK if the limits can be used with this initial batch size; else INVALID_ARGUMENT that names the field and
// its value. For values that come from outside.
absl::Status Validate(const BatchLimits& limits, int64_t init_batch_size);

// The feasible batch configuration with the largest goodput; of several the one with fewer accumulation
// steps, then the smaller batch. nullopt if there is none.
//
// Feasible means: the atomic batch size is within its bounds, there is no accumulation unless allowed, every
// replica gets a sample, and the total is between the initial and the largest batch size. Since all replicas
// take the same number of samples in every micro-step, a total that can't be split evenly is rounded up to
// the next that can when nothing else is left: a job that keeps a batch of 128 runs on 3 replicas with 43
// samples each.
//
// "Largest" is exact for each number of accumulation steps that is tried. Others are left out when the model
// rules them out, or when hundreds were tried: atomic batches of a few samples may then miss half a per cent.
//
// REQUIRES: the limits pass Validate(), 1 <= nodes <= replicas.
std::optional<BatchChoice> OptimizeBatchSize(const GoodputFunction& goodput, Topology topology,
                                             const BatchLimits& limits);

// What AdaptDL's Python implementation chooses: the best of 50 candidates, with its peculiarities (the atomic
// batch size is clamped, so that the total may exceed the largest; a single replica without accumulation
// keeps the initial batch size). For comparison with the reference.
BatchChoice OptimizeOnReferenceGrid(const GoodputFunction& goodput, Topology topology,
                                    const BatchLimits& limits);

// Its candidates for the total batch size: 50, in geometric progression from max(B0, min_local * R) to the
// largest.
std::vector<double> ReferenceGrid(int64_t init_batch_size, int replicas, const BatchLimits& limits);

}  // namespace adaptdl::goodput

#endif  // ADAPTDL_LIBS_GOODPUT_OPTIMIZE_H_
