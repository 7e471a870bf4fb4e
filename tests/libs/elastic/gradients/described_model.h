// A model that consists of nothing but descriptions of where its tensors lie on a device, and backward passes
// over it that hand in given gradients. The host reads and writes its numbers through the device alone.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_GRADIENTS_DESCRIBED_MODEL_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_GRADIENTS_DESCRIBED_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/device/device.h"
#include "libs/elastic/gradients/gradient_exchange.h"
#include "libs/elastic/gradients/model_tensors.h"
#include "tests/libs/device/device_memory.h"

namespace adaptdl::elastic {

using Numbers = std::vector<double>;
// By parameter. Nothing: it has no gradient.
using Gradients = std::vector<std::optional<Numbers>>;

// A gradient in memory of its own, or in a slot of a bucket.
struct DescribedTensor {
  TensorRef ref = {};
  std::shared_ptr<const void> memory = {};
};

class DescribedModel final : public ModelTensors {
 public:
  // Layout::buffers follows from `buffers`. All are zero.
  DescribedModel(device::Device& device, Layout layout)
      : device_(device), layout_(std::move(layout)), trained_(layout_.parameters.size(), true) {
    gradients_.resize(layout_.parameters.size());
    slots_.resize(layout_.parameters.size());
    versions_.resize(layout_.parameters.size(), 0);
    moments_.resize(layout_.parameters.size());
    for (const int64_t count : layout_.buffers) {
      buffers_.push_back(Make(Numbers(static_cast<size_t>(count), 0), device::DataType::kFloat32));
    }
  }

  // --- For tests ---

  device::Device& device() { return device_; }
  void SetTrained(size_t i, bool trained) { trained_[i] = trained; }
  // Where the hooks of the backward pass find themselves; by turns.
  void SetStreams(std::vector<device::Stream> streams) { streams_ = std::move(streams); }
  void SetBuffer(size_t b, const Numbers& numbers) { Write(buffers_[b].ref, numbers); }
  Numbers Buffer(size_t b) { return Read(buffers_[b].ref); }
  void SetMoments(size_t i, const Numbers& exp_avg_sq, const device::Preconditioner& preconditioner) {
    moments_[i] = Moments_{Make(exp_avg_sq, layout_.parameters[i].type), {}};
    moments_[i]->said = {moments_[i]->tensor.ref, preconditioner};
  }

  // The gradient of parameter `i`.
  std::optional<Numbers> GradientNumbers(size_t i) {
    if (!gradients_[i]) return std::nullopt;
    return Read(gradients_[i]->ref);
  }
  // As a program that writes to it: with a count of that, or past it.
  void Overwrite(size_t i, const Numbers& numbers, bool counted) {
    Write(gradients_[i]->ref, numbers);
    if (counted) ++versions_[i];
  }

  // In memory of the device before a pass begins, which then waits for nothing to make them.
  struct Prepared {
    std::vector<std::optional<DescribedTensor>> gradients;
  };
  Prepared Prepare(const Gradients& gradients) {
    Prepared prepared;
    for (size_t i = 0; i < gradients.size(); ++i) {
      prepared.gradients.emplace_back();
      if (gradients[i]) prepared.gradients.back() = Make(*gradients[i], layout_.parameters[i].type);
    }
    return prepared;
  }

  // A backward pass, from the last parameter to the first, up to its end.
  void Backward(GradientExchange& exchange, const Prepared& gradients) {
    for (size_t i = gradients.gradients.size(); i-- > 0;) {
      if (!gradients.gradients[i] || !trained_[i]) continue;
      at_ = i;
      began_ = exchange.BeginPass() || began_;
      const DescribedTensor& gradient = *gradients.gradients[i];
      const bool counts = !exchange.looks_at_passes() || exchange.OnPassGradient(i, gradient.ref);
      Accumulate(i, gradient, counts);
      exchange.OnGradientReady(i);
    }
    if (std::exchange(began_, false)) exchange.EndPass();
  }
  void Backward(GradientExchange& exchange, const Gradients& gradients) {
    Backward(exchange, Prepare(gradients));
  }

  // Waits for the device that reading and writing here has taken, of all threads that trained this model.
  int64_t own_waits() const { return own_waits_; }

  Numbers Read(const TensorRef& ref) {
    const int64_t before = device::Device::WaitsOfThread();
    const int64_t bytes = ref.count * device::ElementSize(ref.type);
    const device::Memory host = device_.AllocateHost(std::max<int64_t>(bytes, 1)).value();
    AwaitAll();
    device_.Copy(host.data(), ref.data, bytes, nullptr).IgnoreError();
    device::Synchronize(device_);
    own_waits_ += device::Device::WaitsOfThread() - before;
    return device::NumbersOf(std::vector<char>(host.at(0), host.at(bytes)), ref.type);
  }
  void Write(const TensorRef& ref, const Numbers& numbers) {
    const int64_t before = device::Device::WaitsOfThread();
    const std::vector<char> bytes = device::BytesOf(numbers, ref.type);
    const device::Memory host = device_.AllocateHost(std::max<int64_t>(1, bytes.size())).value();
    std::copy(bytes.begin(), bytes.end(), host.at(0));
    AwaitAll();
    device_.Copy(ref.data, host.data(), static_cast<int64_t>(bytes.size()), nullptr).IgnoreError();
    device::Synchronize(device_);
    own_waits_ += device::Device::WaitsOfThread() - before;
  }
  DescribedTensor Make(const Numbers& numbers, device::DataType type) {
    const auto count = static_cast<int64_t>(numbers.size());
    auto memory = std::make_shared<device::Memory>(
        device_.Allocate(std::max<int64_t>(1, count * device::ElementSize(type))).value());
    DescribedTensor tensor{{memory->data(), count, type}, memory};
    Write(tensor.ref, numbers);
    return tensor;
  }

  // --- ModelTensors ---

  const Layout& layout() const override { return layout_; }
  device::Stream stream() override { return streams_.empty() ? nullptr : streams_[at_ % streams_.size()]; }
  bool IsTrained(size_t i) override { return trained_[i]; }
  absl::StatusOr<std::optional<TensorRef>> Gradient(size_t i) override {
    if (!gradients_[i]) return std::nullopt;
    return gradients_[i]->ref;
  }
  TensorRef MakeGradient(size_t i) override {
    const ModelTensors::Parameter& parameter = layout_.parameters[i];
    if (!gradients_[i])
      gradients_[i] = Make(Numbers(static_cast<size_t>(parameter.count), 0), parameter.type);
    return gradients_[i]->ref;
  }
  void DropGradient(size_t i) override {
    if (gradients_[i]) dropped_.push_back(*std::exchange(gradients_[i], std::nullopt));
  }
  uint64_t GradientVersion(size_t i) override { return gradients_[i] ? versions_[i] + 1 : 0; }
  std::unique_ptr<HeldGradient> HoldGradient(size_t i) override {
    return std::make_unique<Held>(*gradients_[i], &versions_[i]);
  }
  void SetSlot(size_t i, void* data, std::shared_ptr<const device::Memory> memory) override {
    const ModelTensors::Parameter& parameter = layout_.parameters[i];
    slots_[i] = DescribedTensor{{data, parameter.count, parameter.type}, std::move(memory)};
  }
  void UseSlot(size_t i) override {
    DropGradient(i);
    gradients_[i] = slots_[i];
  }
  void TakeMoments(bool wanted) override { wanted_ = wanted; }
  const Moments* MomentsOf(size_t i) const override {
    return wanted_ && moments_[i] ? &moments_[i]->said : nullptr;
  }
  TensorRef LoadBuffer(size_t b) override { return buffers_[b].ref; }
  void StoreBuffer(size_t /*b*/) override {}

 private:
  class Held final : public HeldGradient {
   public:
    Held(DescribedTensor tensor, const uint64_t* version) : tensor_(std::move(tensor)), version_(version) {}
    TensorRef tensor() const override { return tensor_.ref; }
    uint64_t version() const override { return *version_; }

   private:
    const DescribedTensor tensor_;
    const uint64_t* const version_;
  };
  struct Moments_ {
    DescribedTensor tensor;
    Moments said;
  };

  // As LibTorch does: the first gradient is taken over, later ones are added to it.
  void Accumulate(size_t i, const DescribedTensor& gradient, bool counts) {
    if (!gradients_[i] && counts) {
      gradients_[i] = gradient;
      return;
    }
    Numbers sum(static_cast<size_t>(layout_.parameters[i].count), 0);
    if (gradients_[i]) sum = Read(gradients_[i]->ref);
    if (counts) {
      const Numbers more = Read(gradient.ref);
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += more[k];
    }
    if (gradients_[i]) {
      Write(gradients_[i]->ref, sum);
    } else {
      gradients_[i] = Make(sum, layout_.parameters[i].type);
    }
  }

  void AwaitAll() {
    device::Synchronize(device_);
    for (const device::Stream stream : streams_) device::Synchronize(device_, stream);
    dropped_.clear();
  }

  device::Device& device_;
  const Layout layout_;
  std::vector<bool> trained_;
  std::vector<std::optional<DescribedTensor>> gradients_;
  // Kept until the device cannot be working on them any more, as allocators of GPU memory do.
  std::vector<DescribedTensor> dropped_;
  std::vector<DescribedTensor> slots_;
  std::vector<uint64_t> versions_;
  std::vector<std::optional<Moments_>> moments_;
  bool wanted_ = false;
  std::vector<DescribedTensor> buffers_;
  std::vector<device::Stream> streams_;
  // The parameter whose hook runs.
  size_t at_ = 0;
  bool began_ = false;
  int64_t own_waits_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_GRADIENTS_DESCRIBED_MODEL_H_
