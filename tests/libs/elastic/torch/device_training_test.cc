// Training on the device that this machine has gives the model that training on its CPU gives: the same test where there
// is a GPU, and where there is none.

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "adaptdl/autocast.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/data_parallel.h"
#include "adaptdl/epochs.h"
#include "adaptdl/grad_scaler.h"
#include "gtest/gtest.h"
#include "libs/elastic/job/job_core.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"
#include "tests/libs/elastic/torch/torch_test_device.h"
#include "torch/nn/functional/loss.h"
#include "torch/nn/modules/activation.h"
#include "torch/nn/modules/batchnorm.h"
#include "torch/nn/modules/container/sequential.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/adam.h"
#include "torch/optim/adamw.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(torch::nn::Module&)>;

constexpr int64_t kCount = 96;
constexpr int64_t kBatchSize = 16;

std::unique_ptr<torch::optim::Optimizer> Sgd(torch::nn::Module& model) {
  return std::make_unique<torch::optim::SGD>(model.parameters(),
                                             torch::optim::SGDOptions(0.05).momentum(0.9));
}
std::unique_ptr<torch::optim::Optimizer> Adam(torch::nn::Module& model) {
  return std::make_unique<torch::optim::Adam>(model.parameters(), 0.01);
}
std::unique_ptr<torch::optim::Optimizer> AdamW(torch::nn::Module& model) {
  return std::make_unique<torch::optim::AdamW>(model.parameters(), 0.01);
}

// Parameters, gradients' statistics and buffers: what a training leaves behind.
struct Trained {
  torch::Tensor numbers;
  double sqr = 0;
  double var = 0;
};

struct Training {
  torch::Device device;
  MakeOptimizer optimizer = Sgd;
  int epochs = 2;
  // Of matrix products.
  torch::ScalarType precision = torch::kFloat;
  bool scales_loss = false;
};

// The same numbers on every device.
struct Problem {
  torch::nn::Sequential model{torch::nn::Linear(6, 24), torch::nn::BatchNorm1d(24), torch::nn::ReLU(),
                              torch::nn::Linear(24, 3)};
  torch::Tensor inputs;
  torch::Tensor labels;

  explicit Problem(const torch::Device& device) {
    torch::NoGradGuard no_gradients;
    double next = 0;
    const auto fill = [&](torch::Tensor tensor, double scale) {
      float* at = tensor.data_ptr<float>();
      for (int64_t i = 0; i < tensor.numel(); ++i) at[i] = static_cast<float>(scale * std::sin(next += 0.7));
    };
    for (torch::Tensor& parameter : model->parameters()) {
      if (parameter.dim() > 1) {
        fill(parameter, 0.3);
      } else {
        parameter.fill_(0.5);
      }
    }
    inputs = torch::empty({kCount, 6});
    fill(inputs, 1);
    labels = inputs.narrow(1, 0, 3).argmax(1);
    model->to(device);
    inputs = inputs.to(device);
    labels = labels.to(device);
  }
};

void Train(Replica& replica, const Training& training, Trained* trained) {
  Problem problem(training.device);
  const auto optimizer = training.optimizer(*problem.model);
  GradScaler scaler({.init_scale = 1024});
  AdaptiveDataParallel parallel(
      replica.job, *problem.model, *optimizer,
      {.grad_scaler = training.scales_loss ? &scaler : nullptr, .statistics_period = 2});
  AdaptiveDataLoader loader(replica.job, kCount, {.batch_size = kBatchSize, .seed = 5});
  for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, training.epochs)) {
    if (!loader.BeginLoop()) continue;
    while (loader.Next()) {
      const torch::Tensor indices = torch::tensor(loader.indices()).to(training.device);
      parallel.ZeroGrad();
      torch::Tensor loss;
      {
        const bool shorter = training.precision != torch::kFloat;
        const Autocast autocast(training.device.type(), shorter ? training.precision : torch::kBFloat16,
                                shorter);
        loss = torch::nn::functional::cross_entropy(
            problem.model->forward(problem.inputs.index_select(0, indices)),
            problem.labels.index_select(0, indices));
      }
      (training.scales_loss ? scaler.Scale(loss) : loss).backward();
      parallel.Step();
    }
  }
  if (replica.job.rank() > 0) return;
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& parameter : problem.model->parameters())
    all.push_back(parameter.detach().cpu().flatten());
  for (const torch::Tensor& buffer : problem.model->buffers()) {
    all.push_back(buffer.detach().cpu().to(torch::kFloat).flatten());
  }
  *trained = {torch::cat(all), parallel.SqrAvg(), parallel.VarAvg()};
}

Trained TrainBy(int replicas, const Training& training, const std::string& checkpoints = "") {
  Trained trained;
  RunOptions options{.checkpoint_path = checkpoints};
  if (!training.device.is_cpu()) {
    options.wrap = [](std::unique_ptr<comm::Communicator> inner, const GroupMembership&) {
      return OverTorchTestDevice(std::move(inner));
    };
  }
  for (const int code :
       RunReplicas(replicas, options, [&](Replica& replica) { Train(replica, training, &trained); })) {
    EXPECT_EQ(code, 0);
  }
  return trained;
}

void ExpectNear(const Trained& actual, const Trained& expected, double tolerance) {
  EXPECT_TRUE(torch::allclose(actual.numbers, expected.numbers, tolerance, tolerance))
      << (actual.numbers - expected.numbers).abs().max();
  EXPECT_NEAR(actual.sqr, expected.sqr, tolerance * (1 + expected.sqr));
  EXPECT_NEAR(actual.var, expected.var, tolerance * (1 + expected.var));
}

TEST(DeviceTraining, GivesTheModelOfTheCpu) {
  for (const MakeOptimizer& optimizer : {MakeOptimizer(Sgd), MakeOptimizer(Adam), MakeOptimizer(AdamW)}) {
    for (const int replicas : {1, 2, 3}) {
      SCOPED_TRACE(replicas);
      const Trained expected = TrainBy(replicas, {.device = torch::kCPU, .optimizer = optimizer});
      const Trained actual = TrainBy(replicas, {.device = TorchTestDevice(), .optimizer = optimizer});
      // Adam divides by moments that are near zero.
      ExpectNear(actual, expected, 2e-3);
      EXPECT_GT(actual.var, 0);
    }
  }
}

TEST(DeviceTraining, ScaledLossesGiveTheSameModel) {
  const Trained expected = TrainBy(2, {.device = TorchTestDevice()});
  ExpectNear(TrainBy(2, {.device = TorchTestDevice(), .scales_loss = true}), expected, 1e-3);
}

TEST(DeviceTraining, ShortNumbersComeNearTheSameModel) {
  const Trained expected = TrainBy(2, {.device = TorchTestDevice()});
  ExpectNear(TrainBy(2, {.device = TorchTestDevice(), .precision = torch::kBFloat16}), expected, 0.2);
  if (TorchTestDevice().is_cpu()) return;  // which has no products of float16
  ExpectNear(TrainBy(2, {.device = TorchTestDevice(), .precision = torch::kHalf, .scales_loss = true}),
             expected, 0.1);
}

// The generator's state, too: the second run begins where the first ended.
TEST(DeviceTraining, GoesOnFromACheckpoint) {
  TempFolder folder;
  const torch::Device device = TorchTestDevice();
  torch::Tensor before;
  const auto body = [&](Replica& replica, const std::function<void()>& end) {
    Problem problem(device);
    const auto optimizer = Adam(*problem.model);
    AdaptiveDataParallel parallel(replica.job, *problem.model, *optimizer);
    end();
  };
  const RunOptions options{.checkpoint_path = folder.path()};
  RunReplicas(1, options, [&](Replica& replica) {
    body(replica, [&] {
      torch::rand({5}, device);
      ASSERT_TRUE(replica.job.SaveAll());
      before = torch::rand({5}, device).cpu();
    });
  });
  RunOptions again = options;
  again.group = 2;
  RunReplicas(1, again, [&](Replica& replica) {
    torch::rand({100}, device);
    body(replica, [&] { EXPECT_TRUE(torch::equal(torch::rand({5}, device).cpu(), before)); });
  });
}

}  // namespace
}  // namespace adaptdl::elastic
