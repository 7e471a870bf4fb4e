// Trains a small transformer on a text that is read as columns. transformer_plain.cc is a plain LibTorch
// program; transformer_elastic.cc is the same one, made elastic.

#include <vector>

#include "adaptdl/adaptdl.h"
#include "examples/common/device.h"
#include "examples/common/mixed_precision.h"
#include "examples/common/report.h"
#include "examples/transformer/net.h"
#include "torch/optim/adamw.h"
#include "torch/utils.h"

int main(int argc, char** argv) {
  const examples::Options options = transformer::ParseOptions(argc, argv, examples::Program::kElastic);
  const auto job = adaptdl::Init();
  torch::manual_seed(options.seed);
  const torch::Device device = examples::DeviceOf(options);
  const auto [train, test] = transformer::LoadText(options, device);
  transformer::Net net(options.width);
  net->to(device);
  examples::MixedPrecision precision(options, device);
  torch::optim::AdamW optimizer(net->parameters(), options.learning_rate);
  adaptdl::BpttIterator text(*job, train.size(0),
                             {.columns = options.batch_size, .length = transformer::kLength});
  adaptdl::AdaptiveDataParallel parallel(*job, *net, optimizer, {.grad_scaler = precision.grad_scaler()});

  for (int epoch : adaptdl::RemainingEpochsUntil(*job, options.epochs)) {
    adaptdl::Accumulator sums(*job);
    for (bool running = text.BeginLoop(); running && text.Next();) {
      std::vector<torch::Tensor> inputs, targets;
      for (const adaptdl::TokenRange& range : text.ranges()) {
        inputs.push_back(train.slice(0, range.begin, range.end));
        targets.push_back(train.slice(0, range.begin + 1, range.end + 1));
      }
      const auto bytes = static_cast<double>(text.core().weight() * inputs[0].size(0));
      parallel.ZeroGrad();
      torch::Tensor loss;
      {
        const auto autocast = precision.ForwardPass();
        loss = transformer::LossOf(net->forward(torch::stack(inputs, 1)), torch::stack(targets, 1));
      }
      precision.Scaled(loss).backward();
      parallel.Step();
      const auto value = loss.item<double>();
      job->Report("loss", value);
      sums["loss"] += value * bytes;
      sums["bytes"] += bytes;
    }
    sums.Synchronize();
    const double test_loss = transformer::Evaluate(net, test);
    job->Report("test/loss", test_loss);
    examples::ReportEpoch(epoch, sums["loss"] / sums["bytes"], "loss", test_loss);
  }
}
