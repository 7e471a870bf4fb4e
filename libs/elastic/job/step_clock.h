// When a step is at some point of it: by the caller's clock, where all is done when a call returns; else by marks that the
// device leaves as it gets there, because the caller is ahead of it by as much as the device's queue holds. Nothing waits.
//
// Thread-safety: the training thread only.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_STEP_CLOCK_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_STEP_CLOCK_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "libs/device/device.h"

namespace adaptdl::elastic {

class StepClock {
 public:
  struct Mark {
    // By the caller's clock.
    double seconds = 0;
    // Null: the caller's clock is all there is.
    std::shared_ptr<device::Event> event = nullptr;
  };

  // Monotonic.
  explicit StepClock(std::function<double()> seconds) : seconds_(std::move(seconds)) {}

  // Steps run on this device, which must outlive all marks, and there where `stream` says. Null: with the caller.
  void UseDevice(device::Device* device, std::function<device::Stream()> stream);

  Mark Now();

  // Seconds between two marks, by the device if both are its own. Nothing: it has not got there yet.
  std::optional<double> Between(const Mark& from, const Mark& to);

 private:
  std::shared_ptr<device::Event> Event();

  const std::function<double()> seconds_;
  // Null: the caller's clock.
  device::Device* device_ = nullptr;
  std::function<device::Stream()> stream_;
  // Those that no mark has any more are used again.
  std::vector<std::shared_ptr<device::Event>> events_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_STEP_CLOCK_H_
