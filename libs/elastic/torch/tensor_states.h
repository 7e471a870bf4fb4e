// What LibTorch holds, as states of a checkpoint: model, optimiser and random generator.
//
// Model and optimiser are safetensors (safetensors.h): each tensor by its name in the model, with its whole
// shape, whatever the number of replicas. The pieces of piecewise_state.h are the tensors' own memory where
// that is in one piece and on the CPU. Saving copies each tensor once, into memory that is used again by the
// next checkpoint. Loading checks names, types and shapes of all tensors before it changes any.
//
// Thread-safety: the training thread only. The objects that are saved must outlive their states.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_TENSOR_STATES_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_TENSOR_STATES_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adaptdl/job.h"
#include "libs/elastic/checkpoint/piecewise_state.h"
#include "libs/elastic/checkpoint/safetensors.h"
#include "torch/types.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace adaptdl::elastic {

// What both have in common: saving and loading, by pieces.
class TensorState : public CheckpointState, protected PiecewiseState {
 public:
  explicit TensorState(std::string name) : name_(std::move(name)) {}

  std::string name() const final { return name_; }
  // Types that safetensors does not have, such as complex ones, make it throw.
  std::string Save() final;
  void SaveInto(std::string* bytes) final;
  // False, and nothing is changed, if the tensors are not exactly those that there are.
  bool Load(const std::string& bytes) final;
  bool changes_with_steps() const final { return true; }
  PiecewiseState* piecewise() final { return this; }

 private:
  const std::string name_;
};

// Parameters and buffers.
class ModuleState final : public TensorState {
 public:
  ModuleState(std::string name, const torch::nn::Module* model)
      : TensorState(std::move(name)), model_(model) {}

  std::unique_ptr<StateReader> Read() override;
  absl::StatusOr<std::unique_ptr<StateWriter>> Write(const std::string& head) override;

 private:
  const torch::nn::Module* const model_;
};

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
  torch::Tensor NewTensor(const std::string& name, const torch::Tensor& parameter);

  const torch::nn::Module* const model_;
  torch::optim::Optimizer* const optimizer_;
  std::map<std::string, torch::Tensor> reserved_;
};

// LibTorch's random generator on the CPU. Rank 0 goes on exactly; the others get streams of their own.
class RandomState final : public CheckpointState {
 public:
  RandomState(std::string name, int rank) : name_(std::move(name)), rank_(rank) {}

  std::string name() const override { return name_; }
  std::string Save() override;
  bool Load(const std::string& bytes) override;

 private:
  const std::string name_;
  const int rank_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_TENSOR_STATES_H_
