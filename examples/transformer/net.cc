#include "examples/transformer/net.h"

#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "examples/common/report.h"
#include "torch/nn/functional/loss.h"
#include "torch/nn/modules/transformerlayer.h"
#include "torch/types.h"
#include "torch/utils.h"

namespace transformer {
namespace {

constexpr int64_t kBytes = 256;

std::string Sums(const examples::Options& options) {
  std::mt19937_64 random(options.seed);
  std::string text;
  for (int64_t i = 0; i < options.samples; ++i) {
    const uint64_t a = random() % 100;
    const uint64_t b = random() % 100;
    text += std::to_string(a) + "+" + std::to_string(b) + "=" + std::to_string(a + b) + ";";
  }
  return text;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

NetImpl::NetImpl(int64_t width)
    : bytes_(register_module("bytes", torch::nn::Embedding(kBytes, width))),
      places_(register_module("places", torch::nn::Embedding(kLength, width))),
      encoder_(register_module(
          "encoder",
          torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(
              torch::nn::TransformerEncoderLayerOptions(width, 4).dim_feedforward(4 * width).dropout(0),
              2)))),
      out_(register_module("out", torch::nn::Linear(width, kBytes))) {}

torch::Tensor NetImpl::forward(const torch::Tensor& input) {
  const int64_t length = input.size(0);
  const torch::Tensor place = places_->forward(torch::arange(length, input.device())).unsqueeze(1);
  // No byte sees those after it.
  const torch::Tensor mask =
      torch::full({length, length}, -std::numeric_limits<float>::infinity(), input.device()).triu(1);
  return out_->forward(encoder_->forward(bytes_->forward(input) + place, mask));
}

torch::Tensor LossOf(const torch::Tensor& logits, const torch::Tensor& target) {
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1), target.flatten());
}

examples::Options ParseOptions(int argc, char** argv, examples::Program program) {
  examples::Options options = examples::ParseOptions(
      argc, argv,
      {.what = "Trains a small transformer to predict the next byte of a text.",
       .data = "file to learn; without it, sums are made up",
       .samples = "sums to make up when there is no --data",
       .width = "size of the embeddings, a multiple of 4",
       // The batch is the columns of the text, which stay as many.
       .batch_may_grow = false,
       .mixed_precision = program == examples::Program::kElastic},
      {.samples = 4000, .epochs = 5, .batch_size = 32, .learning_rate = 1e-3, .width = 64});
  if (options.width % 4 != 0)
    examples::Fail("--width " + std::to_string(options.width) + " is no multiple of 4");
  return options;
}

TrainAndTest LoadText(const examples::Options& options, const torch::Device& device) {
  const std::string text = options.data.empty() ? Sums(options) : ReadText(options.data);
  // Each column has two bytes at least.
  if (static_cast<int64_t>(text.size()) < 4 * options.batch_size + 20) {
    examples::Fail("a text of " + std::to_string(text.size()) + " bytes is too short for " +
                   std::to_string(options.batch_size) + " columns");
  }
  std::vector<int64_t> bytes;
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  const torch::Tensor all = torch::tensor(bytes, torch::kLong).to(device);
  const int64_t train = all.size(0) * 9 / 10;
  return {all.narrow(0, 0, train), all.narrow(0, train, all.size(0) - train)};
}

double Evaluate(Net& net, const torch::Tensor& text) {
  torch::NoGradGuard no_gradients;
  double loss = 0;
  const int64_t count = text.size(0) - 1;
  for (int64_t begin = 0; begin < count; begin += kLength) {
    const int64_t length = std::min(kLength, count - begin);
    const torch::Tensor input = text.narrow(0, begin, length).unsqueeze(1);
    const torch::Tensor target = text.narrow(0, begin + 1, length).unsqueeze(1);
    loss += LossOf(net->forward(input), target).item<double>() * static_cast<double>(length);
  }
  return loss / static_cast<double>(count);
}

}  // namespace transformer
