// Trains a ResNet-18 on small pictures. cifar_plain.cc is a plain LibTorch program; cifar_elastic.cc is the
// same one, made elastic.

#include "adaptdl/adaptdl.h"
#include "examples/cifar/images.h"
#include "examples/cifar/resnet.h"
#include "examples/common/device.h"
#include "examples/common/mixed_precision.h"
#include "examples/common/report.h"
#include "torch/data.h"
#include "torch/nn/functional/loss.h"
#include "torch/optim/schedulers/step_lr.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

int main(int argc, char** argv) {
  const examples::Options options = cifar::ParseOptions(argc, argv, examples::Program::kElastic);
  const auto job = adaptdl::Init();
  torch::manual_seed(options.seed);
  const auto [train, test] = cifar::LoadImages(options);
  cifar::ResNet net(options.width);
  const torch::Device device = examples::DeviceOf(options);
  net->to(device);
  examples::MixedPrecision precision(options, device);
  torch::optim::SGD optimizer(
      net->parameters(), torch::optim::SGDOptions(options.learning_rate).momentum(0.9).weight_decay(5e-4));
  adaptdl::LrScheduler<torch::optim::StepLR> schedule(*job, "schedule", optimizer, /*step_size=*/15,
                                                      /*gamma=*/0.1);
  adaptdl::DataLoader train_loader(*job, train, {.batch_size = options.batch_size, .seed = options.seed},
                                   device);
  if (options.max_batch_size > options.batch_size) {
    train_loader.AutoscaleBatchSize(options.max_batch_size, {.min = 16, .max = 512}, /*accumulation=*/true);
  }
  adaptdl::DataLoader test_loader(*job, test, {.batch_size = 256, .shuffle = false}, device);
  adaptdl::AdaptiveDataParallel parallel(*job, *net, optimizer, {.grad_scaler = precision.grad_scaler()});

  for (int epoch : adaptdl::RemainingEpochsUntil(*job, options.epochs)) {
    adaptdl::Accumulator sums(*job);
    net->train();
    for (auto& batch : *train_loader) {
      const auto samples = static_cast<double>(train_loader.core().weight());
      parallel.ZeroGrad();
      torch::Tensor loss;
      {
        const auto autocast = precision.ForwardPass();
        loss = torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      }
      precision.Scaled(loss).backward();
      parallel.Step();
      const auto value = loss.item<double>();
      job->Report("loss", value);
      sums["loss"] += value * samples;
      sums["samples"] += samples;
    }
    net->eval();
    torch::NoGradGuard no_gradients;
    for (auto& batch : *test_loader) {
      const auto tested = test_loader.core().weight();
      const auto guess = net->forward(batch.data).argmax(1);
      sums["right"] += guess.eq(batch.target).narrow(0, 0, tested).sum().item<double>();
      sums["tested"] += static_cast<double>(tested);
    }
    sums.Synchronize();
    const double accuracy = sums["right"] / sums["tested"];
    job->Report("accuracy", accuracy);
    examples::ReportEpoch(epoch, sums["loss"] / sums["samples"], "accuracy", accuracy);
    schedule.step();
  }
}
