#include "libs/goodput/optimize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/goodput/model.h"
#include "libs/goodput/overlap.h"

namespace adaptdl::goodput {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int kGridSize = 50;
constexpr double kEpsilon = 1e-8;
// So many more accumulation steps are tried than the model asks for: they only matter by rounding.
constexpr int64_t kExtraSteps = 256;

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

// The step time of one topology against n, the samples that a replica takes in a step, as a straight line
// `fixed + per_sample * n`. The step time is convex in n, so that a tangent is nowhere above it.
struct StepTimeLine {
  double fixed;
  double per_sample;
};

// Goodput of one topology.
class Curve {
 public:
  Curve(const GoodputFunction& goodput, Topology topology)
      : perf_(goodput.perf()),
        network_time_(NetworkTime(perf_, topology)),
        var_share_(goodput.grad().var * static_cast<double>(goodput.init_batch_size()) / topology.replicas),
        sqr_(goodput.grad().sqr),
        numerator_((goodput.grad().var + sqr_) * static_cast<double>(goodput.init_batch_size())),
        constant_gain_(var_share_ + sqr_ > 0 ? 0 : static_cast<double>(goodput.init_batch_size())) {}

  struct Point {
    double goodput;
    // Whether goodput rises with the samples.
    bool rises;
    StepTimeLine tangent;
  };

  Point At(BatchConfig batch) const {
    const double steps = static_cast<double>(batch.accumulation_steps);
    const double samples = static_cast<double>(batch.atomic_batch_size) * (steps + 1);
    const double accum_time = AccumTime(perf_, static_cast<double>(batch.atomic_batch_size));
    const internal::Overlapped last = internal::Overlap(accum_time, network_time_, perf_.gamma);
    // How the last micro-step's time grows with its compute time.
    const double slope = last.share * last.time / accum_time;
    const StepTimeLine tangent = {(steps + slope) * perf_.alpha_c + (1 - last.share) * last.time,
                                  (steps + slope) * perf_.beta_c / (steps + 1)};
    return {Gain(samples) / (steps * accum_time + last.time),
            var_share_ * tangent.fixed > sqr_ * tangent.per_sample * samples * samples, tangent};
  }

  // The samples that are best when the step time is this line. May be infinite.
  double Best(StepTimeLine time) const {
    const double gained = var_share_ * time.fixed;
    const double lost = sqr_ * time.per_sample;
    if (gained <= 0) return 0;
    // Not a division by 0, which may be the negative one.
    if (lost <= 0) return std::numeric_limits<double>::infinity();
    return std::sqrt(gained / lost);
  }

  // The goodput there, within bounds of the samples.
  double Most(StepTimeLine time, Share share) const {
    const double samples =
        std::clamp(Best(time), static_cast<double>(share.low), static_cast<double>(share.high));
    return Gain(samples) / (time.fixed + time.per_sample * samples);
  }

  // The step time if computation and communication did not overlap.
  StepTimeLine WithoutOverlap(int64_t steps) const {
    return {static_cast<double>(steps + 1) * perf_.alpha_c + network_time_, perf_.beta_c};
  }

  // The step time when every micro-step takes `size` samples, against the number of samples.
  StepTimeLine OfFullMicroSteps(int64_t size) const {
    const double accum_time = AccumTime(perf_, static_cast<double>(size));
    const double last = internal::Overlap(accum_time, network_time_, perf_.gamma).time;
    return {std::max(last - accum_time, 0.0), accum_time / static_cast<double>(size)};
  }

 private:
  // Progress of a step in samples of the initial batch size.
  double Gain(double samples) const {
    if (constant_gain_ > 0) return constant_gain_;
    return numerator_ * samples / (var_share_ + sqr_ * samples);
  }

  const PerfParams& perf_;
  const double network_time_;
  const double var_share_;
  const double sqr_;
  const double numerator_;
  const double constant_gain_;
};

struct Peak {
  BatchChoice choice;
  // The step time's tangent there.
  StepTimeLine tangent;
};

// The best atomic batch size in [low, high] for fixed accumulation steps. Goodput rises to one peak and then
// falls; at the peak, the tangent has its best number of samples where it touches. So tangents lead there.
Peak FindPeak(const Curve& curve, int64_t steps, int64_t low, int64_t high) {
  const auto best_size = [&](StepTimeLine line) {
    const double size = curve.Best(line) / static_cast<double>(steps + 1);
    return static_cast<int64_t>(std::clamp(size, static_cast<double>(low), static_cast<double>(high)));
  };
  Peak peak = {{{low, steps}, -1}, {}};
  // Goodput rises at all sizes below `first`, and falls at all beyond `last`.
  int64_t first = low;
  int64_t last = high;
  int64_t size = best_size(curve.WithoutOverlap(steps));
  for (int probes = 1; first <= last; ++probes) {
    const Curve::Point at = curve.At({size, steps});
    if (at.goodput > peak.choice.goodput ||
        (at.goodput == peak.choice.goodput && size < peak.choice.batch.atomic_batch_size)) {
      peak = {{{size, steps}, at.goodput}, at.tangent};
    }
    if (at.rises) {
      first = size + 1;
    } else {
      last = size - 1;
    }
    if (first > last) break;
    // Where the step time bends sharply, tangents on either side mislead; halves always lead there.
    size = probes % 3 == 0 ? first + (last - first) / 2 : std::clamp(best_size(at.tangent), first, last);
  }
  return peak;
}

// So many accumulation steps are worth while with full micro-steps of `size` samples: goodput rises up to
// there, and so much that with fewer steps nothing but full micro-steps comes into question.
int64_t StepsWorthWhile(const Curve& curve, int64_t size, int64_t most) {
  const double micro_steps = curve.Best(curve.OfFullMicroSteps(size)) / static_cast<double>(size);
  return static_cast<int64_t>(std::clamp(micro_steps - 1, 0.0, static_cast<double>(most)));
}

}  // namespace

absl::Status Validate(const BatchLimits& limits, int64_t init_batch_size) {
  if (init_batch_size < 1 || init_batch_size > kLargestBatchSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("init_batch_size is ", init_batch_size, "; it must be in [1, ", kLargestBatchSize, "]"));
  }
  if (limits.max_batch_size != 0 &&
      (limits.max_batch_size < init_batch_size || limits.max_batch_size > kLargestBatchSize)) {
    return absl::InvalidArgumentError(absl::StrCat("max_batch_size is ", limits.max_batch_size,
                                                   "; it must be in [init_batch_size = ", init_batch_size,
                                                   ", ", kLargestBatchSize, "]"));
  }
  const Bounds bounds = Resolve(limits, init_batch_size);
  if (limits.min_local < 0 || bounds.low > bounds.max_batch) {
    return absl::InvalidArgumentError(
        absl::StrCat("min_local_batch_size is ", limits.min_local,
                     "; it must be in [1, the largest total batch size = ", bounds.max_batch, "]"));
  }
  if (limits.max_local < 0 || bounds.high < bounds.low || bounds.high > kLargestBatchSize) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_local_batch_size is ", limits.max_local,
        "; it must be at least min_local_batch_size = ", bounds.low, ", and at most ", kLargestBatchSize));
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

  const Curve curve(goodput, topology);
  // The fewest steps with which the smallest share fits, and the most with which micro-steps can be full.
  const int64_t fewest = CeilDiv(share.low, bounds.high) - 1;
  if (fewest > 0 && !limits.accumulation) return std::nullopt;
  int64_t steps = fewest;
  int64_t most_steps = fewest;
  if (limits.accumulation && share.high > bounds.high) {
    steps = std::max(fewest, StepsWorthWhile(curve, bounds.high, share.high / bounds.high - 1));
    most_steps = std::min(share.high / bounds.low - 1, steps + kExtraSteps);
  }
  std::optional<Peak> best;
  for (; steps <= most_steps; ++steps) {
    const int64_t low = std::max(bounds.low, CeilDiv(share.low, steps + 1));
    const int64_t high = std::min(bounds.high, share.high / (steps + 1));
    if (low > high) continue;
    if (best) {
      // Every further step costs at least alpha_c.
      const double more = static_cast<double>(steps - best->choice.batch.accumulation_steps);
      const StepTimeLine bound = {best->tangent.fixed + more * goodput.perf().alpha_c,
                                  best->tangent.per_sample};
      if (curve.Most(bound, share) <= best->choice.goodput) break;
    }
    const Peak peak = FindPeak(curve, steps, low, high);
    if (!best || peak.choice.goodput > best->choice.goodput) best = peak;
  }
  if (best) return BatchChoice{best->choice.batch, goodput.Evaluate(topology, best->choice.batch)};
  // No total within the limits can be split evenly: the next larger one.
  const BatchConfig rounded = {CeilDiv(share.low, fewest + 1), fewest};
  if (rounded.atomic_batch_size < bounds.low) return std::nullopt;
  return BatchChoice{rounded, goodput.Evaluate(topology, rounded)};
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
