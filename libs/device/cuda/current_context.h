// Which device CUDA's calls of a thread mean.
//
// By the driver's stack of contexts, not by cudaSetDevice(): that could not be undone without waking up the device
// that was meant before, and another copy of CUDA's runtime in the process (LibTorch's) keeps a device of its own
// for threads, which stays as it is.

#ifndef ADAPTDL_LIBS_DEVICE_CUDA_CURRENT_CONTEXT_H_
#define ADAPTDL_LIBS_DEVICE_CUDA_CURRENT_CONTEXT_H_

#include <cuda.h>
#include <cuda_runtime.h>

namespace adaptdl::device::cuda {

// The context of device `index` that all libraries in the process share. It stays for the life of the process.
// Thread-safe.
cudaError_t FindSharedContext(int index, CUcontext* context);

// Makes a device current for the thread, until its end. `context`: from FindSharedContext().
class CurrentContext {
 public:
  explicit CurrentContext(CUcontext context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  // Calls mean the device only if this is success.
  cudaError_t error() const { return error_; }

 private:
  const cudaError_t error_;
};

}  // namespace adaptdl::device::cuda

#endif  // ADAPTDL_LIBS_DEVICE_CUDA_CURRENT_CONTEXT_H_
