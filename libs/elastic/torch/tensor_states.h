// What else LibTorch holds, as states of a checkpoint: a model's tensors, each by its name in the model, with
// its whole shape, whatever the number of replicas; and the random generator. Optimisers: optimizer_state.h.
//
// Thread-safety: the training thread only. The objects that are saved must outlive their states.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_TENSOR_STATES_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_TENSOR_STATES_H_

#include <memory>
#include <string>
#include <utility>

#include "ATen/core/Generator.h"
#include "adaptdl/job.h"
#include "c10/core/Device.h"
#include "libs/elastic/checkpoint/piecewise_state.h"
#include "libs/elastic/torch/tensor_pieces.h"

namespace torch::nn {
class Module;
}

namespace adaptdl::elastic {

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

// LibTorch's random generator of a device. Rank 0 goes on exactly; the others get streams of their own.
class RandomState final : public CheckpointState {
 public:
  RandomState(std::string name, at::Device device, int rank)
      : name_(std::move(name)), device_(device), rank_(rank) {}

  std::string name() const override { return name_; }
  std::string Save() override;
  bool Load(const std::string& bytes) override;

 private:
  at::Generator Generator() const;

  const std::string name_;
  const at::Device device_;
  const int rank_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_TENSOR_STATES_H_
