// Opens libadaptdl_cuda.so, which drives NVIDIA's GPUs, where there is one: programs need neither CUDA nor a GPU to
// be built and started.
//
// FAILED_PRECONDITION says that it cannot be used, and what to do. Thread-safe.

#ifndef ADAPTDL_LIBS_DEVICE_DEVICE_LOADER_H_
#define ADAPTDL_LIBS_DEVICE_DEVICE_LOADER_H_

#include <string>

#include "absl/status/statusor.h"
#include "libs/device/device.h"
#include "libs/device/device_plugin.h"

namespace adaptdl::device {

// How many devices this process sees (CUDA_VISIBLE_DEVICES). The library is opened once in a process: at
// $ADAPTDL_CUDA_LIBRARY if that is set, else where ours are (libs/base/shared_library.h).
absl::StatusOr<int> CountCudaDevices();

// As CUDA counts, from 0. It lives as long as the process. INVALID_ARGUMENT: there is none of this index. Else the
// failures of Device.
absl::StatusOr<Device*> CudaDeviceAt(int index);

// What both use. `library`: a path, or empty to look where ours are. The result lives as long as the process.
absl::StatusOr<const DevicePlugin*> OpenDevicePlugin(const std::string& library);

}  // namespace adaptdl::device

#endif  // ADAPTDL_LIBS_DEVICE_DEVICE_LOADER_H_
