#include "libs/elastic/job/step_clock.h"

#include "absl/status/statusor.h"

namespace adaptdl::elastic {

void StepClock::UseDevice(device::Device* device, std::function<device::Stream()> stream) {
  const bool asynchronous = device != nullptr && device->asynchronous();
  device_ = asynchronous ? device : nullptr;
  stream_ = std::move(stream);
  events_.clear();
}

StepClock::Mark StepClock::Now() {
  Mark mark{.seconds = seconds_()};
  if (device_ == nullptr) return mark;
  mark.event = Event();
  // A device that fails says so to those who work with it.
  if (mark.event && !device_->Record(*mark.event, stream_()).ok()) mark.event = nullptr;
  return mark;
}

std::shared_ptr<device::Event> StepClock::Event() {
  for (const std::shared_ptr<device::Event>& event : events_) {
    if (event.use_count() == 1) return event;
  }
  absl::StatusOr<std::unique_ptr<device::Event>> made = device_->CreateEvent(/*timed=*/true);
  if (!made.ok()) return nullptr;
  events_.push_back(*std::move(made));
  return events_.back();
}

std::optional<double> StepClock::Between(const Mark& from, const Mark& to) {
  const double by_caller = to.seconds - from.seconds;
  if (device_ == nullptr || !from.event || !to.event) return by_caller;
  const absl::StatusOr<bool> done = device_->IsDone(*to.event);
  if (!done.ok()) return by_caller;
  if (!*done) return std::nullopt;
  const absl::StatusOr<double> seconds = device_->SecondsBetween(*from.event, *to.event);
  return seconds.ok() ? *seconds : by_caller;
}

}  // namespace adaptdl::elastic
