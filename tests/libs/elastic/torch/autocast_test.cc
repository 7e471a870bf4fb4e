#include "adaptdl/autocast.h"

#include <cmath>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/data_parallel.h"
#include "adaptdl/grad_scaler.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/replica_threads.h"
#include "torch/nn/functional.h"
#include "torch/nn/modules/activation.h"
#include "torch/nn/modules/container/sequential.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

at::ScalarType TypeOfProduct() {
  const torch::Tensor matrix = torch::ones({4, 4});
  return torch::mm(matrix, matrix).scalar_type();
}

TEST(Autocast, LastsAsLongAsItsBlock) {
  EXPECT_EQ(TypeOfProduct(), at::kFloat);
  {
    const Autocast outer(c10::kCPU, at::kBFloat16);
    EXPECT_EQ(TypeOfProduct(), at::kBFloat16);
    {
      const Autocast inner(c10::kCPU, at::kBFloat16, /*enabled=*/false);
      EXPECT_EQ(TypeOfProduct(), at::kFloat);
    }
    EXPECT_EQ(TypeOfProduct(), at::kBFloat16);
  }
  EXPECT_EQ(TypeOfProduct(), at::kFloat);
}

TEST(Autocast, EndsWhenTheBlockThrows) {
  try {
    const Autocast autocast(c10::kCPU, at::kBFloat16);
    throw std::runtime_error("in the block");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(TypeOfProduct(), at::kFloat);
}

TEST(Autocast, TheOtherDeviceStaysAsItIs) {
  const Autocast autocast(c10::kCUDA, at::kHalf);
  EXPECT_EQ(TypeOfProduct(), at::kFloat);
}

TEST(Autocast, RefusesOtherDevices) {
  EXPECT_THROW(Autocast(c10::kMeta, at::kBFloat16), std::invalid_argument);
}

// The optimiser changes parameters between two blocks: the second must not use short copies of old ones.
TEST(Autocast, SeesChangedParameters) {
  torch::nn::Linear layer(torch::nn::LinearOptions(1, 1).bias(false));
  const auto output = [&] {
    const Autocast autocast(c10::kCPU, at::kBFloat16);
    return layer->forward(torch::ones({1, 1})).item<float>();
  };
  torch::NoGradGuard no_gradients;
  layer->weight.fill_(2);
  EXPECT_EQ(output(), 2);
  layer->weight.fill_(3);
  EXPECT_EQ(output(), 3);
}

struct Outcome {
  double loss = 0;
  double sqr = 0;
  double var = 0;
};

torch::nn::Sequential MakeNet() {
  torch::nn::Sequential net(torch::nn::Linear(16, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
  return net;
}

// Ten passes over the same samples from the same parameters.
Outcome Train(int replicas, bool mixed) {
  torch::manual_seed(3);
  const torch::Tensor inputs = torch::randn({256, 16});
  const torch::Tensor targets = inputs.matmul(torch::randn({16, 1})) + torch::randn({256, 1});
  torch::nn::Sequential start = MakeNet();
  Outcome outcome;
  std::mutex mutex;
  RunReplicas(replicas, {}, [&](Replica& replica) {
    torch::nn::Sequential net = MakeNet();
    {
      torch::NoGradGuard no_gradients;
      for (size_t i = 0; i < net->parameters().size(); ++i)
        net->parameters()[i].copy_(start->parameters()[i]);
    }
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01));
    GradScaler scaler;
    AdaptiveDataParallel parallel(replica.job, *net, optimizer,
                                  {.grad_scaler = mixed ? &scaler : nullptr, .statistics_period = 1});
    AdaptiveDataLoader loader(replica.job, 256, {.batch_size = 16, .seed = 1});
    double loss_sum = 0;
    for (int pass = 0; pass < 10; ++pass) {
      loss_sum = 0;
      for (bool running = loader.BeginLoop(); running && loader.Next();) {
        const torch::Tensor indices = torch::tensor(loader.indices());
        torch::Tensor loss;
        parallel.ZeroGrad();
        {
          const Autocast autocast(c10::kCPU, at::kBFloat16, mixed);
          const torch::Tensor output = net->forward(inputs.index_select(0, indices));
          EXPECT_EQ(output.scalar_type(), mixed ? at::kBFloat16 : at::kFloat);
          loss = torch::mse_loss(output.to(at::kFloat), targets.index_select(0, indices));
        }
        (mixed ? scaler.Scale(loss) : loss).backward();
        parallel.Step();
        loss_sum += loss.item<double>();
      }
    }
    for (const torch::Tensor& parameter : net->parameters()) EXPECT_EQ(parameter.scalar_type(), at::kFloat);
    std::lock_guard<std::mutex> lock(mutex);
    if (replica.job.rank() == 0) outcome = {loss_sum / 16, parallel.SqrAvg(), parallel.VarAvg()};
  });
  return outcome;
}

TEST(Autocast, TrainsAsFloat32DoesAndMeasuresTheSameNoise) {
  for (const int replicas : {1, 2}) {
    SCOPED_TRACE(replicas);
    const Outcome plain = Train(replicas, false);
    const Outcome mixed = Train(replicas, true);
    EXPECT_GT(plain.sqr, 0);
    EXPECT_GT(plain.var, 0);
    // bfloat16 has 8 bits.
    EXPECT_NEAR(mixed.loss, plain.loss, 0.02 * plain.loss);
    EXPECT_NEAR(mixed.sqr, plain.sqr, 0.02 * plain.sqr);
    EXPECT_NEAR(mixed.var, plain.var, 0.02 * plain.var);
  }
}

}  // namespace
}  // namespace adaptdl::elastic
