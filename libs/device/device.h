// A place where tensors lie and are worked on: the CPU, a GPU. What is above is written once for all of them.
//
//   stream A   ── kernels ──●Record(e)                        work on a stream runs in the order of submission,
//   stream B                 ╰▶WaitFor(e) ── kernels ──●Record(f)   behind the caller's back
//   caller     ─────────────────────────────────────────╰▶Await(f)   the caller waits, and is counted
//
// A CPU does everything at once, on the caller's thread; its streams and events are nothing. Of other devices
// the host must not touch the memory (Allocate()), and the memory that copies go to and come from
// (AllocateHost()) only when the copy is known to be done.
//
// Failures: UNAVAILABLE if the device is lost, RESOURCE_EXHAUSTED without memory, else INTERNAL; the text
// names the device. Kernels and copies that fail later show at the next call that can tell.
//
// Thread-safety: any thread. What is put on one stream by several threads has no order unless they give it.

#ifndef ADAPTDL_LIBS_DEVICE_DEVICE_H_
#define ADAPTDL_LIBS_DEVICE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/device/tensor_pass.h"

namespace adaptdl::device {

// A queue of work: of a GPU, its cudaStream_t. Null: the device's default stream.
using Stream = void*;

// Owns a piece of memory.
class Memory {
 public:
  Memory() = default;
  Memory(void* data, int64_t bytes, std::function<void()> free)
      : data_(data), bytes_(bytes), free_(std::move(free)) {}
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        free_(std::exchange(other.free_, nullptr)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(free_, other.free_);
    return *this;
  }
  ~Memory() {
    if (free_) free_();
  }

  void* data() const { return data_; }
  char* at(int64_t byte) const { return static_cast<char*>(data_) + byte; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  std::function<void()> free_;
};

// Owns a stream; what is on it is run to its end, but the destructor does not wait for that.
class OwnedStream {
 public:
  virtual ~OwnedStream() = default;
  virtual Stream get() const = 0;
};

// A point on a stream. May be recorded again and again: what waits, waits for the last time before.
class Event {
 public:
  virtual ~Event() = default;
};

// Undone when it is destroyed.
class Scope {
 public:
  virtual ~Scope() = default;
};

class Device {
 public:
  virtual ~Device() = default;

  // Such as "cpu" or "cuda:0 (NVIDIA H200)".
  virtual std::string name() const = 0;
  // Index of the GPU in this process, as CUDA counts. Negative: main memory.
  virtual int index() const = 0;
  // Whether it works behind the caller's back, on memory that the host cannot touch.
  virtual bool asynchronous() const = 0;

  // Makes it the calling thread's current device, as libraries of its vendor want it, while the result lives. Null:
  // there is nothing to be done. All other methods do it themselves.
  virtual std::unique_ptr<Scope> MakeCurrent() { return nullptr; }

  // Not initialised. Must outlive all that uses it: what is on a stream, too.
  virtual absl::StatusOr<Memory> Allocate(int64_t bytes) = 0;
  // Main memory that the device reads and writes while the caller goes on.
  virtual absl::StatusOr<Memory> AllocateHost(int64_t bytes) = 0;

  virtual absl::StatusOr<std::unique_ptr<OwnedStream>> CreateStream() = 0;
  // `timed`: for SecondsBetween().
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent(bool timed) = 0;

  // On `stream`, after what is there: all of these return before it is done. Memory is this device's, or
  // from AllocateHost().
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes, Stream stream) = 0;
  virtual absl::Status SetZero(void* data, int64_t bytes, Stream stream) = 0;
  // `sums`: memory of this device. The passes are one after the other as far as their sums go; else at
  // once, and must not depend on each other.
  virtual absl::Status Run(absl::Span<const TensorPass> passes, double* sums, Stream stream) = 0;
  virtual absl::Status Record(Event& event, Stream stream) = 0;
  // What is put on `stream` from now on runs after `event`.
  virtual absl::Status WaitFor(Event& event, Stream stream) = 0;

  // Blocks the caller until what came before `event` is done.
  absl::Status Await(Event& event) {
    if (asynchronous()) ++WaitsOfThread();
    return DoAwait(event);
  }
  virtual absl::StatusOr<bool> IsDone(Event& event) = 0;
  // Between two timed events that are done.
  virtual absl::StatusOr<double> SecondsBetween(Event& from, Event& to) = 0;

  // How often the calling thread has waited for a device: for tests, which count.
  static int64_t& WaitsOfThread() {
    static thread_local int64_t waits = 0;
    return waits;
  }

 private:
  virtual absl::Status DoAwait(Event& event) = 0;
};

}  // namespace adaptdl::device

#endif  // ADAPTDL_LIBS_DEVICE_DEVICE_H_
