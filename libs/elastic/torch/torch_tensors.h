// The tensors of a LibTorch model, for the gradient exchange.
//
// A gradient that does not lie in memory as its parameter does is replaced by one that does; where the
// parameter itself has gaps or overlaps, by a contiguous one.
//
// Thread-safety: as ModelTensors.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_TORCH_TENSORS_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_TORCH_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "libs/elastic/gradients/model_tensors.h"
#include "libs/elastic/torch/torch_optimizer.h"

namespace adaptdl::elastic {

class TorchTensors final : public ModelTensors {
 public:
  // A model's, each once.
  struct Tensors {
    // All that the optimiser has, and the parameter group of each.
    std::vector<at::Tensor> parameters;
    std::vector<int> groups;
    int num_groups = 1;
    // Those of floating-point numbers.
    std::vector<at::Tensor> buffers;
  };

  // FAILED_PRECONDITION: tensors on several devices. UNIMPLEMENTED: of a type that cannot be averaged.
  static absl::Status Check(const Tensors& tensors);

  // `tensors` has been checked; `optimizer` is not owned.
  TorchTensors(Tensors tensors, const TorchOptimizer* optimizer);

  const std::vector<at::Tensor>& parameters() const { return tensors_.parameters; }
  at::Device device() const { return tensors_.parameters.front().device(); }

  // A gradient of parameter `i` as the exchange reads it; `*copy` holds on to what had to be copied for that.
  TensorRef Describe(size_t i, const at::Tensor& gradient, at::Tensor* copy) const;

  const Layout& layout() const override { return layout_; }
  device::Stream stream() override;
  bool IsTrained(size_t i) override { return tensors_.parameters[i].requires_grad(); }
  absl::StatusOr<std::optional<TensorRef>> Gradient(size_t i) override;
  TensorRef MakeGradient(size_t i) override;
  void DropGradient(size_t i) override;
  uint64_t GradientVersion(size_t i) override;
  std::unique_ptr<HeldGradient> HoldGradient(size_t i) override;
  void SetSlot(size_t i, void* data, std::shared_ptr<const device::Memory> memory) override;
  void UseSlot(size_t i) override;
  void TakeMoments(bool wanted) override;
  const Moments* MomentsOf(size_t i) const override;
  TensorRef LoadBuffer(size_t b) override;
  void StoreBuffer(size_t b) override;

 private:
  // How a parameter and all that goes with it lies in memory.
  struct Shape {
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;

    bool Fits(const at::Tensor& tensor) const;
  };
  // Of the step's moments; `tensor` owns what `moments` says.
  struct Kept {
    at::Tensor tensor;
    Moments moments;
  };

  static Shape ShapeOf(const at::Tensor& tensor);
  at::Tensor Empty(size_t i) const;

  const Tensors tensors_;
  const TorchOptimizer* const optimizer_;
  Layout layout_;
  std::vector<Shape> shapes_;
  std::vector<at::Tensor> slots_;
  std::vector<std::optional<Kept>> moments_;
  // Buffers whose numbers do not lie one after the other, as they are read.
  std::vector<at::Tensor> buffer_copies_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_TORCH_TENSORS_H_
