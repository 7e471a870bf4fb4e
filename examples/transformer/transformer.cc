// Trains a small transformer to predict the next byte of a text, read as columns by any number of replicas.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "adaptdl/adaptdl.h"
#include "torch/nn/functional.h"
#include "torch/nn/modules/embedding.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/modules/transformercoder.h"
#include "torch/nn/modules/transformerlayer.h"
#include "torch/nn/pimpl.h"
#include "torch/optim/adam.h"
#include "torch/utils.h"

namespace {

struct Options {
  std::string text;
  int epochs = 3;
  int64_t columns = 32;
  int64_t length = 32;
  int64_t width = 64;
  double learning_rate = 1e-3;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  CLI::App app{"Trains a small transformer to predict the next byte of a text."};
  app.add_option("--text", options.text, "file to learn; without it, sums are drawn")
      ->check(CLI::ExistingFile);
  app.add_option("--epochs", options.epochs, "passes over the text")->capture_default_str();
  app.add_option("--columns", options.columns, "rows of bytes per step, over all replicas")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--length", options.length, "bytes of a row")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--lr", options.learning_rate, "learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));  // NOLINT(concurrency-mt-unsafe): the only thread
  }
  return options;
}

torch::Tensor LoadText(const std::string& path) {
  std::string text;
  if (path.empty()) {
    for (int i = 0; i < 3'000; ++i) {
      const int a = i * 7919 % 100;
      const int b = i * 104'729 / 100 % 100;
      text += std::to_string(a) + "+" + std::to_string(b) + "=" + std::to_string(a + b) + ";";
    }
  } else {
    std::ifstream file(path, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::vector<int64_t> bytes;
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return torch::tensor(bytes, torch::kLong);
}

class TransformerImpl : public torch::nn::Module {
 public:
  TransformerImpl(int64_t width, int64_t length)
      : bytes_(register_module("bytes", torch::nn::Embedding(256, width))),
        places_(register_module("places", torch::nn::Embedding(length, width))),
        encoder_(register_module(
            "encoder",
            torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(
                torch::nn::TransformerEncoderLayerOptions(width, 4).dim_feedforward(4 * width).dropout(0),
                2)))),
        out_(register_module("out", torch::nn::Linear(width, 256))) {}

  // `input`: bytes, [length, rows]. Logits of the next bytes: [length, rows, 256].
  torch::Tensor forward(const torch::Tensor& input) {
    const int64_t length = input.size(0);
    const torch::Tensor place = places_->forward(torch::arange(length)).unsqueeze(1);
    // No byte sees those after it.
    const torch::Tensor mask = torch::full({length, length}, -INFINITY).triu(1);
    return out_->forward(encoder_->forward(bytes_->forward(input) + place, mask));
  }

 private:
  torch::nn::Embedding bytes_;
  torch::nn::Embedding places_;
  torch::nn::TransformerEncoder encoder_;
  torch::nn::Linear out_;
};
TORCH_MODULE(Transformer);

}  // namespace

int main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  const auto job = adaptdl::Init();
  torch::manual_seed(1);
  const torch::Tensor text = LoadText(options.text);
  Transformer net(options.width, options.length);
  torch::optim::Adam optimizer(net->parameters(), options.learning_rate);
  adaptdl::BpttIterator rows(*job, text.numel(), {.columns = options.columns, .length = options.length});
  adaptdl::AdaptiveDataParallel parallel(*job, *net, optimizer);

  for (int epoch : adaptdl::RemainingEpochsUntil(*job, options.epochs)) {
    adaptdl::Accumulator sums(*job);
    for (bool running = rows.BeginLoop(); running && rows.Next();) {
      adaptdl::TrainStep(rows, [&] {
        std::vector<torch::Tensor> inputs, targets;
        for (const adaptdl::TokenRange& range : rows.ranges()) {
          inputs.push_back(text.slice(0, range.begin, range.end));
          targets.push_back(text.slice(0, range.begin + 1, range.end + 1));
        }
        parallel.ZeroGrad();
        const torch::Tensor logits = net->forward(torch::stack(inputs, 1));
        const torch::Tensor loss =
            torch::nn::functional::cross_entropy(logits.flatten(0, 1), torch::stack(targets, 1).flatten());
        loss.backward();
        parallel.Step();
        sums["loss"] += loss.item<double>() * static_cast<double>(rows.core().weight());
        sums["rows"] += static_cast<double>(rows.core().weight());
      });
    }
    sums.Synchronize();
    std::printf("epoch %d: loss %.4f per byte\n", epoch + 1, sums["loss"] / sums["rows"]);
    std::fflush(stdout);
  }
}
