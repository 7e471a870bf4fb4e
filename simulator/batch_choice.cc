#include "simulator/batch_choice.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "libs/goodput/optimize.h"

namespace adaptdl::simulator {
namespace {

constexpr double kEpsilon = 1e-8;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Never more in all than the largest batch, unless the initial batch can't be split evenly.
goodput::BatchConfig Capped(goodput::BatchConfig batch, int replicas, const BatchBounds& bounds) {
  const int64_t parts = replicas * (batch.accumulation_steps + 1);
  const int64_t most = std::max(bounds.max_batch_size / parts, CeilDiv(bounds.init_batch_size, parts));
  batch.atomic_batch_size = std::min(batch.atomic_batch_size, most);
  return batch;
}

goodput::BatchConfig BestOfGrid(const goodput::GoodputFunction& goodput, goodput::Topology topology,
                                const BatchBounds& bounds) {
  const goodput::BatchLimits limits{bounds.max_batch_size, bounds.min_local, bounds.max_local, true};
  goodput::BatchConfig best;
  double best_value = -1;
  for (const double total : goodput::ReferenceGrid(bounds.init_batch_size, topology.replicas, limits)) {
    const double local = total / topology.replicas;
    double steps = std::ceil(local / static_cast<double>(bounds.max_local) - kEpsilon) - 1;
    if (topology.replicas == 1 && local > static_cast<double>(bounds.init_batch_size)) {
      steps = std::max(steps, 1.0);
    }
    const double atomic = std::ceil(local / (steps + 1) - kEpsilon);
    const goodput::BatchConfig batch{static_cast<int64_t>(atomic), static_cast<int64_t>(steps)};
    const bool feasible =
        batch.atomic_batch_size >= bounds.min_local && batch.atomic_batch_size <= bounds.max_local;
    const double value = feasible ? goodput.Evaluate(topology, batch) : 0;
    if (value > best_value) {
      best_value = value;
      best = batch;
    }
  }
  return best;
}

}  // namespace

goodput::BatchConfig SplitBatch(int64_t total, int replicas, const BatchBounds& bounds) {
  const int64_t local = CeilDiv(total, replicas);
  int64_t steps = CeilDiv(local, bounds.max_local) - 1;
  if (replicas == 1 && total > bounds.init_batch_size) {
    steps = std::max<int64_t>(steps, 1);
  }
  return Capped({CeilDiv(local, steps + 1), steps}, replicas, bounds);
}

goodput::BatchConfig FirstBatch(int replicas, const BatchBounds& bounds) {
  return SplitBatch(std::max(bounds.init_batch_size, bounds.min_local * replicas), replicas, bounds);
}

goodput::BatchConfig BestBatch(const goodput::GoodputFunction& goodput, goodput::Topology topology,
                               const BatchBounds& bounds, BatchSearch search) {
  if (search == BatchSearch::kGrid) {
    return Capped(BestOfGrid(goodput, topology, bounds), topology.replicas, bounds);
  }
  const std::optional<goodput::BatchChoice> choice = goodput::OptimizeBatchSize(
      goodput, topology, {bounds.max_batch_size, bounds.min_local, bounds.max_local, bounds.accumulation});
  return choice ? choice->batch : FirstBatch(topology.replicas, bounds);
}

}  // namespace adaptdl::simulator
