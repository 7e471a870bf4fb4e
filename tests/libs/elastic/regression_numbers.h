// A small regression problem, the same every time: three inputs and a target each.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_REGRESSION_NUMBERS_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_REGRESSION_NUMBERS_H_

#include <array>
#include <cstdint>
#include <random>
#include <vector>

namespace adaptdl::elastic {

// Inputs, then the target.
inline std::vector<std::array<float, 4>> MakeRegressionNumbers(int64_t count) {
  std::vector<std::array<float, 4>> samples(static_cast<size_t>(count));
  std::mt19937 random(5);
  for (std::array<float, 4>& sample : samples) {
    for (float& number : sample) number = static_cast<float>(random() / 4294967296.0 - 0.5);
  }
  return samples;
}

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_REGRESSION_NUMBERS_H_
