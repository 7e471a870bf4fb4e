// Main memory, worked on as the CUDA kernels do it: the same arithmetic, chunk by chunk and thread by thread, in
// the order in which a GPU adds the sums. What a GPU does beyond that is not tested here.
//
// Thread-safety: as the CPU's device.

#ifndef ADAPTDL_TESTS_LIBS_DEVICE_CHUNKED_DEVICE_H_
#define ADAPTDL_TESTS_LIBS_DEVICE_CHUNKED_DEVICE_H_

#include <vector>

#include "libs/device/cuda/pass_batch.h"
#include "libs/device/cuda/pass_chunk.h"
#include "libs/device/device.h"
#include "tests/libs/device/named_device.h"

namespace adaptdl::device {

class ChunkedDevice final : public NamedDevice {
 public:
  ChunkedDevice() : NamedDevice("chunked") {}

  absl::Status Run(absl::Span<const TensorPass> passes, double* sums, Stream /*stream*/) override {
    while (!passes.empty()) {
      ++launches_;
      const cuda::PassBatch batch = cuda::TakeBatch(&passes);
      std::vector<cuda::Sums> of_blocks;
      for (int block = 0; block < batch.blocks(); ++block) of_blocks.push_back(RunBlock(batch, block));
      if (batch.sums) AddSums(batch, of_blocks, sums);
    }
    return absl::OkStatus();
  }
  int launches() const { return launches_; }

 private:
  static cuda::Sums SumOverThreads(cuda::Sums* sums, int threads) {
    for (int half = threads / 2; half > 0; half /= 2) {
      for (int rank = 0; rank < half; ++rank) cuda::Add(sums[rank + half], &sums[rank]);
    }
    return sums[0];
  }

  static cuda::Sums RunBlock(const cuda::PassBatch& batch, int block) {
    std::vector<cuda::Sums> of_threads;
    for (int thread = 0; thread < cuda::kThreads; ++thread) {
      of_threads.push_back(cuda::ProcessChunk(batch, block, thread));
    }
    return SumOverThreads(of_threads.data(), cuda::kThreads);
  }

  static void AddSums(const cuda::PassBatch& batch, const std::vector<cuda::Sums>& of_blocks, double* sums) {
    std::vector<cuda::Sums> of_lanes;
    for (int thread = 0; thread < cuda::PassBatch::kMostPasses * cuda::kLanes; ++thread) {
      of_lanes.push_back(
          cuda::SumOfLane(batch, of_blocks.data(), thread / cuda::kLanes, thread % cuda::kLanes));
    }
    for (int pass = 0; pass < batch.size; ++pass)
      SumOverThreads(&of_lanes[pass * cuda::kLanes], cuda::kLanes);
    for (int number = 0; number < 3 * batch.size; ++number) {
      cuda::AddToPlace(batch, of_lanes.data(), number, sums);
    }
  }

  int launches_ = 0;
};

}  // namespace adaptdl::device

#endif  // ADAPTDL_TESTS_LIBS_DEVICE_CHUNKED_DEVICE_H_
