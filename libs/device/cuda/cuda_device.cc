#include "libs/device/cuda/cuda_device.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/device/cuda/cuda_status.h"
#include "libs/device/cuda/current_context.h"
#include "libs/device/cuda/pass_batch.h"
#include "libs/device/cuda/tensor_pass_kernels.h"

namespace adaptdl::device::cuda {
namespace {

// How often an event is asked whether it is done before the thread sleeps until it is: some 50 us. Waits for
// what is nearly done, such as a small exchange, end at once; others leave the core to the threads that
// move messages and data, and cost the time of an interrupt.
constexpr int kQuestionsBeforeSleep = 64;

cudaStream_t StreamOf(Stream stream) { return static_cast<cudaStream_t>(stream); }

class CudaStream final : public OwnedStream {
 public:
  CudaStream(cudaStream_t stream, CUcontext context) : stream_(stream), context_(context) {}
  ~CudaStream() override {
    const CurrentContext current(context_);
    (void)cudaStreamDestroy(stream_);
  }
  Stream get() const override { return stream_; }

 private:
  const cudaStream_t stream_;
  const CUcontext context_;
};

class CudaEvent final : public Event {
 public:
  CudaEvent(cudaEvent_t event, CUcontext context) : event_(event), context_(context) {}
  ~CudaEvent() override {
    const CurrentContext current(context_);
    (void)cudaEventDestroy(event_);
  }
  static cudaEvent_t Of(Event& event) { return static_cast<CudaEvent&>(event).event_; }

 private:
  const cudaEvent_t event_;
  const CUcontext context_;
};

class CurrentScope final : public Scope {
 public:
  explicit CurrentScope(CUcontext context) : current_(context) {}

 private:
  const CurrentContext current_;
};

cudaError_t FindName(int index, std::string* name) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error == cudaSuccess) *name = absl::StrCat("cuda:", index, " (", properties.name, ")");
  return error;
}

cudaError_t AwaitEvent(cudaEvent_t event) {
  for (int i = 0; i < kQuestionsBeforeSleep; ++i) {
    const cudaError_t error = cudaEventQuery(event);
    if (error != cudaErrorNotReady) return error;
  }
  return cudaEventSynchronize(event);
}

}  // namespace

absl::StatusOr<int> CountDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice) return 0;
  if (error != cudaSuccess) return StatusOf(error, "CUDA", "counting the devices");
  return count;
}

template <typename F>
absl::Status CudaDevice::Do(absl::string_view operation, F call) const {
  const CurrentContext current(context_);
  return StatusOf(current.error() == cudaSuccess ? call() : current.error(), name_, operation);
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(int index) {
  const absl::StatusOr<int> count = CountDevices();
  if (!count.ok()) return count.status();
  std::string name = absl::StrCat("cuda:", index);
  if (index < 0 || index >= *count) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": this process sees ", *count, " CUDA devices, counted from 0; see CUDA_VISIBLE_DEVICES"));
  }
  cudaError_t error = FindName(index, &name);
  CUcontext context = nullptr;
  if (error == cudaSuccess) error = FindSharedContext(index, &context);
  if (error != cudaSuccess) return StatusOf(error, name, "opening the device");

  std::unique_ptr<CudaDevice> device(new CudaDevice(index, std::move(name), context));
  absl::Status ready = device->Do("loading the kernels", CheckKernels);
  if (ready.ok()) ready = device->Do("creating a memory pool", [&] { return device->CreatePool(); });
  if (!ready.ok()) return ready;
  return device;
}

cudaError_t CudaDevice::CreatePool() {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = index_;
  cudaError_t error = cudaMemPoolCreate(&pool_, &properties);
  // Kept for the next call, and never so that one stream has to wait for another.
  uint64_t kept_bytes = std::numeric_limits<uint64_t>::max();
  int waits = 0;
  if (error == cudaSuccess) {
    error = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept_bytes);
  }
  if (error == cudaSuccess) {
    error = cudaMemPoolSetAttribute(pool_, cudaMemPoolReuseAllowInternalDependencies, &waits);
  }
  return error;
}

std::unique_ptr<Scope> CudaDevice::MakeCurrent() { return std::make_unique<CurrentScope>(context_); }

absl::StatusOr<Memory> CudaDevice::Allocate(int64_t bytes) {
  void* data = nullptr;
  const absl::Status status = Do(absl::StrCat("allocating ", bytes, " bytes"),
                                 [&] { return cudaMalloc(&data, static_cast<size_t>(bytes)); });
  if (!status.ok()) return status;
  return Memory(data, bytes, [context = context_, data] {
    const CurrentContext current(context);
    (void)cudaFree(data);
  });
}

absl::StatusOr<Memory> CudaDevice::AllocateHost(int64_t bytes) {
  void* data = nullptr;
  const absl::Status status = Do(absl::StrCat("allocating ", bytes, " bytes of main memory"), [&] {
    return cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocPortable);
  });
  if (!status.ok()) return status;
  return Memory(data, bytes, [context = context_, data] {
    const CurrentContext current(context);
    (void)cudaFreeHost(data);
  });
}

absl::StatusOr<std::unique_ptr<OwnedStream>> CudaDevice::CreateStream() {
  cudaStream_t stream = nullptr;
  const absl::Status status = Do("creating a stream", [&] {
    int lowest = 0;
    int highest = 0;
    const cudaError_t error = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    if (error != cudaSuccess) return error;
    return cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest);
  });
  if (!status.ok()) return status;
  return std::make_unique<CudaStream>(stream, context_);
}

absl::StatusOr<std::unique_ptr<Event>> CudaDevice::CreateEvent(bool timed) {
  cudaEvent_t event = nullptr;
  const unsigned flags = cudaEventBlockingSync | (timed ? 0U : cudaEventDisableTiming);
  const absl::Status status =
      Do("creating an event", [&] { return cudaEventCreateWithFlags(&event, flags); });
  if (!status.ok()) return status;
  return std::make_unique<CudaEvent>(event, context_);
}

absl::Status CudaDevice::Copy(void* to, const void* from, int64_t bytes, Stream stream) {
  if (bytes == 0) return absl::OkStatus();
  return Do("copying", [&] {
    return cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, StreamOf(stream));
  });
}

absl::Status CudaDevice::SetZero(void* data, int64_t bytes, Stream stream) {
  if (bytes == 0) return absl::OkStatus();
  return Do("setting memory to zero",
            [&] { return cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), StreamOf(stream)); });
}

absl::Status CudaDevice::Run(absl::Span<const TensorPass> passes, double* sums, Stream stream) {
  return Do("running kernels", [&] { return RunBatches(passes, sums, StreamOf(stream)); });
}

cudaError_t CudaDevice::RunBatches(absl::Span<const TensorPass> passes, double* sums, cudaStream_t stream) {
  const bool has_sums =
      std::any_of(passes.begin(), passes.end(), [](const TensorPass& pass) { return pass.sum >= 0; });
  void* scratch = nullptr;
  cudaError_t error = cudaSuccess;
  if (has_sums) error = cudaMallocFromPoolAsync(&scratch, kScratchBytes, pool_, stream);
  while (error == cudaSuccess && !passes.empty()) error = Launch(TakeBatch(&passes), scratch, sums, stream);
  if (scratch == nullptr) return error;
  const cudaError_t freed = cudaFreeAsync(scratch, stream);
  return error == cudaSuccess ? freed : error;
}

absl::Status CudaDevice::Record(Event& event, Stream stream) {
  return Do("recording an event", [&] { return cudaEventRecord(CudaEvent::Of(event), StreamOf(stream)); });
}

absl::Status CudaDevice::WaitFor(Event& event, Stream stream) {
  return Do("waiting on a stream",
            [&] { return cudaStreamWaitEvent(StreamOf(stream), CudaEvent::Of(event), 0); });
}

absl::StatusOr<bool> CudaDevice::IsDone(Event& event) {
  bool done = true;
  const absl::Status status = Do("asking for an event", [&] {
    const cudaError_t error = cudaEventQuery(CudaEvent::Of(event));
    done = error == cudaSuccess;
    return error == cudaErrorNotReady ? cudaSuccess : error;
  });
  if (!status.ok()) return status;
  return done;
}

absl::StatusOr<double> CudaDevice::SecondsBetween(Event& from, Event& to) {
  float milliseconds = 0;
  const absl::Status status = Do("measuring time", [&] {
    return cudaEventElapsedTime(&milliseconds, CudaEvent::Of(from), CudaEvent::Of(to));
  });
  if (!status.ok()) return status;
  return milliseconds / 1e3;
}

absl::Status CudaDevice::DoAwait(Event& event) {
  return Do("waiting", [&] { return AwaitEvent(CudaEvent::Of(event)); });
}

}  // namespace adaptdl::device::cuda
