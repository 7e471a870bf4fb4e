// Squared norms of gradients, preconditioned as the optimiser does it: |g / p|^2, with p = 1, or Adam's
// sqrt(v / (1 - beta2^t)) + eps once it has taken a few steps (the gradient noise scale of what Adam
// applies).
//
// Contiguous float32 and float64 tensors in main memory are read in one pass (libs/device); others are
// converted.
//
// Thread-safety: the training thread, and the thread that runs its backward pass.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_NORMS_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_NORMS_H_

#include <cstddef>
#include <vector>

#include "ATen/core/Tensor.h"
#include "libs/device/gradient_kernels.h"

namespace torch::optim {
class Optimizer;
}

namespace adaptdl::elastic {

class GradientNorms {
 public:
  // `optimizer` must outlive it. Preconditioned if `precondition`, which Adam and AdamW support. `groups`:
  // the optimiser's parameter group of each parameter.
  GradientNorms(torch::optim::Optimizer* optimizer, bool precondition, std::vector<at::Tensor> parameters,
                std::vector<int> groups);

  // Takes the optimiser's moments as they are. To be called before the gradients of a step are looked at.
  void BeginStep();

  // |gradient / p|^2 of parameter `i`.
  double Squared(size_t i, const at::Tensor& gradient) const;

  // |gradient / p|^2; then the gradient becomes factor * gradient.
  double SquaredThenScale(size_t i, double factor, at::Tensor* gradient) const;

  // |gradient / p|^2; then `to`, of the same shape, becomes factor * gradient. It may be the gradient itself.
  double SquaredThenScaleTo(size_t i, double factor, const at::Tensor& gradient, at::Tensor* to) const;

  // Sums over the gradients of two steps.
  device::PairSums Compare(size_t i, const at::Tensor& previous, const at::Tensor& current) const;

 private:
  struct Moments {
    // Undefined: p = 1.
    at::Tensor exp_avg_sq;
    device::Preconditioner preconditioner;
  };

  torch::optim::Optimizer* const optimizer_;
  const bool precondition_;
  const std::vector<at::Tensor> parameters_;
  const std::vector<int> groups_;
  std::vector<Moments> moments_;
};

// Whether `optimizer` is Adam or AdamW.
bool IsAdam(const torch::optim::Optimizer& optimizer);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_NORMS_H_
