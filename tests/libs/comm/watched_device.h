// A guarded device that counts what it gives away, and fails when it is told to.

#ifndef ADAPTDL_TESTS_LIBS_COMM_WATCHED_DEVICE_H_
#define ADAPTDL_TESTS_LIBS_COMM_WATCHED_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/device/device.h"
#include "libs/device/guarded_device.h"

namespace adaptdl::comm {

class WatchedDevice final : public device::Device {
 public:
  std::string name() const override { return "watched"; }
  int index() const override { return guarded_.index(); }
  bool asynchronous() const override { return true; }

  absl::StatusOr<device::Memory> Allocate(int64_t bytes) override { return guarded_.Allocate(bytes); }
  absl::StatusOr<device::Memory> AllocateHost(int64_t bytes) override {
    ++host_allocations_;
    return guarded_.AllocateHost(bytes);
  }
  absl::StatusOr<std::unique_ptr<device::OwnedStream>> CreateStream() override {
    return guarded_.CreateStream();
  }
  absl::StatusOr<std::unique_ptr<device::Event>> CreateEvent(bool timed) override {
    return guarded_.CreateEvent(timed);
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes, device::Stream stream) override {
    ++copies_;
    return lost_ ? Lost() : guarded_.Copy(to, from, bytes, stream);
  }
  absl::Status SetZero(void* data, int64_t bytes, device::Stream stream) override {
    return guarded_.SetZero(data, bytes, stream);
  }
  absl::Status Run(absl::Span<const device::TensorPass> passes, double* sums,
                   device::Stream stream) override {
    return guarded_.Run(passes, sums, stream);
  }
  absl::Status Record(device::Event& event, device::Stream stream) override {
    return guarded_.Record(event, stream);
  }
  absl::Status WaitFor(device::Event& event, device::Stream stream) override {
    return guarded_.WaitFor(event, stream);
  }
  absl::StatusOr<bool> IsDone(device::Event& event) override { return guarded_.IsDone(event); }
  absl::StatusOr<double> SecondsBetween(device::Event& from, device::Event& to) override {
    return guarded_.SecondsBetween(from, to);
  }

  void Pause() { guarded_.Pause(); }
  void Resume() { guarded_.Resume(); }
  // From now on copies, and waits of the host, fail.
  void Lose() { lost_ = true; }
  static absl::Status Lost() { return absl::UnavailableError("watched: the device is lost"); }

  int host_allocations() const { return host_allocations_; }
  int copies() const { return copies_; }

 private:
  absl::Status DoAwait(device::Event& event) override {
    return lost_ ? Lost() : static_cast<device::Device&>(guarded_).Await(event);
  }

  device::GuardedDevice guarded_;
  std::atomic<int> host_allocations_ = 0;
  std::atomic<int> copies_ = 0;
  std::atomic<bool> lost_ = false;
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_TESTS_LIBS_COMM_WATCHED_DEVICE_H_
