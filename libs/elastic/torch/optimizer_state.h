// An optimiser as a state of a checkpoint (tensor_pieces.h).
//
// Thread-safety: the training thread only. The objects that are saved must outlive their state.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_OPTIMIZER_STATE_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_OPTIMIZER_STATE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/elastic/checkpoint/piecewise_state.h"
#include "libs/elastic/checkpoint/safetensors.h"
#include "libs/elastic/torch/tensor_pieces.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace adaptdl::elastic {

// Options of each parameter group (learning rate, momentum, ...), and what the optimiser keeps per parameter:
// "<parameter>/exp_avg" and so on. SGD, Adam, AdamW, Adagrad and RMSprop; any other optimiser is saved in
// LibTorch's own archive, which knows parameters by their position only and leaves options out.
class OptimizerState final : public TensorState {
 public:
  // Parameters that are not of `model` are named by group and position.
  OptimizerState(std::string name, const torch::nn::Module* model, torch::optim::Optimizer* optimizer)
      : TensorState(std::move(name)), model_(model), optimizer_(optimizer) {}

  // Without the learning rates, which are the program's to set between steps.
  bool LoadStep(const std::string& bytes) override;

  std::unique_ptr<StateReader> Read() override;
  // Refuses an optimiser of another kind, or with other groups or parameters.
  absl::StatusOr<std::unique_ptr<StateWriter>> Write(const std::string& head) override;
  // For what the optimiser makes in its first step only.
  void Reserve() override;
  void Release() override { reserved_.clear(); }

 private:
  // Names of the parameters, by group and position.
  std::vector<std::vector<std::string>> Names() const;
  bool IsKnown() const;
  std::unique_ptr<StateReader> ReadArchive() const;
  // Throw when it does not fit.
  std::unique_ptr<StateWriter> WriteKnown(const SafetensorsLayout& layout);
  std::unique_ptr<StateWriter> WriteArchive(const SafetensorsLayout& layout);
  struct Replacement;
  void Replace(Replacement* replacement);
  // For tensor `name`, of the shape and on the device of `parameter`.
  at::Tensor NewTensor(const std::string& name, const at::Tensor& parameter);

  const torch::nn::Module* const model_;
  torch::optim::Optimizer* const optimizer_;
  std::map<std::string, at::Tensor> reserved_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_OPTIMIZER_STATE_H_
