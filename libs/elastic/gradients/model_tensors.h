// The tensors of a model, as the gradient exchange sees them: what a front end for LibTorch, Python or a test
// implements. All lie on one device.
//
// Parameters have numbers, from 0. The numbers of a gradient come in the order in which those of its parameter
// lie in memory, so that a gradient and second moments go together number by number.
//
// Thread-safety: the thread that trains, and the one that runs its backward pass meanwhile.

#ifndef ADAPTDL_LIBS_ELASTIC_GRADIENTS_MODEL_TENSORS_H_
#define ADAPTDL_LIBS_ELASTIC_GRADIENTS_MODEL_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/device/device.h"
#include "libs/device/preconditioner.h"
#include "libs/device/tensor_pass.h"
#include "libs/elastic/gradients/tensor_ref.h"

namespace adaptdl::elastic {

// A gradient that stays in memory though its parameter may have another one by now.
class HeldGradient {
 public:
  virtual ~HeldGradient() = default;
  virtual TensorRef tensor() const = 0;
  // Grows with each change that is known of; some pass by unnoticed.
  virtual uint64_t version() const = 0;
};

class ModelTensors {
 public:
  struct Parameter {
    int64_t count = 0;
    // A floating-point one.
    device::DataType type = device::DataType::kFloat32;
    // Parameter group, in [0, num_groups).
    int group = 0;
  };
  // Fixed, and the same on all replicas.
  struct Layout {
    std::vector<Parameter> parameters = {};
    int num_groups = 1;
    // How many numbers each has of the floating-point buffers, such as running means.
    std::vector<int64_t> buffers = {};
  };
  // Adam's, which scales what norms see.
  struct Moments {
    TensorRef exp_avg_sq = {};
    device::Preconditioner preconditioner = {};
  };

  virtual ~ModelTensors() = default;

  virtual const Layout& layout() const = 0;

  // Where the caller's kernels are put now.
  virtual device::Stream stream() = 0;

  // Whether parameter `i` requires a gradient now.
  virtual bool IsTrained(size_t i) = 0;

  // Its gradient, which may be written to; none: it has none. UNIMPLEMENTED: of a kind that can't be averaged.
  virtual absl::StatusOr<std::optional<TensorRef>> Gradient(size_t i) = 0;
  // The same; it is made, if there is none, with anything in it.
  virtual TensorRef MakeGradient(size_t i) = 0;
  virtual void DropGradient(size_t i) = 0;
  // Changes with the gradient, as HeldGradient::version(). 0: it has none.
  virtual uint64_t GradientVersion(size_t i) = 0;
  virtual std::unique_ptr<HeldGradient> HoldGradient(size_t i) = 0;

  // Where a gradient of parameter `i`, of its own type, can lie, until told otherwise; `memory` is that.
  // UseSlot(): there is its gradient now.
  virtual void SetSlot(size_t i, void* data, std::shared_ptr<const device::Memory> memory) = 0;
  virtual void UseSlot(size_t i) = 0;

  // Takes note of the optimiser's moments; or, if they are not `wanted`, of none. MomentsOf(): as they were
  // then; null: none that count.
  virtual void TakeMoments(bool wanted) = 0;
  virtual const Moments* MomentsOf(size_t i) const = 0;

  // Buffer `b`, to be read and written to. StoreBuffer(): was written to, as far as work on stream() goes.
  virtual TensorRef LoadBuffer(size_t b) = 0;
  virtual void StoreBuffer(size_t b) = 0;
};

// A pass that reads this tensor of a parameter with these moments; what else it does is for the caller to say.
inline device::TensorPass PassOver(const TensorRef& tensor, const ModelTensors::Moments* moments) {
  device::TensorPass pass{.source = tensor.data, .type = tensor.type, .count = tensor.count};
  if (moments == nullptr) return pass;
  pass.exp_avg_sq = moments->exp_avg_sq.data;
  pass.exp_avg_sq_type = moments->exp_avg_sq.type;
  pass.preconditioner = moments->preconditioner;
  return pass;
}

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GRADIENTS_MODEL_TENSORS_H_
