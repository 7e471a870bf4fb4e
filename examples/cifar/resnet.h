// ResNet-18 (He et al., "Deep Residual Learning for Image Recognition", 2016) for pictures of 32 x 32 pixels:
// its first layer is a 3 x 3 convolution, without the pooling after it.

#ifndef ADAPTDL_EXAMPLES_CIFAR_RESNET_H_
#define ADAPTDL_EXAMPLES_CIFAR_RESNET_H_

#include <cstdint>

#include "examples/common/options.h"
#include "torch/nn/modules/container/sequential.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/pimpl.h"

namespace cifar {

class ResNetImpl : public torch::nn::Module {
 public:
  // `width`: channels of the first stage, 64 in the paper; each of the three others has twice as many.
  explicit ResNetImpl(int64_t width);

  // Logits of the ten classes.
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Sequential stages_{nullptr};
  torch::nn::Linear linear_{nullptr};
};
TORCH_MODULE(ResNet);

examples::Options ParseOptions(int argc, char** argv, examples::Program program);

}  // namespace cifar

#endif  // ADAPTDL_EXAMPLES_CIFAR_RESNET_H_
