// How long the exchange of a step takes after its backward pass: by the caller's clock where all is done when
// a call returns, else by marks that the device leaves as it gets there, without a wait of their own.
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_LIBS_ELASTIC_GRADIENTS_SYNC_TIMER_H_
#define ADAPTDL_LIBS_ELASTIC_GRADIENTS_SYNC_TIMER_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/device/device.h"

namespace adaptdl::elastic {

class SyncTimer {
 public:
  // `seconds`: monotonic. `device` is not owned.
  SyncTimer(device::Device* device, std::function<double()> seconds)
      : device_(device), seconds_(std::move(seconds)) {}

  // Before Begin().
  absl::Status Make();
  absl::Status Begin(device::Stream stream);
  absl::Status End(device::Stream stream);
  // Between the two, when both are known to be over.
  absl::StatusOr<double> Seconds();

 private:
  device::Device* const device_;
  const std::function<double()> seconds_;
  double begin_ = 0;
  double end_ = 0;
  std::unique_ptr<device::Event> begin_event_;
  std::unique_ptr<device::Event> end_event_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GRADIENTS_SYNC_TIMER_H_
