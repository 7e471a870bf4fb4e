// What LibTorch holds, as states of a checkpoint: model, optimiser and random generator.
//
// Model and optimiser are safetensors (safetensors.h): each tensor by its name in the model, with its whole
// shape, whatever the number of replicas. Saving copies each tensor once, into memory that is used again by
// the next checkpoint. Loading checks names, types and shapes of all tensors before it changes any.
//
// Thread-safety: the training thread only. The objects that are saved must outlive their states.

#ifndef ADAPTDL_LIBS_ELASTIC_TENSOR_STATES_H_
#define ADAPTDL_LIBS_ELASTIC_TENSOR_STATES_H_

#include <string>
#include <vector>

#include "adaptdl/job.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace adaptdl::elastic {

// Parameters and buffers. Types that safetensors does not have, such as complex ones, make Save() throw.
class ModuleState final : public CheckpointState {
 public:
  ModuleState(std::string name, const torch::nn::Module* model) : name_(std::move(name)), model_(model) {}

  std::string name() const override { return name_; }
  std::string Save() override;
  void SaveInto(std::string* bytes) override;
  // False if the model does not have exactly these tensors.
  bool Load(const std::string& bytes) override;
  bool changes_with_steps() const override { return true; }

 private:
  const std::string name_;
  const torch::nn::Module* const model_;
};

// Options of each parameter group (learning rate, momentum, ...), and what the optimiser keeps per parameter:
// "<parameter>/exp_avg" and so on. SGD, Adam, AdamW, Adagrad and RMSprop; any other optimiser is saved in
// LibTorch's own archive, which knows parameters by their position only and leaves options out.
class OptimizerState final : public CheckpointState {
 public:
  // Parameters that are not of `model` are named by group and position.
  OptimizerState(std::string name, const torch::nn::Module* model, torch::optim::Optimizer* optimizer)
      : name_(std::move(name)), model_(model), optimizer_(optimizer) {}

  std::string name() const override { return name_; }
  std::string Save() override;
  void SaveInto(std::string* bytes) override;
  // False if the optimiser is of another kind, or has other groups or parameters.
  bool Load(const std::string& bytes) override;
  bool changes_with_steps() const override { return true; }
  // Without the learning rates, which are the program's to set between steps.
  bool LoadStep(const std::string& bytes) override;

 private:
  // Names of the parameters, by group and position.
  std::vector<std::vector<std::string>> Names() const;
  bool IsKnown() const;
  void SaveArchive(std::string* bytes) const;
  void LoadArchive(const std::string& bytes);

  const std::string name_;
  const torch::nn::Module* const model_;
  torch::optim::Optimizer* const optimizer_;
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

#endif  // ADAPTDL_LIBS_ELASTIC_TENSOR_STATES_H_
