// The network, and how well it does.

#ifndef ADAPTDL_EXAMPLES_MNIST_NET_H_
#define ADAPTDL_EXAMPLES_MNIST_NET_H_

#include "examples/common/options.h"
#include "examples/mnist/digits.h"
#include "torch/nn/modules/conv.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/pimpl.h"

namespace mnist {

// Three convolutions and a linear layer: 23,000 parameters, nearly all of the work in the convolutions.
class NetImpl : public torch::nn::Module {
 public:
  NetImpl();

  // Logarithms of the ten digits' probabilities.
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::Conv2d conv2_{nullptr};
  torch::nn::Conv2d conv3_{nullptr};
  torch::nn::Linear linear_{nullptr};
};
TORCH_MODULE(Net);

examples::Options ParseOptions(int argc, char** argv);

// Part of `digits` that `net` recognises, in [0, 1].
double Evaluate(Net& net, const Digits& digits);

}  // namespace mnist

#endif  // ADAPTDL_EXAMPLES_MNIST_NET_H_
