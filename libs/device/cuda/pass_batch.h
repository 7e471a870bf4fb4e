// What one launch of the kernels does: some passes, cut into chunks. It travels by value, as the kernel's
// argument, so that nothing of a call has to outlive it.
//
//   passes        0                 1      2
//   blocks   0  1  2  3  4  5  6  7    8  9  10      one chunk each; first_block = 0, 7, 8, 11

#ifndef ADAPTDL_LIBS_DEVICE_CUDA_PASS_BATCH_H_
#define ADAPTDL_LIBS_DEVICE_CUDA_PASS_BATCH_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "libs/device/tensor_pass.h"

#ifdef __CUDACC__
#define ADAPTDL_HOST_DEVICE __host__ __device__
#else
#define ADAPTDL_HOST_DEVICE
#endif

namespace adaptdl::device::cuda {

// Threads that work on a chunk, and neighbouring elements that each takes at a time.
constexpr int kThreads = 256;
constexpr int kVector = 4;
// Elements that a chunk's threads take at a time.
constexpr int kRow = kThreads * kVector;

// A chunk is large enough that the sum over its threads costs little beside reading it. Large tensors have
// larger chunks, and not more of them: so many fill any GPU, and their sums are soon added.
constexpr int64_t kSmallestChunk = int64_t{16} * kRow;
constexpr int64_t kMostChunks = 2048;

// Elements of each chunk but the last one.
ADAPTDL_HOST_DEVICE constexpr int64_t ChunkSize(int64_t count) {
  const int64_t rows = (count + kMostChunks * kRow - 1) / (kMostChunks * kRow);
  return rows * kRow > kSmallestChunk ? rows * kRow : kSmallestChunk;
}

struct PassBatch {
  static constexpr int kMostPasses = 32;

  int size = 0;
  // Whether any pass adds to a sum.
  bool sums = false;
  // The first block of each pass; after the last pass: how many there are.
  int first_block[kMostPasses + 1] = {};
  TensorPass passes[kMostPasses] = {};

  int blocks() const { return first_block[size]; }
};
// The most that a kernel of any driver takes is 4 KiB, with two pointers beside this.
static_assert(sizeof(PassBatch) <= 4096 - 2 * sizeof(void*));

// The first of `passes`, as many as fit; they are taken from the front of `passes`.
inline PassBatch TakeBatch(absl::Span<const TensorPass>* passes) {
  PassBatch batch;
  while (!passes->empty() && batch.size < PassBatch::kMostPasses) {
    const TensorPass& pass = passes->front();
    const int64_t chunk = ChunkSize(pass.count);
    batch.passes[batch.size] = pass;
    batch.sums = batch.sums || pass.sum >= 0;
    batch.first_block[batch.size + 1] = batch.blocks() + static_cast<int>((pass.count + chunk - 1) / chunk);
    ++batch.size;
    passes->remove_prefix(1);
  }
  return batch;
}

}  // namespace adaptdl::device::cuda

#endif  // ADAPTDL_LIBS_DEVICE_CUDA_PASS_BATCH_H_
