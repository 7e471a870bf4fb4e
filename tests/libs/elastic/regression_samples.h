// The regression problem of regression_numbers.h, as tensors.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_REGRESSION_SAMPLES_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_REGRESSION_SAMPLES_H_

#include <algorithm>
#include <cstdint>

#include "tests/libs/elastic/regression_numbers.h"
#include "torch/types.h"
#include "torch/utils.h"

namespace adaptdl::elastic {

struct RegressionSamples {
  torch::Tensor inputs;   // [count, 3]
  torch::Tensor targets;  // [count, 1]
};

inline RegressionSamples MakeRegressionSamples(int64_t count) {
  torch::Tensor numbers = torch::empty({count, 4});
  float* number = numbers.data_ptr<float>();
  for (const auto& sample : MakeRegressionNumbers(count))
    number = std::copy(sample.begin(), sample.end(), number);
  return {numbers.narrow(1, 0, 3).clone(), numbers.narrow(1, 3, 1).clone()};
}

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_REGRESSION_SAMPLES_H_
