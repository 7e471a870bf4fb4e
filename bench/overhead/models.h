// What the overhead is measured on: models of the sizes that GPUs are bought for, with data that are on the device
// already, because a step takes as long whatever they show.

#ifndef ADAPTDL_BENCH_OVERHEAD_MODELS_H_
#define ADAPTDL_BENCH_OVERHEAD_MODELS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "torch/nn/module.h"
#include "torch/optim/optimizer.h"

namespace adaptdl::bench {

class Model {
 public:
  virtual ~Model() = default;

  virtual torch::nn::Module& module() = 0;
  virtual torch::optim::Optimizer& optimizer() = 0;
  // Of the first `rows` samples of the batch.
  virtual torch::Tensor Loss(int64_t rows) = 0;
};

// ResNet-18 for pictures of 3 x 32 x 32 (11 million parameters), with SGD and momentum.
std::unique_ptr<Model> MakeResNet18(const torch::Device& device, int64_t batch);
// A transformer of 100 million parameters (12 layers, width 768) over sequences of 256, with Adam.
std::unique_ptr<Model> MakeTransformer(const torch::Device& device, int64_t batch);

struct Case {
  std::string name;
  int64_t batch = 0;
  std::unique_ptr<Model> (*make)(const torch::Device& device, int64_t batch) = nullptr;
};
// The above with the batch sizes that goals are for.
inline const Case kResNet18 = {"resnet18", 128, MakeResNet18};
inline const Case kTransformer = {"transformer", 16, MakeTransformer};

// "auto": a GPU where there is one. Ends the process, and says why, if there is none such.
torch::Device DeviceNamed(const std::string& name);
// Waits for all that was put on `device`.
void Synchronize(const torch::Device& device);

}  // namespace adaptdl::bench

#endif  // ADAPTDL_BENCH_OVERHEAD_MODELS_H_
