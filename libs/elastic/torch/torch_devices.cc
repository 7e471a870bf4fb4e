#include "libs/elastic/torch/torch_devices.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/device/cpu_device.h"
#include "libs/device/device_loader.h"
#ifdef ADAPTDL_TORCH_CUDA
#include "c10/cuda/CUDAStream.h"
#endif

namespace adaptdl::elastic {

std::optional<device::DataType> DataTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return device::DataType::kFloat32;
    case at::kDouble:
      return device::DataType::kFloat64;
    case at::kHalf:
      return device::DataType::kFloat16;
    case at::kBFloat16:
      return device::DataType::kBFloat16;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<device::Device*> DeviceFor(const at::Device& device) {
  if (device.is_cpu()) return &device::Cpu();
  if (device.is_cuda()) return device::CudaDeviceAt(device.has_index() ? device.index() : 0);

  return absl::FailedPreconditionError(
      absl::StrCat("the model is on ", device.str(), "; it can be on a CPU or on a CUDA GPU"));
}

device::Stream CurrentStream([[maybe_unused]] const at::Device& device) {
#ifdef ADAPTDL_TORCH_CUDA
  if (device.is_cuda()) return at::cuda::getCurrentCUDAStream(device.index()).stream();
#endif
  return nullptr;
}

}  // namespace adaptdl::elastic
