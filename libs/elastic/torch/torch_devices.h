// LibTorch's devices and types, as libs/device has them.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_TORCH_DEVICES_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_TORCH_DEVICES_H_

#include <optional>

#include "absl/status/statusor.h"
#include "c10/core/Device.h"
#include "c10/core/ScalarType.h"
#include "libs/device/data_type.h"
#include "libs/device/device.h"

namespace adaptdl::elastic {

// Nothing: a type that gradients cannot have here.
std::optional<device::DataType> DataTypeOf(at::ScalarType type);

// Of the process; never destroyed. FAILED_PRECONDITION: this program cannot work with it.
absl::StatusOr<device::Device*> DeviceFor(const at::Device& device);

// Where LibTorch puts the calling thread's kernels on this device.
device::Stream CurrentStream(const at::Device& device);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_TORCH_DEVICES_H_
