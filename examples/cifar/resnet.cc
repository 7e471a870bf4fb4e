#include "examples/cifar/resnet.h"

#include "examples/cifar/cifar_file.h"
#include "torch/nn/modules/activation.h"
#include "torch/nn/modules/batchnorm.h"
#include "torch/nn/modules/conv.h"

namespace cifar {
namespace {

torch::nn::Conv2d Convolution(int64_t from, int64_t to, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(from, to, kernel).stride(stride).padding(kernel / 2).bias(false));
}

class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(int64_t from, int64_t to, int64_t stride)
      : body_(register_module(
            "body", torch::nn::Sequential(Convolution(from, to, 3, stride), torch::nn::BatchNorm2d(to),
                                          torch::nn::ReLU(), Convolution(to, to, 3, 1),
                                          torch::nn::BatchNorm2d(to)))) {
    if (from == to && stride == 1) return;
    shortcut_ = register_module(
        "shortcut", torch::nn::Sequential(Convolution(from, to, 1, stride), torch::nn::BatchNorm2d(to)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return torch::relu(body_->forward(x) + (shortcut_.is_empty() ? x : shortcut_->forward(x)));
  }

 private:
  torch::nn::Sequential body_;
  torch::nn::Sequential shortcut_{nullptr};
};
TORCH_MODULE(Block);

}  // namespace

ResNetImpl::ResNetImpl(int64_t width) {
  torch::nn::Sequential stages(Convolution(kChannels, width, 3, 1), torch::nn::BatchNorm2d(width),
                               torch::nn::ReLU());
  int64_t from = width;
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t to = width << stage;
    stages->push_back(Block(from, to, stage == 0 ? 1 : 2));
    stages->push_back(Block(to, to, 1));
    from = to;
  }
  stages_ = register_module("stages", stages);
  linear_ = register_module("linear", torch::nn::Linear(from, kClasses));
}

torch::Tensor ResNetImpl::forward(const torch::Tensor& images) {
  return linear_->forward(stages_->forward(images).mean({2, 3}));
}

examples::Options ParseOptions(int argc, char** argv, examples::Program program) {
  return examples::ParseOptions(
      argc, argv,
      {.what = "Trains a ResNet-18 to tell pictures of 32 x 32 pixels apart.",
       .data = "folder with CIFAR-10's binary version; without it pictures are drawn",
       .samples = "pictures to draw when there is no --data",
       .width = "channels of the network's first stage; 64 is the full ResNet-18",
       .mixed_precision = program == examples::Program::kElastic},
      {.samples = 2000, .epochs = 30, .batch_size = 128, .learning_rate = 0.1, .width = 64});
}

}  // namespace cifar
