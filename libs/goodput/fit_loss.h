// What the fit minimises, with its derivatives. For fit.cc and fit_search.cc alone.
//
// The search runs over the logarithms of the times, since they differ by orders of magnitude, and over gamma
// as it is; in the order of the fields of PerfParams. Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_GOODPUT_FIT_LOSS_H_
#define ADAPTDL_LIBS_GOODPUT_FIT_LOSS_H_

#include <array>
#include <vector>

#include "absl/types/span.h"
#include "libs/goodput/fit.h"
#include "libs/goodput/model.h"

namespace adaptdl::goodput::internal {

inline constexpr int kCount = 7;
enum Index { kAlphaC, kBetaC, kAlphaN, kBetaN, kAlphaR, kBetaR, kGamma };

// Stands for "no time" and "no dependence" where a logarithm or a ratio follows.
inline constexpr double kLeast = 1e-8;

using Vector = std::array<double, kCount>;
using Matrix = std::array<Vector, kCount>;

// From parameters to a point of the search, and back.
Vector ToPoint(const PerfParams& params);
PerfParams FromPoint(const Vector& point);

// What the loss needs to know of a measurement, worked out once.
struct Row {
  double batch;
  double beyond_two;  // replicas beyond the second
  int network;        // index of the network's alpha; -1: a single replica, which has none
  double log_accum;
  double log_optim;
  double weight;  // the weights of all rows add up to 1
};

std::vector<Row> ToRows(absl::Span<const Measurement> measurements);

// The loss around a point of the search.
struct Expansion {
  double loss = 0;
  Vector gradient = {};
  // Curvature of a quadratic that touches the loss (Gauss-Newton for the errors, and the tangent parabola for
  // the roots of their mean squares). Positive semidefinite; the lower triangle alone is filled in.
  Matrix curvature = {};
};

// `smoothing` rounds off the kinks that the roots have where all errors vanish: sqrt(x + smoothing^2).
Expansion Expand(const Vector& point, absl::Span<const Row> rows, double smoothing);

// The same without the curvature, in half of the time.
struct Slope {
  double loss = 0;
  Vector gradient = {};
};
Slope LossAndSlope(const Vector& point, absl::Span<const Row> rows, double smoothing);

}  // namespace adaptdl::goodput::internal

#endif  // ADAPTDL_LIBS_GOODPUT_FIT_LOSS_H_
