// A model of one tensor whose gradients are handed in, and an optimiser that learns nothing: what the training library
// sees of a program, without a framework, whose start would cost more than the training that is played.
//
// Not thread-safe. Lies in main memory.

#ifndef ADAPTDL_BENCH_REPLAY_PLAYED_MODEL_H_
#define ADAPTDL_BENCH_REPLAY_PLAYED_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/elastic/gradients/gradient_exchange.h"
#include "libs/elastic/gradients/model_tensors.h"
#include "libs/elastic/step/optimizer.h"

namespace adaptdl::replay {

class PlayedModel final : public elastic::ModelTensors {
 public:
  explicit PlayedModel(int64_t entries) {
    layout_.parameters = {{.count = entries, .type = device::DataType::kFloat32, .group = 0}};
  }

  // A backward pass that comes to this gradient, which has as many entries.
  void Backward(elastic::GradientExchange& exchange, std::vector<float> gradient);

  const Layout& layout() const override { return layout_; }
  device::Stream stream() override { return nullptr; }
  bool IsTrained(size_t /*i*/) override { return true; }
  absl::StatusOr<std::optional<elastic::TensorRef>> Gradient(size_t /*i*/) override {
    if (!gradient_) return std::nullopt;
    return gradient_->ref;
  }
  elastic::TensorRef MakeGradient(size_t i) override;
  void DropGradient(size_t /*i*/) override { gradient_.reset(); }
  uint64_t GradientVersion(size_t /*i*/) override { return gradient_ ? version_ : 0; }
  std::unique_ptr<elastic::HeldGradient> HoldGradient(size_t i) override;
  void SetSlot(size_t i, void* data, std::shared_ptr<const device::Memory> memory) override;
  void UseSlot(size_t /*i*/) override { gradient_ = slot_; }
  void TakeMoments(bool /*wanted*/) override {}
  const Moments* MomentsOf(size_t /*i*/) const override { return nullptr; }
  elastic::TensorRef LoadBuffer(size_t /*b*/) override { return {}; }
  void StoreBuffer(size_t /*b*/) override {}

 private:
  // With what keeps it in memory.
  struct Tensor {
    elastic::TensorRef ref;
    std::shared_ptr<const void> memory;
  };
  class Held;

  static Tensor TensorOf(std::vector<float> numbers);

  Layout layout_;
  std::optional<Tensor> gradient_;
  Tensor slot_;
  uint64_t version_ = 1;
};

class PlayedOptimizer final : public elastic::Optimizer {
 public:
  size_t CountParameters() const override { return 1; }
  void Step(absl::Span<const double> /*factors*/) override {}
};

}  // namespace adaptdl::replay

#endif  // ADAPTDL_BENCH_REPLAY_PLAYED_MODEL_H_
