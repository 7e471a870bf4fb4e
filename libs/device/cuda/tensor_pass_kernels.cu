#include "libs/device/cuda/tensor_pass_kernels.h"

#include "libs/device/cuda/pass_batch.h"
#include "libs/device/cuda/pass_chunk.h"

namespace adaptdl::device::cuda {
namespace {

static_assert(kScratchBytes == PassBatch::kMostPasses * kMostChunks * sizeof(Sums));

// Adds `sums` of a power of two of threads to that of the first, in an order that is always the same. `rank`: this
// thread's among them; its own is *sums. All threads of the block must come here.
__device__ void AddOverThreads(Sums* sums, int rank, int threads) {
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (rank < half) Add(sums[half], sums);
  }
}

// Blocks that are at least at work on a multiprocessor: what its registers are cut for.
constexpr int kBlocksAtWork = 4;

__global__ void __launch_bounds__(kThreads, kBlocksAtWork)
    RunChunks(const __grid_constant__ PassBatch batch, Sums* of_blocks) {
  const int block = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const Sums sum = ProcessChunk(batch, block, thread);
  if (!batch.sums) return;
  __shared__ Sums of_threads[kThreads];
  of_threads[thread] = sum;
  AddOverThreads(&of_threads[thread], thread, kThreads);
  if (thread == 0) of_blocks[block] = of_threads[0];
}

// One block, with kLanes threads for each pass.
constexpr int kAddingThreads = PassBatch::kMostPasses * kLanes;

__global__ void __launch_bounds__(kAddingThreads)
    AddSums(const __grid_constant__ PassBatch batch, const Sums* of_blocks, double* sums) {
  __shared__ Sums of_lanes[kAddingThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kLanes;
  of_lanes[thread] = SumOfLane(batch, of_blocks, thread / kLanes, lane);
  AddOverThreads(&of_lanes[thread], lane, kLanes);
  __syncthreads();
  AddToPlace(batch, of_lanes, thread, sums);
}

}  // namespace

cudaError_t Launch(const PassBatch& batch, void* scratch, double* sums, cudaStream_t stream) {
  if (batch.blocks() == 0) return cudaSuccess;
  auto* of_blocks = static_cast<Sums*>(scratch);
  auto* copy = const_cast<PassBatch*>(&batch);  // which it only reads
  void* chunk_arguments[] = {copy, &of_blocks};
  const cudaError_t launched =
      cudaLaunchKernel(reinterpret_cast<const void*>(&RunChunks), dim3(static_cast<unsigned>(batch.blocks())),
                       dim3(kThreads), chunk_arguments, 0, stream);
  if (launched != cudaSuccess || !batch.sums) return launched;
  void* sum_arguments[] = {copy, &of_blocks, &sums};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&AddSums), dim3(1), dim3(kAddingThreads),
                          sum_arguments, 0, stream);
}

cudaError_t CheckKernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&RunChunks));
}

}  // namespace adaptdl::device::cuda
