// Trains a CNN on handwritten digits. mnist_plain.cc is a plain LibTorch program; mnist_elastic.cc is the
// same one, made elastic.

#include <string>

#include "adaptdl/adaptdl.h"
#include "examples/common/device.h"
#include "examples/mnist/net.h"
#include "examples/mnist/report.h"
#include "torch/data.h"
#include "torch/optim/adam.h"

int main(int argc, char** argv) {
  const examples::Options options = mnist::ParseOptions(argc, argv);
  const auto job = adaptdl::Init();
  torch::manual_seed(options.seed);
  const auto [train, test] = mnist::LoadDigits(options);
  mnist::Net net;
  const torch::Device device = examples::DeviceOf(options);
  net->to(device);
  torch::optim::Adam optimizer(net->parameters(), options.learning_rate);
  adaptdl::DataLoader loader(*job, train, {.batch_size = options.batch_size, .seed = options.seed});
  adaptdl::AdaptiveDataParallel parallel(*job, *net, optimizer);

  for (int epoch : adaptdl::RemainingEpochsUntil(*job, options.epochs)) {
    adaptdl::Accumulator sums(*job);
    for (auto& batch : *loader) {
      parallel.ZeroGrad();
      const auto loss = torch::nll_loss(net->forward(batch.data.to(device)), batch.target.to(device));
      loss.backward();
      parallel.Step();
      const auto value = loss.item<double>();
      job->Report("loss", value);
      sums["loss"] += value * batch.target.size(0);
      sums["samples"] += batch.target.size(0);
    }
    sums.Synchronize();
    mnist::ReportEpoch(epoch, sums["loss"] / sums["samples"], mnist::Evaluate(net, test));
  }
  mnist::ReportResult(mnist::Evaluate(net, test), options);
}
