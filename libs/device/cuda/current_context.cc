#include "libs/device/cuda/current_context.h"

#include <cudaTypedefs.h>

namespace adaptdl::device::cuda {
namespace {

// Functions of the driver, which is found at run time, as machines that build have none.
struct Driver {
  PFN_cuDeviceGet_v2000 get_device = nullptr;
  PFN_cuDevicePrimaryCtxRetain_v7000 retain = nullptr;
  PFN_cuCtxPushCurrent_v4000 push = nullptr;
  PFN_cuCtxPopCurrent_v4000 pop = nullptr;
  cudaError_t error = cudaSuccess;
};

template <typename Function>
void Find(const char* name, Function* function, cudaError_t* error) {
  // The oldest that has these types.
  constexpr unsigned kVersion = 7000;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
  *function = reinterpret_cast<Function>(found);
  if (status != cudaSuccess) *error = status;
  if (status == cudaSuccess && found == nullptr) *error = cudaErrorInsufficientDriver;
}

const Driver& TheDriver() {
  static const Driver driver = [] {
    Driver found;
    Find("cuDeviceGet", &found.get_device, &found.error);
    Find("cuDevicePrimaryCtxRetain", &found.retain, &found.error);
    Find("cuCtxPushCurrent", &found.push, &found.error);
    Find("cuCtxPopCurrent", &found.pop, &found.error);
    return found;
  }();
  return driver;
}

// The driver numbers its errors as the runtime does.
cudaError_t ErrorOf(CUresult result) { return static_cast<cudaError_t>(result); }

}  // namespace

cudaError_t FindSharedContext(int index, CUcontext* context) {
  const Driver& driver = TheDriver();
  if (driver.error != cudaSuccess) return driver.error;
  CUdevice device = 0;
  const cudaError_t error = ErrorOf(driver.get_device(&device, index));
  return error == cudaSuccess ? ErrorOf(driver.retain(context, device)) : error;
}

CurrentContext::CurrentContext(CUcontext context) : error_(ErrorOf(TheDriver().push(context))) {}

CurrentContext::~CurrentContext() {
  CUcontext popped = nullptr;
  if (error_ == cudaSuccess) (void)TheDriver().pop(&popped);
}

}  // namespace adaptdl::device::cuda
