#include "libs/goodput/optimize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/goodput/model.h"

namespace adaptdl::goodput {
namespace {

constexpr int kGridSize = 50;
constexpr double kEpsilon = 1e-8;
// Larger batches than this are no batch sizes; keeps products of sizes and replicas within 64 bits.
constexpr int64_t kLargestBatch = int64_t{1} << 40;
// Accumulation steps beyond those that fill the largest batch only matter by rounding; so many are tried.
constexpr int64_t kExtraSteps = 64;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Limits with the defaults filled in.
struct Bounds {
  int64_t max_batch;
  int64_t low;
  int64_t high;
};

Bounds Resolve(const BatchLimits& limits, int64_t init_batch_size) {
  const int64_t max_batch = limits.max_batch_size > 0 ? limits.max_batch_size : init_batch_size;
  return {max_batch, limits.min_local > 0 ? limits.min_local : 1,
          limits.max_local > 0 ? limits.max_local : max_batch};
}

// Samples that one replica takes in one step: the feasible range.
struct Share {
  int64_t low;
  int64_t high;
};

// The best atomic batch size in [low, high] for fixed accumulation steps, by bisection: gain is concave and
// the step time convex in it, so goodput rises to one peak and then falls.
BatchChoice BestAtomicBatch(const GoodputFunction& goodput, Topology topology, int64_t steps, int64_t low,
                            int64_t high) {
  const auto value = [&](int64_t size) { return goodput.Evaluate(topology, {size, steps}); };
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (value(middle) < value(middle + 1)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return {{low, steps}, value(low)};
}

// No batch with at least `steps` accumulation steps has more goodput than this.
double UpperBound(const GoodputFunction& goodput, int replicas, int64_t steps, int64_t low, Share share) {
  const PerfParams& perf = goodput.perf();
  const double micro_steps = static_cast<double>(steps + 1);
  const double samples = std::max(static_cast<double>(low) * micro_steps, static_cast<double>(share.low));
  const double least_time = perf.alpha_c * micro_steps + perf.beta_c * samples;
  const double largest_total = static_cast<double>(replicas) * static_cast<double>(share.high);
  return goodput.Gain(largest_total) * static_cast<double>(goodput.init_batch_size()) / least_time;
}

}  // namespace

absl::Status Validate(const BatchLimits& limits, int64_t init_batch_size) {
  if (init_batch_size < 1 || init_batch_size > kLargestBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("init_batch_size is ", init_batch_size, "; it must be in [1, ", kLargestBatch, "]"));
  }
  if (limits.max_batch_size != 0 &&
      (limits.max_batch_size < init_batch_size || limits.max_batch_size > kLargestBatch)) {
    return absl::InvalidArgumentError(absl::StrCat("max_batch_size is ", limits.max_batch_size,
                                                   "; it must be in [init_batch_size = ", init_batch_size,
                                                   ", ", kLargestBatch, "]"));
  }
  const Bounds bounds = Resolve(limits, init_batch_size);
  if (limits.min_local < 0 || bounds.low > bounds.max_batch) {
    return absl::InvalidArgumentError(
        absl::StrCat("min_local_batch_size is ", limits.min_local,
                     "; it must be in [1, the largest total batch size = ", bounds.max_batch, "]"));
  }
  if (limits.max_local < 0 || bounds.high < bounds.low || bounds.high > kLargestBatch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_local_batch_size is ", limits.max_local,
        "; it must be at least min_local_batch_size = ", bounds.low, ", and at most ", kLargestBatch));
  }
  return absl::OkStatus();
}

std::optional<BatchChoice> OptimizeBatchSize(const GoodputFunction& goodput, Topology topology,
                                             const BatchLimits& limits) {
  const Bounds bounds = Resolve(limits, goodput.init_batch_size());
  if (topology.replicas > bounds.max_batch) return std::nullopt;
  Share share;
  share.low = CeilDiv(goodput.init_batch_size(), topology.replicas);
  share.high = std::max(bounds.max_batch / topology.replicas, share.low);

  // With so many accumulation steps every share can be reached; more of them only help by rounding.
  const int64_t filling = CeilDiv(share.high, std::min(bounds.high, share.high)) - 1;
  int64_t most_steps = 0;
  if (limits.accumulation && filling > 0) {
    most_steps = std::min(share.high / bounds.low - 1, 2 * filling + kExtraSteps);
  }
  std::optional<BatchChoice> best;
  for (int64_t steps = 0; steps <= most_steps; ++steps) {
    const int64_t low = std::max(bounds.low, CeilDiv(share.low, steps + 1));
    const int64_t high = std::min(bounds.high, share.high / (steps + 1));
    if (low > high) continue;
    if (best && UpperBound(goodput, topology.replicas, steps, bounds.low, share) <= best->goodput) break;
    const BatchChoice choice = BestAtomicBatch(goodput, topology, steps, low, high);
    if (!best || choice.goodput > best->goodput) best = choice;
  }
  return best;
}

std::vector<double> ReferenceGrid(int64_t init_batch_size, int replicas, const BatchLimits& limits) {
  const Bounds bounds = Resolve(limits, init_batch_size);
  const double first = static_cast<double>(std::max(init_batch_size, bounds.low * replicas));
  const double last = static_cast<double>(bounds.max_batch);
  const double step = (std::log10(last) - std::log10(first)) / (kGridSize - 1);
  std::vector<double> grid(kGridSize);
  for (int i = 0; i < kGridSize; ++i) grid[i] = std::pow(10.0, std::log10(first) + i * step);
  grid.front() = first;
  grid.back() = last;
  return grid;
}

BatchChoice OptimizeOnReferenceGrid(const GoodputFunction& goodput, Topology topology,
                                    const BatchLimits& limits) {
  const Bounds bounds = Resolve(limits, goodput.init_batch_size());
  const double low = static_cast<double>(bounds.low);
  const double high = static_cast<double>(bounds.high);
  const double init = static_cast<double>(goodput.init_batch_size());
  const bool single = topology.replicas == 1;
  std::optional<BatchChoice> best;
  for (const double total : ReferenceGrid(goodput.init_batch_size(), topology.replicas, limits)) {
    const double local = total / topology.replicas;
    double steps = 0;
    double size = single ? init : std::ceil(local - kEpsilon);
    if (limits.accumulation) {
      steps = std::ceil(local / high - kEpsilon) - 1;
      if (single && local > init + kEpsilon) steps = std::max(steps, 1.0);
      size = std::ceil(local / (steps + 1) - kEpsilon);
    }
    size = std::min(std::max(size, low), high);
    const BatchConfig batch = {static_cast<int64_t>(size), static_cast<int64_t>(steps)};
    const double value = goodput.Evaluate(topology, batch);
    if (!best || value > best->goodput) best = BatchChoice{batch, value};
  }
  return *best;
}

}  // namespace adaptdl::goodput
