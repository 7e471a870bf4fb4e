// The kernels that run batches of passes: one that does everything to each chunk, and if sums are wanted one
// that adds those of the chunks.

#ifndef ADAPTDL_LIBS_DEVICE_CUDA_TENSOR_PASS_KERNELS_H_
#define ADAPTDL_LIBS_DEVICE_CUDA_TENSOR_PASS_KERNELS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "libs/device/cuda/pass_batch.h"

namespace adaptdl::device::cuda {

// Of the memory that a batch with sums needs; those on one stream may share it.
constexpr int64_t kScratchBytes = PassBatch::kMostPasses * kMostChunks * 3 * int64_t{sizeof(double)};

// Puts them on `stream` of the current device. `scratch`: null if the batch has no sums.
cudaError_t Launch(const PassBatch& batch, void* scratch, double* sums, cudaStream_t stream);

// Whether the current device can run them.
cudaError_t CheckKernels();

}  // namespace adaptdl::device::cuda

#endif  // ADAPTDL_LIBS_DEVICE_CUDA_TENSOR_PASS_KERNELS_H_
