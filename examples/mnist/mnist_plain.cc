// Trains a CNN on handwritten digits. mnist_plain.cc is a plain LibTorch program; mnist_elastic.cc is the
// same one, made elastic.

#include <string>

#include "examples/common/device.h"
#include "examples/mnist/net.h"
#include "examples/mnist/report.h"
#include "torch/data.h"
#include "torch/optim/adam.h"

int main(int argc, char** argv) {
  const examples::Options options = mnist::ParseOptions(argc, argv);
  torch::manual_seed(options.seed);
  const auto [train, test] = mnist::LoadDigits(options);
  mnist::Net net;
  const torch::Device device = examples::DeviceOf(options);
  net->to(device);
  torch::optim::Adam optimizer(net->parameters(), options.learning_rate);
  auto loader = torch::data::make_data_loader(train, options.batch_size);

  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    mnist::Sums sums;
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      const auto loss = torch::nll_loss(net->forward(batch.data.to(device)), batch.target.to(device));
      loss.backward();
      optimizer.step();
      const auto value = loss.item<double>();
      sums["loss"] += value * batch.target.size(0);
      sums["samples"] += batch.target.size(0);
    }
    mnist::ReportEpoch(epoch, sums["loss"] / sums["samples"], mnist::Evaluate(net, test));
  }
  mnist::ReportResult(mnist::Evaluate(net, test), options);
}
