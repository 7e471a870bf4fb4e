// Loss scaling for mixed precision: small gradients would be lost in float16, so the loss is multiplied by a
// large factor before the backward pass, and the gradients are divided by it before they are used.
//
//   adaptdl::GradScaler scaler;
//   adaptdl::AdaptiveDataParallel parallel(*job, *model, optimizer, {.grad_scaler = &scaler});
//   ...
//   scaler.Scale(loss).backward();
//   parallel.Step();
//
// Step() divides the gradients, leaves out a step whose gradients overflowed on any replica, and adjusts the
// factor: it is halved after such a step, and doubled after `growth_interval` steps without one (Micikevicius
// et al., "Mixed Precision Training", 2018, section 3.2). The factor is part of the job's checkpoints, and
// the same on all replicas.
//
// Thread-safety: the training thread only.

#ifndef ADAPTDL_GRAD_SCALER_H_
#define ADAPTDL_GRAD_SCALER_H_

#include <cstdint>

namespace at {
class Tensor;
}

namespace adaptdl {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
};

class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {})
      : options_(options), scale_(options.init_scale) {}

  at::Tensor Scale(const at::Tensor& loss) const;

  double scale() const { return scale_; }
  // Steps since the factor changed.
  int64_t growth_steps() const { return growth_steps_; }

  // After each step; AdaptiveDataParallel does it.
  void Update(bool overflowed);
  void Restore(double scale, int64_t growth_steps);

 private:
  const GradScalerOptions options_;
  double scale_;
  int64_t growth_steps_ = 0;
};

}  // namespace adaptdl

#endif  // ADAPTDL_GRAD_SCALER_H_
