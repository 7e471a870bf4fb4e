// Sums over gradients, for gradient statistics: each reads its operands once, at the speed of memory, and
// what else has to be done to a gradient in the same place (scaling, keeping a copy for the next step) is
// done in the same pass.
//
//   double sqr = SquaredNorm<float>(gradient);
//   PairSums sums = Process<float>({.gradient = gradient, .factor = 1.0 / micro_batches,
//                                   .previous = previous, .keep = true});
//
// Operands are contiguous arrays in main memory; a group of parameters is summed span by span. Squares and
// sums are in double precision, so finite float32 gradients have finite norms. The results have the same bits
// on every machine, whatever vector instructions it has: replicas that sum the same gradient agree exactly.
//
// Thread-safety: pure functions of their arguments. One call uses one thread; large gradients may be cut and
// summed by several.

#ifndef ADAPTDL_LIBS_DEVICE_GRADIENT_KERNELS_H_
#define ADAPTDL_LIBS_DEVICE_GRADIENT_KERNELS_H_

#include "absl/types/span.h"
#include "libs/device/preconditioner.h"

namespace adaptdl::device {

// |g|^2, |g_prev|^2 and g . g_prev. From them |(g + g_prev) / 2|^2 = (current + previous + 2 dot) / 4.
struct PairSums {
  double current = 0;
  double previous = 0;
  double dot = 0;

  PairSums& operator+=(const PairSums& other) {
    current += other.current;
    previous += other.previous;
    dot += other.dot;
    return *this;
  }
};

// Sum of squares. `exp_avg_sq`: of the preconditioner, as many numbers as the gradient.
template <typename T>
double SquaredNorm(absl::Span<const T> gradient);
template <typename T>
double SquaredNorm(absl::Span<const T> gradient, absl::Span<const T> exp_avg_sq,
                   const Preconditioner& preconditioner);

// What to do with a gradient. T: float or double.
template <typename T>
struct GradientPass {
  // Multiplied by `factor` before all else, in place: sums and copies are of the product.
  absl::Span<T> gradient;
  double factor = 1;
  // The gradient of the step before, as many numbers. Empty: there is none; the sums that involve it are 0.
  absl::Span<T> previous = {};
  // Whether to compare with `previous`. Without, it is only written, if at all.
  bool compare = true;
  // Whether `previous` becomes a copy of the (scaled) gradient after it was read. Even when that is not
  // finite; a caller who wants to keep the last finite one looks at the sums first and copies in a pass of
  // its own.
  bool keep = false;
  // Of the preconditioner, as many numbers as the gradient. Empty: norms as they are.
  absl::Span<const T> exp_avg_sq = {};
  Preconditioner preconditioner = {};
  // Where the product goes instead, as many numbers; `gradient` then stays as it is. Empty: in place.
  absl::Span<T> scaled = {};
};

// Does it all in one pass. The arrays must not overlap.
template <typename T>
PairSums Process(const GradientPass<T>& pass);

}  // namespace adaptdl::device

#endif  // ADAPTDL_LIBS_DEVICE_GRADIENT_KERNELS_H_
