#include "libs/elastic/gradients/step_numbers.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace adaptdl::elastic {
namespace {

constexpr int64_t kBytes = sizeof(double);

}  // namespace

absl::Status StepNumbers::Make(int64_t num_told) {
  num_told_ = num_told;
  absl::StatusOr<std::unique_ptr<device::Event>> event = device_->CreateEvent(/*timed=*/false);
  if (!event.ok()) return event.status();
  absl::StatusOr<device::Memory> outgoing = device_->AllocateHost(std::max<int64_t>(num_told, 1) * kBytes);
  if (!outgoing.ok()) return outgoing.status();
  absl::StatusOr<device::Memory> incoming = device_->AllocateHost(size() * kBytes);
  if (!incoming.ok()) return incoming.status();
  absl::StatusOr<device::Memory> memory = device_->Allocate(size() * kBytes);
  if (!memory.ok()) return memory.status();
  fetched_ = *std::move(event);
  outgoing_ = *std::move(outgoing);
  incoming_ = *std::move(incoming);
  device_memory_ = *std::move(memory);
  return absl::OkStatus();
}

absl::Status StepNumbers::Begin(device::Stream stream) {
  return device_->SetZero(device_memory_.data(), size() * kBytes, stream);
}

absl::Status StepNumbers::Say(absl::Span<const double> told, device::Stream stream) {
  std::copy(told.begin(), told.end(), static_cast<double*>(outgoing_.data()));
  return device_->Copy(sums() + num_sums(), outgoing_.data(), static_cast<int64_t>(told.size()) * kBytes,
                       stream);
}

device::TensorPass StepNumbers::PutTail(const TensorRef& tail) const {
  return {.source = sums() + local(0),
          .type = device::DataType::kFloat64,
          .count = tail_size(),
          .target = tail.data,
          .target_type = tail.type};
}

device::TensorPass StepNumbers::TakeTail(const TensorRef& tail) const {
  return {.source = tail.data,
          .type = tail.type,
          .count = tail_size(),
          .target = sums() + received_begin(),
          .target_type = device::DataType::kFloat64};
}

absl::Status StepNumbers::Fetch(device::Stream stream) {
  absl::Status status = device_->Copy(incoming_.data(), device_memory_.data(), size() * kBytes, stream);
  return status.ok() ? device_->Record(*fetched_, stream) : status;
}

}  // namespace adaptdl::elastic
