// A GPU of NVIDIA's. Streams and events are those of CUDA's driver, so whatever else in the process uses the GPU
// (LibTorch, NCCL) may order itself by them, although the library holds a CUDA runtime of its own.
//
// Every call leaves the device that is current for its thread as it was. Allocate() and what frees memory wait for
// the device, as CUDA has it: get memory before training, not in each step.
//
// Thread-safety: as Device.

#ifndef ADAPTDL_LIBS_DEVICE_CUDA_CUDA_DEVICE_H_
#define ADAPTDL_LIBS_DEVICE_CUDA_CUDA_DEVICE_H_

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/device/device.h"

namespace adaptdl::device::cuda {

// How many devices this process sees (CUDA_VISIBLE_DEVICES). FAILED_PRECONDITION: there is no driver, or too old a
// one.
absl::StatusOr<int> CountDevices();

class CudaDevice final : public Device {
 public:
  // INVALID_ARGUMENT: there is none of this index. FAILED_PRECONDITION: the GPU or its driver is too old. Else as
  // Device's own calls.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(int index);

  std::string name() const override { return name_; }
  int index() const override { return index_; }
  bool asynchronous() const override { return true; }
  std::unique_ptr<Scope> MakeCurrent() override;

  absl::StatusOr<Memory> Allocate(int64_t bytes) override;
  absl::StatusOr<Memory> AllocateHost(int64_t bytes) override;
  // Of the highest priority: an exchange's small kernels go before what training has queued up.
  absl::StatusOr<std::unique_ptr<OwnedStream>> CreateStream() override;
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent(bool timed) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes, Stream stream) override;
  absl::Status SetZero(void* data, int64_t bytes, Stream stream) override;
  absl::Status Run(absl::Span<const TensorPass> passes, double* sums, Stream stream) override;
  absl::Status Record(Event& event, Stream stream) override;
  absl::Status WaitFor(Event& event, Stream stream) override;
  absl::StatusOr<bool> IsDone(Event& event) override;
  absl::StatusOr<double> SecondsBetween(Event& from, Event& to) override;

 private:
  CudaDevice(int index, std::string name, CUcontext context)
      : index_(index), name_(std::move(name)), context_(context) {}

  absl::Status DoAwait(Event& event) override;

  cudaError_t CreatePool();
  cudaError_t RunBatches(absl::Span<const TensorPass> passes, double* sums, cudaStream_t stream);
  // `call` with this device current.
  template <typename F>
  absl::Status Do(absl::string_view operation, F call) const;

  const int index_;
  const std::string name_;
  const CUcontext context_;
  // What kernels need for their own use, in the order of streams.
  cudaMemPool_t pool_ = nullptr;
};

}  // namespace adaptdl::device::cuda

#endif  // ADAPTDL_LIBS_DEVICE_CUDA_CUDA_DEVICE_H_
