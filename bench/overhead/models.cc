#include "bench/overhead/models.h"

#include <limits>

#include "examples/cifar/resnet.h"
#include "examples/common/device.h"
#include "torch/cuda.h"
#include "torch/nn/functional/loss.h"
#include "torch/nn/modules/embedding.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/modules/transformercoder.h"
#include "torch/nn/modules/transformerlayer.h"
#include "torch/optim/adam.h"
#include "torch/optim/sgd.h"
#include "torch/types.h"

namespace adaptdl::bench {
namespace {

class ResNet18 final : public Model {
 public:
  ResNet18(const torch::Device& device, int64_t batch)
      : images_(torch::rand({batch, 3, 32, 32}, device)),
        labels_(torch::randint(10, {batch}, torch::TensorOptions(torch::kLong).device(device))) {
    net_->to(device);
    optimizer_ =
        std::make_unique<torch::optim::SGD>(net_->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  }

  torch::nn::Module& module() override { return *net_; }
  torch::optim::Optimizer& optimizer() override { return *optimizer_; }
  torch::Tensor Loss(int64_t rows) override {
    return torch::nn::functional::cross_entropy(net_->forward(images_.narrow(0, 0, rows)),
                                                labels_.narrow(0, 0, rows));
  }

 private:
  cifar::ResNet net_{64};
  torch::Tensor images_;
  torch::Tensor labels_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

constexpr int64_t kSequence = 256;
constexpr int64_t kVocabulary = 9600;
constexpr int64_t kWidth = 768;

struct TransformerNetImpl : torch::nn::Module {
  // `input`: [sequence, rows]. Logits: [sequence, rows, vocabulary].
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& mask) {
    const torch::Tensor place = torch::arange(input.size(0), input.device());
    const torch::Tensor x = words->forward(input) + places->forward(place).unsqueeze(1);
    return out->forward(encoder->forward(x, mask));
  }

  torch::nn::Embedding words = register_module("words", torch::nn::Embedding(kVocabulary, kWidth));
  torch::nn::Embedding places = register_module("places", torch::nn::Embedding(kSequence, kWidth));
  torch::nn::TransformerEncoder encoder = register_module(
      "encoder",
      torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(
          torch::nn::TransformerEncoderLayerOptions(kWidth, 12).dim_feedforward(4 * kWidth).dropout(0), 12)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kWidth, kVocabulary));
};
TORCH_MODULE(TransformerNet);

class Transformer final : public Model {
 public:
  Transformer(const torch::Device& device, int64_t batch)
      : text_(torch::randint(kVocabulary, {kSequence + 1, batch},
                             torch::TensorOptions(torch::kLong).device(device))),
        mask_(torch::full({kSequence, kSequence}, -std::numeric_limits<float>::infinity(), device).triu(1)) {
    net_->to(device);
    optimizer_ = std::make_unique<torch::optim::Adam>(net_->parameters(), 1e-4);
  }

  torch::nn::Module& module() override { return *net_; }
  torch::optim::Optimizer& optimizer() override { return *optimizer_; }
  torch::Tensor Loss(int64_t rows) override {
    const torch::Tensor text = text_.narrow(1, 0, rows);
    const torch::Tensor logits = net_->forward(text.narrow(0, 0, kSequence), mask_);
    return torch::nn::functional::cross_entropy(logits.flatten(0, 1), text.narrow(0, 1, kSequence).flatten());
  }

 private:
  TransformerNet net_;
  torch::Tensor text_;
  torch::Tensor mask_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace

std::unique_ptr<Model> MakeResNet18(const torch::Device& device, int64_t batch) {
  return std::make_unique<ResNet18>(device, batch);
}

std::unique_ptr<Model> MakeTransformer(const torch::Device& device, int64_t batch) {
  return std::make_unique<Transformer>(device, batch);
}

torch::Device DeviceNamed(const std::string& name) { return examples::DeviceOf({.device = name}); }

void Synchronize(const torch::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize();
}

}  // namespace adaptdl::bench
