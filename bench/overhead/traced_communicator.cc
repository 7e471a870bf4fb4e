#include "bench/overhead/traced_communicator.h"

#include <chrono>

#include "absl/status/status.h"

namespace adaptdl::bench {
namespace {

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TracedCommunicator::Mark MarkOn(device::Device* device, device::Stream stream) {
  TracedCommunicator::Mark mark{.seconds = Seconds()};
  if (device == nullptr || !device->asynchronous()) return mark;
  absl::StatusOr<std::unique_ptr<device::Event>> event = device->CreateEvent(/*timed=*/true);
  if (event.ok() && device->Record(**event, stream).ok()) mark.event = *std::move(event);
  return mark;
}

}  // namespace

class TracedCommunicator::TracedWork final : public comm::Work {
 public:
  TracedWork(std::unique_ptr<comm::Work> inner, std::shared_ptr<Traced> traced)
      : inner_(std::move(inner)), traced_(std::move(traced)) {}

  absl::Status Wait() override {
    absl::Status status = inner_->Wait();
    if (traced_->end.seconds == 0) traced_->end = MarkOn(nullptr, nullptr);
    return status;
  }
  absl::Status Then(device::Stream stream) override {
    absl::Status status = inner_->Then(stream);
    traced_->end = MarkOn(traced_->device, stream);
    return status;
  }

 private:
  const std::unique_ptr<comm::Work> inner_;
  const std::shared_ptr<Traced> traced_;
};

std::unique_ptr<comm::Work> TracedCommunicator::Start(comm::Collective collective) {
  if (collective.kind != comm::Collective::Kind::kAllReduce) return StartOn(*inner_, std::move(collective));
  const comm::Buffer& buffer = collective.buffer;
  auto traced = std::make_shared<Traced>(
      Traced{buffer.bytes(), buffer.device, MarkOn(buffer.device, buffer.stream), {}});
  traced_.push_back(traced);
  return std::make_unique<TracedWork>(StartOn(*inner_, std::move(collective)), std::move(traced));
}

absl::StatusOr<std::vector<TracedCommunicator::Span>> TracedCommunicator::TakeSpans() {
  std::vector<Span> spans;
  for (const std::shared_ptr<Traced>& each : traced_) {
    const Mark& first = traced_.front()->begin;
    Span span{each->bytes, each->begin.seconds - first.seconds, each->end.seconds - first.seconds};
    if (each->device != nullptr && first.event && each->begin.event && each->end.event) {
      const auto begin = each->device->SecondsBetween(*first.event, *each->begin.event);
      const auto end = each->device->SecondsBetween(*first.event, *each->end.event);
      if (!begin.ok()) return begin.status();
      if (!end.ok()) return end.status();
      span.begin = *begin;
      span.end = *end;
    }
    spans.push_back(span);
  }
  traced_.clear();
  return spans;
}

}  // namespace adaptdl::bench
