#include "python/engine/shared_tensors.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "libs/device/data_type.h"
#include "libs/device/preconditioner.h"

namespace adaptdl::python {

using elastic::TensorRef;

namespace {

// NOLINTNEXTLINE(performance-no-int-to-ptr): the interpreter's addresses are numbers.
void* At(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

device::Stream SharedTensors::stream() { return At(*shared_.stream); }

// The gradients of one step, which the interpreter holds on to under a number. Versions are looked at once in a pass.
class SharedTensors::HeldStep {
 public:
  HeldStep(SharedTensors* tensors, int64_t number)
      : tensors_(tensors), number_(number), versions_(tensors->layout_.parameters.size(), 0) {
    CallBack(tensors_->job_, tensors_->calls_.hold_gradients, number_);
  }
  ~HeldStep() {
    const InterpreterHost::InterpreterScope interpreter(tensors_->job_->host.get());
    // Letting go cannot fail.
    (void)tensors_->calls_.release_gradients(number_);
  }
  HeldStep(const HeldStep&) = delete;
  HeldStep& operator=(const HeldStep&) = delete;

  uint64_t VersionOf(size_t i) {
    if (looked_in_ != tensors_->pass_) {
      CallBack(tensors_->job_, tensors_->calls_.held_versions, number_, versions_.data());
      looked_in_ = tensors_->pass_;
    }
    return versions_[i];
  }

 private:
  SharedTensors* const tensors_;
  const int64_t number_;
  std::vector<uint64_t> versions_;
  int64_t looked_in_ = -1;
};

class SharedTensors::Held final : public elastic::HeldGradient {
 public:
  Held(std::shared_ptr<HeldStep> step, size_t i, TensorRef tensor)
      : step_(std::move(step)), i_(i), tensor_(tensor) {}

  TensorRef tensor() const override { return tensor_; }
  uint64_t version() const override { return step_->VersionOf(i_); }

 private:
  const std::shared_ptr<HeldStep> step_;
  const size_t i_;
  const TensorRef tensor_;
};

SharedTensors::SharedTensors(adaptdl_job* job, const adaptdl_shared& shared, const adaptdl_model_calls& calls,
                             bool is_adam)
    : job_(job),
      shared_(shared),
      calls_(calls),
      is_adam_(is_adam),
      slots_(static_cast<size_t>(shared.num_parameters)),
      moments_(static_cast<size_t>(shared.num_parameters)) {
  layout_.num_groups = shared.num_groups;
  for (int64_t i = 0; i < shared.num_parameters; ++i) {
    const adaptdl_parameter& parameter = shared.parameters[i];
    layout_.parameters.push_back(
        {parameter.count, static_cast<device::DataType>(parameter.type), parameter.group});
  }
  layout_.buffers.assign(shared.buffer_counts, shared.buffer_counts + shared.num_buffers);
}

void SharedTensors::Change(size_t i, uint8_t change) {
  shared_.changes[i] = change;
  *shared_.changed = 1;
}

// --- Gradients ---

TensorRef SharedTensors::Describe(size_t i, uint64_t address) const {
  const Parameter& parameter = layout_.parameters[i];
  return {At(address), parameter.count, parameter.type};
}

absl::StatusOr<std::optional<TensorRef>> SharedTensors::Gradient(size_t i) {
  const uint64_t address = shared_.gradients[i];
  if (address == 0) return std::nullopt;
  if (address == ADAPTDL_SPARSE) {
    return absl::UnimplementedError(
        "a gradient is sparse, and sparse gradients cannot be averaged; make the embedding without "
        "sparse=True");
  }
  return Describe(i, address);
}

TensorRef SharedTensors::MakeGradient(size_t i) {
  if (shared_.gradients[i] <= ADAPTDL_SPARSE) CallBack(job_, calls_.make_gradient, static_cast<int64_t>(i));
  shared_.changes[i] = ADAPTDL_KEEP;
  return Describe(i, shared_.gradients[i]);
}

void SharedTensors::DropGradient(size_t i) {
  shared_.gradients[i] = 0;
  Change(i, ADAPTDL_DROP);
}

uint64_t SharedTensors::GradientVersion(size_t i) {
  uint64_t version = 0;
  CallBack(job_, calls_.gradient_version, static_cast<int64_t>(i), &version);
  return version;
}

std::unique_ptr<elastic::HeldGradient> SharedTensors::HoldGradient(size_t i) {
  if (held_in_ != pass_) {
    held_ = std::make_shared<HeldStep>(this, pass_);
    held_in_ = pass_;
  }
  return std::make_unique<Held>(held_, i, Describe(i, shared_.gradients[i]));
}

void SharedTensors::SetSlot(size_t i, void* data, std::shared_ptr<const device::Memory> memory) {
  shared_.slots[i] = memory == nullptr ? 0 : reinterpret_cast<uint64_t>(data);
  slots_[i] = std::move(memory);
}

void SharedTensors::UseSlot(size_t i) {
  shared_.gradients[i] = shared_.slots[i];
  Change(i, ADAPTDL_USE_SLOT);
}

// --- Moments and buffers ---

void SharedTensors::TakeMoments(bool wanted) {
  if (!is_adam_) return;
  for (auto& moments : moments_) moments.reset();
  if (!wanted) return;
  CallBack(job_, calls_.take_moments);
  for (size_t i = 0; i < moments_.size(); ++i) {
    const adaptdl_moments& found = shared_.moments[i];
    if (found.exp_avg_sq == nullptr) continue;
    const auto preconditioner = device::AdamPreconditioner(found.step, found.beta2, found.epsilon);
    if (!preconditioner) continue;
    moments_[i] =
        Moments{{found.exp_avg_sq, layout_.parameters[i].count, static_cast<device::DataType>(found.type)},
                *preconditioner};
  }
}

const elastic::ModelTensors::Moments* SharedTensors::MomentsOf(size_t i) const {
  return moments_[i] ? &*moments_[i] : nullptr;
}

TensorRef SharedTensors::LoadBuffer(size_t b) {
  return {At(shared_.buffers[b]), shared_.buffer_counts[b],
          static_cast<device::DataType>(shared_.buffer_types[b])};
}

}  // namespace adaptdl::python
