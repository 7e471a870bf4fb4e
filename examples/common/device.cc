#include "examples/common/device.h"

#include "examples/common/report.h"
#include "torch/cuda.h"
#include "torch/nn/module.h"

namespace examples {

c10::Device DeviceOf(const Options& options) {
  if (options.device == "cpu") return c10::DeviceType::CPU;
  if (torch::cuda::is_available()) return c10::Device(c10::DeviceType::CUDA, 0);
  if (options.device == "cuda") {
    Fail(
        "--device cuda: LibTorch sees no GPU; it has to be built with CUDA, and nvidia-smi has to list one. "
        "--device cpu trains without");
  }
  return c10::DeviceType::CPU;
}

c10::Device DeviceOf(const torch::nn::Module& net) { return net.parameters().front().device(); }

}  // namespace examples
