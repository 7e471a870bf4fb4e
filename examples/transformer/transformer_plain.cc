// Trains a small transformer on a text that is read as columns. transformer_plain.cc is a plain LibTorch
// program; transformer_elastic.cc is the same one, made elastic.

#include <algorithm>
#include <vector>

#include "examples/common/device.h"
#include "examples/common/report.h"
#include "examples/transformer/net.h"
#include "torch/optim/adamw.h"
#include "torch/utils.h"

int main(int argc, char** argv) {
  const examples::Options options = transformer::ParseOptions(argc, argv, examples::Program::kPlain);
  torch::manual_seed(options.seed);
  const torch::Device device = examples::DeviceOf(options);
  const auto [train, test] = transformer::LoadText(options, device);
  transformer::Net net(options.width);
  net->to(device);
  torch::optim::AdamW optimizer(net->parameters(), options.learning_rate);
  const int64_t column = (train.size(0) - 1) / options.batch_size;

  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    examples::Sums sums;
    for (int64_t begin = 0; begin < column; begin += transformer::kLength) {
      const int64_t length = std::min(transformer::kLength, column - begin);
      std::vector<torch::Tensor> inputs, targets;
      for (int64_t row = begin; row < options.batch_size * column; row += column) {
        inputs.push_back(train.narrow(0, row, length));
        targets.push_back(train.narrow(0, row + 1, length));
      }
      const auto bytes = static_cast<double>(options.batch_size * length);
      optimizer.zero_grad();
      const auto loss = transformer::LossOf(net->forward(torch::stack(inputs, 1)), torch::stack(targets, 1));
      loss.backward();
      optimizer.step();
      sums["loss"] += loss.item<double>() * bytes;
      sums["bytes"] += bytes;
    }
    examples::ReportEpoch(epoch, sums["loss"] / sums["bytes"], "loss", transformer::Evaluate(net, test));
  }
}
