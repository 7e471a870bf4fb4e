#include "adaptdl/batch_device.h"

namespace adaptdl {

at::Tensor Pin(const at::Tensor& tensor, const c10::Device& device) {
  return device.is_cuda() && tensor.device().is_cpu() ? tensor.pin_memory() : tensor;
}

at::Tensor ToDevice(const at::Tensor& tensor, const c10::Device& device) {
  return tensor.to(device, /*non_blocking=*/true);
}

}  // namespace adaptdl
