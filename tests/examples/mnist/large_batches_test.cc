// Batches many times as large as the one that the learning rate is for: it follows by what is known of the
// gradients' noise, which is little at first.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <ostream>
#include <string>
#include <vector>

#include "adaptdl/adaptdl.h"
#include "examples/mnist/digits.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/replica_threads.h"
#include "torch/nn/functional/loss.h"
#include "torch/nn/modules/activation.h"
#include "torch/nn/modules/container/sequential.h"
#include "torch/nn/modules/conv.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/modules/pooling.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace mnist {
namespace {

using adaptdl::elastic::Replica;
using adaptdl::elastic::RunReplicas;

constexpr int64_t kBaseBatch = 16;

TrainAndTest Load() {
  examples::Options options;
  const std::string folder = std::string(ADAPTDL_SOURCE_DIR) + "/../shared/data/mnist";
  if (std::filesystem::exists(folder)) options.data = folder;
  return LoadDigits(options);
}

// As in bench/adaptivity.
torch::nn::Sequential MakeNet() {
  namespace nn = torch::nn;
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 10, 5)), nn::MaxPool2d(2), nn::ReLU(),
                        nn::Conv2d(nn::Conv2dOptions(10, 20, 5)), nn::MaxPool2d(2), nn::ReLU(), nn::Flatten(),
                        nn::Linear(20 * 4 * 4, 50), nn::ReLU(), nn::Linear(50, 10), nn::LogSoftmax(1));
}

struct Case {
  int replicas = 1;
  int64_t batch_size = 256;
  int epochs = 3;
  // Least accuracy in the end, in [0, 1]. A net that diverged guesses: 0.1.
  double accuracy = 0;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.replicas << "ReplicasOf" << one.batch_size; }

class LargeBatches : public ::testing::TestWithParam<Case> {};

TEST_P(LargeBatches, DoNotDiverge) {
  static const TrainAndTest digits = Load();
  for (const uint64_t seed : {1, 2}) {
    torch::manual_seed(seed);
    const torch::nn::Sequential start = MakeNet();
    double accuracy = 0;
    RunReplicas(GetParam().replicas, {}, [&](Replica& replica) {
      torch::nn::Sequential net = MakeNet();
      {
        torch::NoGradGuard no_gradients;
        for (size_t i = 0; i < net->parameters().size(); ++i) {
          net->parameters()[i].copy_(start->parameters()[i]);
        }
      }
      torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.005).momentum(0.9));
      adaptdl::DataLoader loader(
          replica.job, digits.train,
          {.batch_size = GetParam().batch_size, .base_batch_size = kBaseBatch, .seed = seed});
      adaptdl::AdaptiveDataParallel parallel(replica.job, *net, optimizer);
      for (int epoch = 0; epoch < GetParam().epochs; ++epoch) {
        for (auto& batch : loader) {
          parallel.ZeroGrad();
          torch::nll_loss(net->forward(batch.data), batch.target).backward();
          parallel.Step();
          // No step is worth more than its samples.
          EXPECT_LE(parallel.Gain(), static_cast<double>(GetParam().batch_size) / kBaseBatch * (1 + 1e-9));
        }
      }
      if (replica.job.rank() != 0) return;
      torch::NoGradGuard no_gradients;
      const torch::Tensor guess = net->forward(digits.test.images()).argmax(1);
      accuracy = guess.eq(digits.test.labels()).to(torch::kDouble).mean().item<double>();
    });
    std::cout << "seed " << seed << ": " << accuracy << std::endl;
    EXPECT_GE(accuracy, GetParam().accuracy) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Digits, LargeBatches,
                         ::testing::Values(Case{1, 256, 3, 0.8}, Case{1, 1024, 3, 0.2}, Case{2, 256, 3, 0.8},
                                           Case{2, 1024, 3, 0.2}),
                         [](const auto& info) {
                           return std::to_string(info.param.replicas) + "ReplicasOf" +
                                  std::to_string(info.param.batch_size);
                         });

}  // namespace
}  // namespace mnist
