// A model's tensors, by the memory that the engine and the interpreter share (adaptdl_shared): the engine's view of
// them, on whatever device.
//
// What the engine does to gradients is noted in that memory, for the interpreter to follow after the call; where the
// engine needs something at once it calls back.
//
// Thread-safety: as ModelTensors.

#ifndef ADAPTDL_PYTHON_ENGINE_SHARED_TENSORS_H_
#define ADAPTDL_PYTHON_ENGINE_SHARED_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/device/device.h"
#include "libs/elastic/gradients/model_tensors.h"
#include "python/engine/calls.h"

namespace adaptdl::python {

class SharedTensors final : public elastic::ModelTensors {
 public:
  // `job` is not owned.
  SharedTensors(adaptdl_job* job, const adaptdl_shared& shared, const adaptdl_model_calls& calls,
                bool is_adam);

  // A pass begins, before anything else of it: what is held is looked at anew.
  void BeginPass() { ++pass_; }
  // The parameter's gradient lies there now.
  void SetGradient(size_t i, uint64_t address) { shared_.gradients[i] = address; }
  const adaptdl_shared& shared() const { return shared_; }
  std::shared_ptr<const device::Memory> MemoryOfSlot(size_t i) const { return slots_[i]; }

  // A gradient as the exchange reads it.
  elastic::TensorRef Describe(size_t i, uint64_t address) const;

  const Layout& layout() const override { return layout_; }
  device::Stream stream() override;
  bool IsTrained(size_t i) override { return shared_.trained[i] != 0; }
  absl::StatusOr<std::optional<elastic::TensorRef>> Gradient(size_t i) override;
  elastic::TensorRef MakeGradient(size_t i) override;
  void DropGradient(size_t i) override;
  uint64_t GradientVersion(size_t i) override;
  std::unique_ptr<elastic::HeldGradient> HoldGradient(size_t i) override;
  void SetSlot(size_t i, void* data, std::shared_ptr<const device::Memory> memory) override;
  void UseSlot(size_t i) override;
  void TakeMoments(bool wanted) override;
  const Moments* MomentsOf(size_t i) const override;
  elastic::TensorRef LoadBuffer(size_t b) override;
  void StoreBuffer(size_t /*b*/) override {}

 private:
  class HeldStep;
  class Held;

  void Change(size_t i, uint8_t change);

  adaptdl_job* const job_;
  const adaptdl_shared shared_;
  const adaptdl_model_calls calls_;
  const bool is_adam_;
  Layout layout_;
  std::vector<std::shared_ptr<const device::Memory>> slots_;
  std::vector<std::optional<Moments>> moments_;
  // Passes begun; and the gradients that were held last, by the pass that it was in.
  int64_t pass_ = 0;
  int64_t held_in_ = -1;
  std::shared_ptr<HeldStep> held_;
};

}  // namespace adaptdl::python

#endif  // ADAPTDL_PYTHON_ENGINE_SHARED_TENSORS_H_
