// The middle of measurements.

#ifndef ADAPTDL_BENCH_OVERHEAD_MEDIAN_H_
#define ADAPTDL_BENCH_OVERHEAD_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace adaptdl::bench {

// Of at least one value.
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace adaptdl::bench

#endif  // ADAPTDL_BENCH_OVERHEAD_MEDIAN_H_
