// Trains a ResNet-18 on small pictures. cifar_plain.cc is a plain LibTorch program; cifar_elastic.cc is the
// same one, made elastic.

#include "examples/cifar/images.h"
#include "examples/cifar/resnet.h"
#include "examples/common/device.h"
#include "examples/common/report.h"
#include "torch/data.h"
#include "torch/nn/functional/loss.h"
#include "torch/optim/schedulers/step_lr.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

int main(int argc, char** argv) {
  const examples::Options options = cifar::ParseOptions(argc, argv, examples::Program::kPlain);
  torch::manual_seed(options.seed);
  const auto [train, test] = cifar::LoadImages(options);
  cifar::ResNet net(options.width);
  const torch::Device device = examples::DeviceOf(options);
  net->to(device);
  torch::optim::SGD optimizer(
      net->parameters(), torch::optim::SGDOptions(options.learning_rate).momentum(0.9).weight_decay(5e-4));
  torch::optim::StepLR schedule(optimizer, /*step_size=*/15, /*gamma=*/0.1);
  auto train_loader =
      torch::data::make_data_loader<torch::data::samplers::RandomSampler>(train, options.batch_size);
  auto test_loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(test, 256);

  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    examples::Sums sums;
    net->train();
    for (auto& batch : *train_loader) {
      const auto samples = static_cast<double>(batch.target.size(0));
      optimizer.zero_grad();
      const auto loss =
          torch::nn::functional::cross_entropy(net->forward(batch.data.to(device)), batch.target.to(device));
      loss.backward();
      optimizer.step();
      sums["loss"] += loss.item<double>() * samples;
      sums["samples"] += samples;
    }
    net->eval();
    torch::NoGradGuard no_gradients;
    for (auto& batch : *test_loader) {
      const auto guess = net->forward(batch.data.to(device)).argmax(1);
      sums["right"] += guess.eq(batch.target.to(device)).sum().item<double>();
      sums["tested"] += static_cast<double>(batch.target.size(0));
    }
    examples::ReportEpoch(epoch, sums["loss"] / sums["samples"], "accuracy", sums["right"] / sums["tested"]);
    schedule.step();
  }
}
