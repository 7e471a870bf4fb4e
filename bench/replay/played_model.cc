#include "bench/replay/played_model.h"

#include <cstddef>
#include <utility>

namespace adaptdl::replay {

class PlayedModel::Held final : public elastic::HeldGradient {
 public:
  Held(Tensor tensor, const uint64_t* version) : tensor_(std::move(tensor)), version_(version) {}
  elastic::TensorRef tensor() const override { return tensor_.ref; }
  uint64_t version() const override { return *version_; }

 private:
  const Tensor tensor_;
  const uint64_t* const version_;
};

PlayedModel::Tensor PlayedModel::TensorOf(std::vector<float> numbers) {
  const auto memory = std::make_shared<std::vector<float>>(std::move(numbers));
  return {{memory->data(), static_cast<int64_t>(memory->size()), device::DataType::kFloat32}, memory};
}

elastic::TensorRef PlayedModel::MakeGradient(size_t i) {
  if (!gradient_) gradient_ = TensorOf(std::vector<float>(static_cast<size_t>(layout_.parameters[i].count)));
  return gradient_->ref;
}

std::unique_ptr<elastic::HeldGradient> PlayedModel::HoldGradient(size_t /*i*/) {
  return std::make_unique<Held>(*gradient_, &version_);
}

void PlayedModel::SetSlot(size_t i, void* data, std::shared_ptr<const device::Memory> memory) {
  slot_ = {{data, layout_.parameters[i].count, layout_.parameters[i].type}, std::move(memory)};
}

void PlayedModel::Backward(elastic::GradientExchange& exchange, std::vector<float> gradient) {
  const bool began = exchange.BeginPass();
  Tensor made = TensorOf(std::move(gradient));
  const bool counts = !exchange.looks_at_passes() || exchange.OnPassGradient(0, made.ref);
  // As frameworks do: the first gradient is taken over, later ones are added to it.
  if (counts && !gradient_) {
    gradient_ = std::move(made);
  } else {
    auto* const sum = static_cast<float*>(MakeGradient(0).data);
    const auto* const more = static_cast<const float*>(made.ref.data);
    for (int64_t k = 0; counts && k < made.ref.count; ++k) sum[k] += more[k];
  }
  ++version_;
  exchange.OnGradientReady(0);
  if (began) exchange.EndPass();
}

}  // namespace adaptdl::replay
