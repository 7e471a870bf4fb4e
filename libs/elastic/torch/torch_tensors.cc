#include "libs/elastic/torch/torch_tensors.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "c10/core/TensorImpl.h"
#include "libs/elastic/torch/torch_devices.h"

namespace adaptdl::elastic {
namespace {

bool IsDense(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_non_overlapping_and_dense();
}

TensorRef RefTo(const at::Tensor& tensor) {
  return {tensor.data_ptr(), tensor.numel(), *DataTypeOf(tensor.scalar_type())};
}

class HeldTensor final : public HeldGradient {
 public:
  explicit HeldTensor(at::Tensor tensor) : tensor_(std::move(tensor)) {}

  TensorRef tensor() const override { return RefTo(tensor_); }
  uint64_t version() const override { return static_cast<uint64_t>(tensor_._version()); }

 private:
  const at::Tensor tensor_;
};

}  // namespace

absl::Status TorchTensors::Check(const Tensors& tensors) {
  const at::Tensor& first = tensors.parameters.front();
  std::vector<at::Tensor> all = tensors.parameters;
  all.insert(all.end(), tensors.buffers.begin(), tensors.buffers.end());
  for (const at::Tensor& tensor : all) {
    if (tensor.device() != first.device()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the model has tensors on ", first.device().str(), " and on ", tensor.device().str(),
          "; a replica trains on one device: move the model there before it is wrapped, or run more "
          "replicas"));
    }
    if (!DataTypeOf(tensor.scalar_type())) {
      return absl::UnimplementedError(absl::StrCat(
          "the model has a tensor of shape [", absl::StrJoin(tensor.sizes(), ", "), "] and type ",
          at::toString(tensor.scalar_type()), "; float32, float64, float16 and bfloat16 can be averaged"));
    }
  }
  return absl::OkStatus();
}

TorchTensors::TorchTensors(Tensors tensors, const TorchOptimizer* optimizer)
    : tensors_(std::move(tensors)),
      optimizer_(optimizer),
      slots_(tensors_.parameters.size()),
      moments_(tensors_.parameters.size()),
      buffer_copies_(tensors_.buffers.size()) {
  layout_.num_groups = tensors_.num_groups;
  for (size_t i = 0; i < tensors_.parameters.size(); ++i) {
    const at::Tensor& parameter = tensors_.parameters[i];
    layout_.parameters.push_back(
        {parameter.numel(), *DataTypeOf(parameter.scalar_type()), tensors_.groups[i]});
    shapes_.push_back(ShapeOf(parameter));
  }
  for (const at::Tensor& buffer : tensors_.buffers) layout_.buffers.push_back(buffer.numel());
}

device::Stream TorchTensors::stream() { return CurrentStream(device()); }

// --- How tensors lie in memory ---

TorchTensors::Shape TorchTensors::ShapeOf(const at::Tensor& tensor) {
  Shape shape{tensor.sizes().vec(), tensor.strides().vec()};
  if (IsDense(tensor)) return shape;
  int64_t stride = 1;
  for (size_t d = shape.sizes.size(); d-- > 0;) {
    shape.strides[d] = stride;
    stride *= shape.sizes[d];
  }
  return shape;
}

bool TorchTensors::Shape::Fits(const at::Tensor& tensor) const {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1 && tensor.stride(static_cast<int64_t>(d)) != strides[d]) return false;
  }
  return true;
}

at::Tensor TorchTensors::Empty(size_t i) const {
  const at::Tensor& parameter = tensors_.parameters[i];
  return at::empty_strided(shapes_[i].sizes, shapes_[i].strides, parameter.options().requires_grad(false));
}

TensorRef TorchTensors::Describe(size_t i, const at::Tensor& gradient, at::Tensor* copy) const {
  if (shapes_[i].Fits(gradient) && DataTypeOf(gradient.scalar_type())) return RefTo(gradient);
  *copy = Empty(i);
  copy->copy_(gradient);
  return RefTo(*copy);
}

// --- Gradients ---

absl::StatusOr<std::optional<TensorRef>> TorchTensors::Gradient(size_t i) {
  at::Tensor& gradient = tensors_.parameters[i].mutable_grad();
  if (!gradient.defined()) return std::nullopt;
  if (gradient.layout() != at::kStrided) {
    return absl::UnimplementedError(
        "a gradient is sparse, and sparse gradients cannot be averaged; make the embedding without "
        "sparse(true)");
  }
  at::Tensor copy;
  const TensorRef ref = Describe(i, gradient, &copy);
  if (copy.defined()) gradient = copy;
  return ref;
}

TensorRef TorchTensors::MakeGradient(size_t i) {
  const absl::StatusOr<std::optional<TensorRef>> gradient = Gradient(i);
  if (gradient.ok() && gradient->has_value()) return **gradient;
  at::Tensor& made = tensors_.parameters[i].mutable_grad();
  made = Empty(i);
  return RefTo(made);
}

void TorchTensors::DropGradient(size_t i) { tensors_.parameters[i].mutable_grad() = at::Tensor(); }

uint64_t TorchTensors::GradientVersion(size_t i) {
  const at::Tensor& gradient = tensors_.parameters[i].grad();
  return gradient.defined() ? static_cast<uint64_t>(gradient._version()) : 0;
}

std::unique_ptr<HeldGradient> TorchTensors::HoldGradient(size_t i) {
  return std::make_unique<HeldTensor>(tensors_.parameters[i].grad());
}

void TorchTensors::SetSlot(size_t i, void* data, std::shared_ptr<const device::Memory> memory) {
  if (memory == nullptr) {
    slots_[i] = at::Tensor();
    return;
  }
  // Not a view: LibTorch's zero_grad() refuses those.
  slots_[i] = at::from_blob(
      data, shapes_[i].sizes, shapes_[i].strides, [memory = std::move(memory)](void*) {},
      tensors_.parameters[i].options().requires_grad(false));
}

void TorchTensors::UseSlot(size_t i) { tensors_.parameters[i].mutable_grad() = slots_[i]; }

// --- Moments ---

void TorchTensors::TakeMoments(bool wanted) {
  if (!optimizer_->is_adam()) return;
  for (size_t i = 0; i < moments_.size(); ++i) {
    moments_[i].reset();
    if (!wanted) continue;
    const at::Tensor& parameter = tensors_.parameters[i];
    std::optional<TorchOptimizer::Moments> found = optimizer_->MomentsOf(parameter, tensors_.groups[i]);
    if (!found) continue;
    at::Tensor copy;
    const TensorRef ref = Describe(i, found->exp_avg_sq, &copy);
    moments_[i] = Kept{copy.defined() ? copy : found->exp_avg_sq, {ref, found->preconditioner}};
  }
}

const ModelTensors::Moments* TorchTensors::MomentsOf(size_t i) const {
  return moments_[i] ? &moments_[i]->moments : nullptr;
}

// --- Buffers ---

TensorRef TorchTensors::LoadBuffer(size_t b) {
  const at::Tensor& buffer = tensors_.buffers[b];
  if (buffer.is_contiguous()) return RefTo(buffer);
  buffer_copies_[b] = buffer.contiguous();
  return RefTo(buffer_copies_[b]);
}

void TorchTensors::StoreBuffer(size_t b) {
  if (buffer_copies_[b].defined()) tensors_.buffers[b].copy_(std::exchange(buffer_copies_[b], at::Tensor()));
}

}  // namespace adaptdl::elastic
