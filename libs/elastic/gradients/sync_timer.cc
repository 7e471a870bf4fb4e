#include "libs/elastic/gradients/sync_timer.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl::elastic {

absl::Status SyncTimer::Make() {
  if (!device_->asynchronous()) return absl::OkStatus();
  for (std::unique_ptr<device::Event>* event : {&begin_event_, &end_event_}) {
    absl::StatusOr<std::unique_ptr<device::Event>> made = device_->CreateEvent(/*timed=*/true);
    if (!made.ok()) return made.status();
    *event = *std::move(made);
  }
  return absl::OkStatus();
}

absl::Status SyncTimer::Begin(device::Stream stream) {
  begin_ = seconds_();
  return begin_event_ ? device_->Record(*begin_event_, stream) : absl::OkStatus();
}

absl::Status SyncTimer::End(device::Stream stream) {
  end_ = seconds_();
  return end_event_ ? device_->Record(*end_event_, stream) : absl::OkStatus();
}

absl::StatusOr<double> SyncTimer::Seconds() {
  if (!begin_event_) return end_ - begin_;
  return device_->SecondsBetween(*begin_event_, *end_event_);
}

}  // namespace adaptdl::elastic
