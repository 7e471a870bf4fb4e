// CUDA's errors as statuses.

#ifndef ADAPTDL_LIBS_DEVICE_CUDA_CUDA_STATUS_H_
#define ADAPTDL_LIBS_DEVICE_CUDA_CUDA_STATUS_H_

#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace adaptdl::device::cuda {

// UNAVAILABLE: the device is lost to this process, or never was there. RESOURCE_EXHAUSTED: no memory.
// FAILED_PRECONDITION: the machine's driver, or the GPU, does not fit. Else INTERNAL. The text begins with
// `device` and `operation`. Thread-safe.
absl::Status StatusOf(cudaError_t error, absl::string_view device, absl::string_view operation);

}  // namespace adaptdl::device::cuda

#endif  // ADAPTDL_LIBS_DEVICE_CUDA_CUDA_STATUS_H_
