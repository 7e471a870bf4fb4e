#include "examples/mnist/net.h"

#include <algorithm>
#include <cstdint>

#include "examples/common/device.h"
#include "torch/nn/functional.h"
#include "torch/utils.h"

namespace mnist {

namespace {

torch::nn::Conv2d Convolution(int64_t from, int64_t to) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1));
}

}  // namespace

NetImpl::NetImpl()
    : conv1_(register_module("conv1", Convolution(1, 16))),
      conv2_(register_module("conv2", Convolution(16, 16))),
      conv3_(register_module("conv3", Convolution(16, 32))),
      linear_(register_module("linear", torch::nn::Linear(32 * 7 * 7, 10))) {}

torch::Tensor NetImpl::forward(const torch::Tensor& images) {
  torch::Tensor x = torch::relu(conv1_->forward(images));
  x = torch::max_pool2d(torch::relu(conv2_->forward(x)), 2);
  x = torch::max_pool2d(torch::relu(conv3_->forward(x)), 2);
  return torch::log_softmax(linear_->forward(x.flatten(1)), 1);
}

examples::Options ParseOptions(int argc, char** argv) {
  return examples::ParseOptions(
      argc, argv,
      {.what = "Trains a CNN on handwritten digits: the first 80 % of the images, tested on the rest.",
       .data = "folder with MNIST's IDX files, plain or .gz; without it digits are drawn",
       .samples = "digits to draw when there is no --data",
       .batch_may_grow = false},
      {});
}

double Evaluate(Net& net, const Digits& digits) {
  torch::NoGradGuard no_gradients;
  net->eval();
  const torch::Device device = examples::DeviceOf(*net);
  const int64_t count = digits.labels().size(0);
  int64_t right = 0;
  constexpr int64_t kBatch = 250;
  for (int64_t begin = 0; begin < count; begin += kBatch) {
    const int64_t size = std::min(kBatch, count - begin);
    const torch::Tensor guess = net->forward(digits.images().narrow(0, begin, size).to(device)).argmax(1);
    right += guess.eq(digits.labels().narrow(0, begin, size).to(device)).sum().item<int64_t>();
  }
  net->train();
  return static_cast<double>(right) / static_cast<double>(count);
}

}  // namespace mnist
