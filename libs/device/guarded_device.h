// A device for tests that behaves like a GPU where a CPU would forgive: the host cannot touch its memory (a
// page fault, and the test dies where it did), and its streams run behind the caller's back, each on a thread
// of its own, so that what was not waited for is not there.
//
// Its memory is mapped twice: where the caller knows it without any right, and where only the device knows it
// with all. Memory of AllocateHost() is plain memory, but what is copied comes only when the stream gets there.
//
// Thread-safety: as Device. Must outlive its memory, streams and events.

#ifndef ADAPTDL_LIBS_DEVICE_GUARDED_DEVICE_H_
#define ADAPTDL_LIBS_DEVICE_GUARDED_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "libs/device/device.h"

namespace adaptdl::device {

class GuardedDevice final : public Device {
 public:
  // `seconds`: the device's clock, as its streams read it when they get to an event; monotonic, and thread-safe. Null: the
  // machine's.
  explicit GuardedDevice(std::function<double()> seconds = nullptr);
  ~GuardedDevice() override;

  std::string name() const override { return "guarded"; }
  int index() const override { return 0; }
  bool asynchronous() const override { return true; }

  absl::StatusOr<Memory> Allocate(int64_t bytes) override;
  absl::StatusOr<Memory> AllocateHost(int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<OwnedStream>> CreateStream() override;
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent(bool timed) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes, Stream stream) override;
  absl::Status SetZero(void* data, int64_t bytes, Stream stream) override;
  absl::Status Run(absl::Span<const TensorPass> passes, double* sums, Stream stream) override;
  absl::Status Record(Event& event, Stream stream) override;
  absl::Status WaitFor(Event& event, Stream stream) override;
  absl::StatusOr<bool> IsDone(Event& event) override;
  absl::StatusOr<double> SecondsBetween(Event& from, Event& to) override;

  // Puts a function on `stream`, as kernels of others would be. It finds what is in this device's memory by
  // Translate(), and may block.
  void Enqueue(Stream stream, std::function<void()> function);
  // Where the device itself finds `data`; of other memory the same.
  void* Translate(void* data) const;

  // From now on nothing runs on any stream until Resume(): what the caller does meanwhile is certainly before
  // it.
  void Pause();
  void Resume();
  // Operations that were put on streams.
  int64_t operations() const;

 private:
  absl::Status DoAwait(Event& event) override;

  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl::device

#endif  // ADAPTDL_LIBS_DEVICE_GUARDED_DEVICE_H_
