// How a simulated job chooses its batch size. Pure functions; thread-safe.

#ifndef ADAPTDL_SIMULATOR_BATCH_CHOICE_H_
#define ADAPTDL_SIMULATOR_BATCH_CHOICE_H_

#include <cstdint>

#include "libs/goodput/model.h"

namespace adaptdl::simulator {

enum class BatchSearch {
  // libs/goodput: what our training library does.
  kLibrary = 0,
  // 50 candidates in geometric progression; one replica accumulates at least once when it exceeds the initial
  // batch size: what the published simulators do.
  kGrid = 1,
};

struct BatchBounds {
  int64_t init_batch_size = 1;
  int64_t max_batch_size = 1;
  int64_t min_local = 1;
  int64_t max_local = 1;
  // Whether BatchSearch::kLibrary may accumulate gradients.
  bool accumulation = true;

  friend bool operator==(const BatchBounds&, const BatchBounds&) = default;
};

// Splits a given total: as few accumulation steps as the bounds allow (one more rule for one replica: see
// kGrid).
goodput::BatchConfig SplitBatch(int64_t total, int replicas, const BatchBounds& bounds);

// What a job takes that has no model yet: the smallest total that all replicas can share.
goodput::BatchConfig FirstBatch(int replicas, const BatchBounds& bounds);

// The batch with the largest goodput.
goodput::BatchConfig BestBatch(const goodput::GoodputFunction& goodput, goodput::Topology topology,
                               const BatchBounds& bounds, BatchSearch search);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_BATCH_CHOICE_H_
