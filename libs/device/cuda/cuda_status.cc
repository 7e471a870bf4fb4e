#include "libs/device/cuda/cuda_status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace adaptdl::device::cuda {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return absl::StatusCode::kOk;
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    // Broken, taken away, or held by somebody else.
    case cudaErrorNoDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorContained:
    case cudaErrorSystemNotReady:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsClientTerminated:
    // What the driver says of a GPU that fell off its bus.
    case cudaErrorUnknown:
      return absl::StatusCode::kUnavailable;
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorDeviceNotLicensed:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

std::string RemedyFor(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver:
      return absl::StrCat("; install NVIDIA's driver for CUDA ", CUDART_VERSION / 1000, ".",
                          CUDART_VERSION % 1000 / 10,
                          " or newer on this machine, and give containers access to it");
    case cudaErrorNoKernelImageForDevice:
      return "; this GPU is older than those that libadaptdl_cuda.so was built for "
             "(ADAPTDL_CUDA_ARCHITECTURES)";
    default:
      return "";
  }
}

}  // namespace

absl::Status StatusOf(cudaError_t error, absl::string_view device, absl::string_view operation) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::Status(CodeOf(error), absl::StrCat(device, ": ", operation, ": ", cudaGetErrorString(error),
                                                  " (", cudaGetErrorName(error), ")", RemedyFor(error)));
}

}  // namespace adaptdl::device::cuda
