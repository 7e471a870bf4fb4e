// Compares the gradients of two steps in a row, which tells a single replica without accumulation how noisy
// they are (the differenced estimator of NoiseScale, which says when to compare and when to keep). The older
// gradients are kept by holding on to their tensors, which costs nothing where each step makes them anew.
// Where a program changes them instead (it clips them, or zeroes them in place), they are copied from then
// on.
//
// Thread-safety: the training thread, and the thread that runs its backward pass.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_PAIRS_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_PAIRS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ATen/core/Tensor.h"
#include "libs/elastic/torch/gradient_norms.h"

namespace adaptdl::elastic {

// By parameter group.
struct GradientPair {
  std::vector<double> current_sqr;
  std::vector<double> previous_sqr;
  std::vector<double> dot;
  // Total batch size of the older step over the initial one.
  double previous_scale = 1;
};

class GradientPairs {
 public:
  // `norms` is not owned. `groups`: parameter group by parameter.
  GradientPairs(const GradientNorms* norms, std::vector<int> groups, int num_groups);

  // Whether the last step's gradients were kept and are still what they were. To be asked once, before
  // BeginStep().
  bool HasPrevious();

  // The next step begins, before any of its gradients is ready. `compare`: with the last step's, which must
  // be there; `keep`: for the next step. `scale`: its total batch size over the initial one.
  void BeginStep(bool compare, bool keep, double scale);

  // Nothing was kept.
  void Forget() {
    previous_.clear();
    current_.clear();
  }

  // The gradient of parameter `i` is ready.
  void Add(size_t i, const at::Tensor& gradient);

  // The step's gradients are complete. Absent: they were not compared.
  std::optional<GradientPair> EndStep();

 private:
  // A gradient, and how to find out that it was changed since: LibTorch's count of changes, which some of its
  // own functions pass by (clip_grad_norm_), and a few of its numbers.
  struct Kept {
    static constexpr size_t kProbes = 4;

    Kept() = default;
    explicit Kept(at::Tensor tensor);
    bool IsIntact() const;

    at::Tensor gradient;
    uint32_t version = 0;
    std::array<double, kProbes> probes = {};
  };

  void Compare(size_t i, const at::Tensor& previous, const at::Tensor& current);

  const GradientNorms* const norms_;
  const std::vector<int> groups_;
  const int num_groups_;
  bool compare_ = false;
  bool keep_ = false;
  // Whether gradients are kept as copies.
  bool copying_ = false;
  double scale_ = 0;
  // Of the last step and of this one. Empty: not kept.
  std::vector<Kept> previous_;
  std::vector<Kept> current_;
  // Parameters whose gradient was compared in this step.
  std::vector<bool> seen_;
  GradientPair pair_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_PAIRS_H_
