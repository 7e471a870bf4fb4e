// The CPU's device by another name, whose operations tests replace.
//
// Thread-safety: as the CPU's device.

#ifndef ADAPTDL_TESTS_LIBS_DEVICE_NAMED_DEVICE_H_
#define ADAPTDL_TESTS_LIBS_DEVICE_NAMED_DEVICE_H_

#include <memory>
#include <string>
#include <utility>

#include "libs/device/cpu_device.h"
#include "libs/device/device.h"

namespace adaptdl::device {

class NamedDevice : public Device {
 public:
  explicit NamedDevice(std::string name) : name_(std::move(name)) {}

  std::string name() const override { return name_; }
  int index() const override { return -1; }
  bool asynchronous() const override { return false; }
  absl::StatusOr<Memory> Allocate(int64_t bytes) override { return Cpu().Allocate(bytes); }
  absl::StatusOr<Memory> AllocateHost(int64_t bytes) override { return Cpu().AllocateHost(bytes); }
  absl::StatusOr<std::unique_ptr<OwnedStream>> CreateStream() override { return Cpu().CreateStream(); }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent(bool timed) override { return Cpu().CreateEvent(timed); }
  absl::Status Copy(void* to, const void* from, int64_t bytes, Stream stream) override {
    return Cpu().Copy(to, from, bytes, stream);
  }
  absl::Status SetZero(void* data, int64_t bytes, Stream stream) override {
    return Cpu().SetZero(data, bytes, stream);
  }
  absl::Status Record(Event& event, Stream stream) override { return Cpu().Record(event, stream); }
  absl::Status WaitFor(Event& event, Stream stream) override { return Cpu().WaitFor(event, stream); }
  absl::StatusOr<bool> IsDone(Event& event) override { return Cpu().IsDone(event); }
  absl::StatusOr<double> SecondsBetween(Event& from, Event& to) override {
    return Cpu().SecondsBetween(from, to);
  }
  absl::Status Run(absl::Span<const TensorPass> passes, double* sums, Stream stream) override {
    return Cpu().Run(passes, sums, stream);
  }

 private:
  absl::Status DoAwait(Event& event) override { return Cpu().Await(event); }

  const std::string name_;
};

}  // namespace adaptdl::device

#endif  // ADAPTDL_TESTS_LIBS_DEVICE_NAMED_DEVICE_H_
