// Mixed precision for a block of code: LibTorch's autocast mode, under which matrix products and convolutions
// run in a shorter floating-point type, and what needs the range stays in float32. Parameters, gradients and
// the optimiser stay in float32 too.
//
//   {
//     const adaptdl::Autocast autocast(torch::kCPU, torch::kBFloat16);
//     loss = loss_of(model->forward(batch.data), batch.target);
//   }
//   scaler.Scale(loss).backward();          // outside: it runs in the types that the forward pass chose
//
// On a CPU the type is bfloat16; on CUDA bfloat16 or float16, which needs a GradScaler (grad_scaler.h).
//
// Thread-safety: for the thread that makes it, and to be destroyed there. They nest.

#ifndef ADAPTDL_AUTOCAST_H_
#define ADAPTDL_AUTOCAST_H_

#include "c10/core/DeviceType.h"
#include "c10/core/ScalarType.h"

namespace adaptdl {

class Autocast {
 public:
  // Only for operations on this kind of device: CPU or CUDA, else it throws std::invalid_argument. `enabled`
  // false: a block within one that is to run as it is written.
  Autocast(c10::DeviceType device, c10::ScalarType type, bool enabled = true);
  // Puts back what was before.
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const c10::DeviceType device_;
  const bool enabled_before_;
  const c10::ScalarType type_before_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_AUTOCAST_H_
