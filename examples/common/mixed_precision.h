// Training in the precision that options.precision asks for, on AdaptDL's Autocast and GradScaler:
//
//   torch::Tensor loss;
//   {
//     const auto autocast = precision.ForwardPass();
//     loss = loss_of(net->forward(batch.data), batch.target);
//   }
//   precision.Scaled(loss).backward();

#ifndef ADAPTDL_EXAMPLES_COMMON_MIXED_PRECISION_H_
#define ADAPTDL_EXAMPLES_COMMON_MIXED_PRECISION_H_

#include <optional>

#include "adaptdl/autocast.h"
#include "adaptdl/grad_scaler.h"
#include "c10/core/Device.h"
#include "c10/core/ScalarType.h"
#include "examples/common/options.h"

namespace examples {

class MixedPrecision {
 public:
  // Ends the process, and says why, if `device` cannot compute so.
  MixedPrecision(const Options& options, const c10::Device& device);

  // For AdaptiveDataParallel. Null: gradients of this type are not too small.
  adaptdl::GradScaler* grad_scaler() { return scaler_ ? &*scaler_ : nullptr; }

  adaptdl::Autocast ForwardPass() const;
  at::Tensor Scaled(const at::Tensor& loss) const;

 private:
  const c10::DeviceType device_;
  const c10::ScalarType type_;
  std::optional<adaptdl::GradScaler> scaler_;
};

}  // namespace examples

#endif  // ADAPTDL_EXAMPLES_COMMON_MIXED_PRECISION_H_
