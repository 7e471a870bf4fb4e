#include "adaptdl/grad_scaler.h"

#include "ATen/ATen.h"

namespace adaptdl {

at::Tensor GradScaler::Scale(const at::Tensor& loss) const { return loss * scale_; }

}  // namespace adaptdl
