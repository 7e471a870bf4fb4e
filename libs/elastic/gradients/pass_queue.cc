#include "libs/elastic/gradients/pass_queue.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace adaptdl::elastic {

absl::Status PassQueue::Add(const device::TensorPass& pass, device::Stream stream) {
  if (pass.count == 0) return absl::OkStatus();
  if (!device_->asynchronous()) return device_->Run(absl::MakeConstSpan(&pass, 1), sums_, stream);
  if (absl::Status status = MoveTo(stream); !status.ok()) return status;
  passes_.push_back(pass);
  return absl::OkStatus();
}

absl::Status PassQueue::Flush(device::Stream stream) {
  if (!device_->asynchronous()) return absl::OkStatus();
  if (absl::Status status = MoveTo(stream); !status.ok()) return status;
  if (passes_.empty()) return absl::OkStatus();
  const std::vector<device::TensorPass> passes = std::exchange(passes_, {});
  return device_->Run(passes, sums_, stream);
}

// A model's backward pass may run on several streams: what is ready on one is not on another yet. Sums are
// added to in the order of the passes even so, those that ran already too.
absl::Status PassQueue::MoveTo(device::Stream stream) {
  if (stream == stream_) return absl::OkStatus();
  const device::Stream before = std::exchange(stream_, stream);
  if (moved_ == nullptr) {
    absl::StatusOr<std::unique_ptr<device::Event>> event = device_->CreateEvent(/*timed=*/false);
    if (!event.ok()) return event.status();
    moved_ = *std::move(event);
  }
  const std::vector<device::TensorPass> passes = std::exchange(passes_, {});
  absl::Status status = passes.empty() ? absl::OkStatus() : device_->Run(passes, sums_, before);
  if (status.ok()) status = device_->Record(*moved_, before);
  if (status.ok()) status = device_->WaitFor(*moved_, stream);
  return status;
}

}  // namespace adaptdl::elastic
