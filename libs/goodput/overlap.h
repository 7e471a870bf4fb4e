// Two activities that overlap in part. For this library alone. Pure; thread-safe.

#ifndef ADAPTDL_LIBS_GOODPUT_OVERLAP_H_
#define ADAPTDL_LIBS_GOODPUT_OVERLAP_H_

#include <algorithm>
#include <cmath>

namespace adaptdl::goodput::internal {

struct Overlapped {
  // Of both: (x^gamma + y^gamma)^(1/gamma).
  double time;
  // x^gamma's part of the sum, in [0, 1]: by how many per cent the time grows when x grows by one per cent.
  double share;
};

// x > 0, y >= 0, gamma >= 1. Does not overflow when the result does not.
inline Overlapped Overlap(double x, double y, double gamma) {
  if (gamma == 1) return {x + y, x / (x + y)};
  const double larger = std::max(x, y);
  const double power = std::pow(std::min(x, y) / larger, gamma);
  return {larger * std::exp(std::log1p(power) / gamma), (x >= y ? 1 : power) / (1 + power)};
}

}  // namespace adaptdl::goodput::internal

#endif  // ADAPTDL_LIBS_GOODPUT_OVERLAP_H_
