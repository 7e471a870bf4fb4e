// Local searches for the least loss within a box. For fit.cc alone.
//
// Far from the least loss the curvature is worth much: Descend() needs a tenth of the evaluations that a
// general method does. Near it, where errors may vanish and the loss has kinks, Sharpen() leaves the search
// to NLopt.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_GOODPUT_FIT_SEARCH_H_
#define ADAPTDL_LIBS_GOODPUT_FIT_SEARCH_H_

#include "absl/types/span.h"
#include "libs/goodput/fit_loss.h"

namespace adaptdl::goodput::internal {

// Where the search may go, bounds included. low = high: that parameter is fixed.
struct Box {
  Vector low;
  Vector high;
};

struct Minimum {
  Vector point;
  double loss;
};

// Levenberg-Marquardt within the box, to about five digits of the smoothed loss. Never worse than the start.
Minimum Descend(const Vector& start, const Box& box, absl::Span<const Row> rows, double smoothing);

// Sequential quadratic programming, to full precision. `start` is in the box.
Vector Sharpen(const Vector& start, const Box& box, absl::Span<const Row> rows, double smoothing);

}  // namespace adaptdl::goodput::internal

#endif  // ADAPTDL_LIBS_GOODPUT_FIT_SEARCH_H_
