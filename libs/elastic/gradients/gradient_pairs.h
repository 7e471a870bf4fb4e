// Compares the gradients of two steps in a row, which tells a single replica without accumulation how noisy
// they are (the differenced estimator of NoiseScale, which says when to compare and when to keep).
//
// The older gradients are kept by holding on to their tensors, which costs nothing where each step makes them
// anew. Where a program changes them instead (it clips them, or zeroes them in place), they are copied from
// then on; and on devices whose memory the host cannot look at they always are.
//
// Thread-safety: as ModelTensors.

#ifndef ADAPTDL_LIBS_ELASTIC_GRADIENTS_GRADIENT_PAIRS_H_
#define ADAPTDL_LIBS_ELASTIC_GRADIENTS_GRADIENT_PAIRS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "libs/device/device.h"
#include "libs/device/tensor_pass.h"
#include "libs/elastic/gradients/model_tensors.h"
#include "libs/elastic/gradients/pass_queue.h"
#include "libs/elastic/gradients/step_numbers.h"
#include "libs/elastic/gradients/tensor_ref.h"

namespace adaptdl::elastic {

class GradientPairs {
 public:
  // None is owned.
  GradientPairs(device::Device* device, ModelTensors* model, const StepNumbers* numbers);

  // Whether the last step's gradients were kept and are still what they were. To be asked once, before
  // BeginStep().
  bool HasPrevious();

  // The next step begins, before any of its gradients is ready. `compare`: with the last step's, which must
  // be there; `keep`: for the next step.
  void BeginStep(bool compare, bool keep);
  bool compares() const { return compare_; }

  // Nothing was kept.
  void Forget();

  // What comparing and keeping need of the pass over the gradient of parameter `i`. Keep(): it has run, or
  // waits to be.
  absl::Status Extend(size_t i, device::TensorPass* pass);
  void Keep(size_t i);

  // The step's gradients are complete: adds passes over those of the older step that nothing was compared with.
  absl::Status EndStep(PassQueue* passes, device::Stream stream);

 private:
  // A gradient of a step. A held one was changed since if its version is another, or a few of its numbers are.
  struct Kept {
    static constexpr size_t kProbes = 4;
    using Probes = std::array<uint64_t, kProbes>;

    bool IsIntact() const;

    std::unique_ptr<HeldGradient> held = {};
    uint64_t version = 0;
    Probes probes = {};
    // Where it is. None: there was no gradient.
    std::optional<TensorRef> tensor = {};
  };

  static Kept::Probes Probe(const TensorRef& tensor);
  absl::StatusOr<TensorRef> CopyOf(size_t i, const device::TensorPass& pass);

  device::Device* const device_;
  ModelTensors* const model_;
  const StepNumbers* const numbers_;
  bool compare_ = false;
  bool keep_ = false;
  // Whether gradients are kept as copies; and where, by parameter.
  bool copying_;
  std::vector<device::Memory> copies_;
  // Of the last step and of this one. Empty: not kept.
  std::vector<Kept> previous_;
  std::vector<Kept> current_;
  // Parameters whose gradient was compared in this step.
  std::vector<bool> seen_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GRADIENTS_GRADIENT_PAIRS_H_
