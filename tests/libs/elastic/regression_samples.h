// A small regression problem, the same every time.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_REGRESSION_SAMPLES_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_REGRESSION_SAMPLES_H_

#include <cstdint>
#include <random>

#include "torch/types.h"
#include "torch/utils.h"

namespace adaptdl::elastic {

struct RegressionSamples {
  torch::Tensor inputs;   // [count, 3]
  torch::Tensor targets;  // [count, 1]
};

inline RegressionSamples MakeRegressionSamples(int64_t count) {
  torch::Tensor numbers = torch::empty({count, 4}, torch::kDouble);
  std::mt19937 random(5);
  for (int64_t i = 0; i < numbers.numel(); ++i) numbers.data_ptr<double>()[i] = random() / 4294967296.0 - 0.5;
  return {numbers.narrow(1, 0, 3).to(torch::kFloat), numbers.narrow(1, 3, 1).to(torch::kFloat)};
}

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_REGRESSION_SAMPLES_H_
