// An optimiser of LibTorch, for the step engine: its steps, and Adam's moments.
//
// Thread-safety: the training thread, and the one that runs its backward pass.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_TORCH_OPTIMIZER_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_TORCH_OPTIMIZER_H_

#include <cstddef>
#include <optional>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "libs/device/preconditioner.h"
#include "libs/elastic/step/optimizer.h"

namespace torch::optim {
class Optimizer;
}

namespace adaptdl::elastic {

class TorchOptimizer final : public Optimizer {
 public:
  // Not owned.
  explicit TorchOptimizer(torch::optim::Optimizer* optimizer);

  size_t CountParameters() const override;
  void Step(absl::Span<const double> factors) override;

  // Adam or AdamW.
  bool is_adam() const { return is_adam_; }

  struct Moments {
    at::Tensor exp_avg_sq;
    device::Preconditioner preconditioner;
  };
  // Of a parameter of this group, as they are now. Nothing: it has none that say enough.
  std::optional<Moments> MomentsOf(const at::Tensor& parameter, int group) const;

 private:
  torch::optim::Optimizer* const optimizer_;
  const bool is_adam_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_TORCH_OPTIMIZER_H_
