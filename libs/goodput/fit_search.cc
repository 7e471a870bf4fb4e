#include "libs/goodput/fit_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include <nlopt.h>

#include "absl/types/span.h"
#include "libs/goodput/fit_loss.h"

namespace adaptdl::goodput::internal {
namespace {

// A quadratic model of logarithms is not trusted beyond a factor of e^2.
constexpr double kLongestStep = 2;
// Two steps in a row that gain less than this part of the loss end the descent.
constexpr double kLeastGain = 1e-5;
constexpr int kMostSteps = 150;
constexpr double kMostDamping = 1e12;

// Some of the parameters.
struct Subset {
  std::array<int, kCount> indices;
  int size = 0;
};

Subset Unfixed(const Box& box) {
  Subset subset;
  for (int i = 0; i < kCount; ++i) {
    if (box.low[i] < box.high[i]) subset.indices[subset.size++] = i;
  }
  return subset;
}

// Those that are not pushed against a bound.
Subset Movable(const Vector& point, const Vector& gradient, const Box& box) {
  Subset subset;
  for (int i = 0; i < kCount; ++i) {
    const bool held = (point[i] <= box.low[i] && gradient[i] >= 0) ||
                      (point[i] >= box.high[i] && gradient[i] <= 0) || box.low[i] >= box.high[i];
    if (!held) subset.indices[subset.size++] = i;
  }
  return subset;
}

// The step to the least value of the damped quadratic (Cholesky); nullopt if that has none.
std::optional<Vector> DampedStep(const Expansion& at, const Subset& subset, double damping) {
  const auto& index = subset.indices;
  Matrix factor;
  Vector solution;
  for (int i = 0; i < subset.size; ++i) {
    double right = -at.gradient[index[i]];
    for (int j = 0; j <= i; ++j) {
      double rest = at.curvature[index[i]][index[j]];
      // The absolute part moves parameters that the measurements hardly tell.
      if (i == j) rest += damping * (rest + 1e-6);
      for (int k = 0; k < j; ++k) rest -= factor[i][k] * factor[j][k];
      if (i == j && !(rest > 0)) return std::nullopt;
      factor[i][j] = i == j ? std::sqrt(rest) : rest / factor[j][j];
    }
    for (int k = 0; k < i; ++k) right -= factor[i][k] * solution[k];
    solution[i] = right / factor[i][i];
  }
  Vector step = {};
  for (int i = subset.size - 1; i >= 0; --i) {
    for (int k = i + 1; k < subset.size; ++k) solution[i] -= factor[k][i] * solution[k];
    solution[i] /= factor[i][i];
    step[index[i]] = solution[i];
  }
  return step;
}

Vector Moved(const Vector& point, const Vector& step, const Box& box) {
  Vector moved;
  for (int i = 0; i < kCount; ++i) {
    moved[i] =
        std::clamp(point[i] + std::clamp(step[i], -kLongestStep, kLongestStep), box.low[i], box.high[i]);
  }
  return moved;
}

// What the quadratic says that the loss falls by from `point` to `moved`.
double ExpectedGain(const Expansion& at, const Vector& point, const Vector& moved) {
  double gain = 0;
  for (int i = 0; i < kCount; ++i) {
    const double step = moved[i] - point[i];
    double slope = at.gradient[i] + at.curvature[i][i] * step / 2;
    for (int j = 0; j < i; ++j) slope += at.curvature[i][j] * (moved[j] - point[j]);
    gain -= slope * step;
  }
  return gain;
}

// The loss as NLopt calls it: of the parameters that are not fixed.
struct Objective {
  absl::Span<const Row> rows;
  double smoothing;
  Subset subset;
  Vector point;

  static double Call(unsigned, const double* some, double* gradient, void* self) {
    auto* objective = static_cast<Objective*>(self);
    const Subset& subset = objective->subset;
    for (int i = 0; i < subset.size; ++i) objective->point[subset.indices[i]] = some[i];
    const Slope at = LossAndSlope(objective->point, objective->rows, objective->smoothing);
    if (gradient != nullptr) {
      for (int i = 0; i < subset.size; ++i) gradient[i] = at.gradient[subset.indices[i]];
    }
    return at.loss;
  }
};

}  // namespace

Minimum Descend(const Vector& start, const Box& box, absl::Span<const Row> rows, double smoothing) {
  Vector point;
  for (int i = 0; i < kCount; ++i) point[i] = std::clamp(start[i], box.low[i], box.high[i]);
  Expansion at = Expand(point, rows, smoothing);
  // Nielsen's rule: the damping follows how well the last step was foreseen.
  double damping = 1e-3;
  double growth = 2;
  int small_gains = 0;
  for (int i = 0; i < kMostSteps && small_gains < 2 && damping < kMostDamping; ++i) {
    const std::optional<Vector> step = DampedStep(at, Movable(point, at.gradient, box), damping);
    if (step) {
      const Vector moved = Moved(point, *step, box);
      const Expansion there = Expand(moved, rows, smoothing);
      const double gain = at.loss - there.loss;
      const double expected = ExpectedGain(at, point, moved);
      if (gain > 0) {
        const double surprise = 2 * std::min(gain / std::max(expected, 1e-300), 1.5) - 1;
        damping = std::max(damping * std::max(1.0 / 3, 1 - surprise * surprise * surprise), 1e-12);
        growth = 2;
        small_gains = gain < kLeastGain * at.loss ? small_gains + 1 : 0;
        point = moved;
        at = there;
        continue;
      }
      if (!(expected > 1e-15 * at.loss)) break;
    }
    damping *= growth;
    growth *= 2;
  }
  return {point, at.loss};
}

Vector Sharpen(const Vector& start, const Box& box, absl::Span<const Row> rows, double smoothing) {
  Objective objective{rows, smoothing, Unfixed(box), start};
  const Subset& subset = objective.subset;
  std::unique_ptr<nlopt_opt_s, decltype(&nlopt_destroy)> search(nlopt_create(NLOPT_LD_SLSQP, subset.size),
                                                                &nlopt_destroy);
  Vector low;
  Vector high;
  Vector some;
  for (int i = 0; i < subset.size; ++i) {
    low[i] = box.low[subset.indices[i]];
    high[i] = box.high[subset.indices[i]];
    some[i] = start[subset.indices[i]];
  }
  nlopt_set_lower_bounds(search.get(), low.data());
  nlopt_set_upper_bounds(search.get(), high.data());
  nlopt_set_min_objective(search.get(), &Objective::Call, &objective);
  nlopt_set_ftol_rel(search.get(), 1e-10);
  nlopt_set_xtol_rel(search.get(), 1e-10);
  nlopt_set_maxeval(search.get(), 500);
  double loss = 0;
  // Its result code does not matter: it leaves the best point that it saw.
  nlopt_optimize(search.get(), some.data(), &loss);
  Vector point = start;
  for (int i = 0; i < subset.size; ++i) point[subset.indices[i]] = std::clamp(some[i], low[i], high[i]);
  return point;
}

}  // namespace adaptdl::goodput::internal
