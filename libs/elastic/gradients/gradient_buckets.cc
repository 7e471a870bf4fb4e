#include "libs/elastic/gradients/gradient_buckets.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl::elastic {
namespace {

using device::DataType;
using device::ElementSize;

// Of a slot's first byte: what vector instructions like.
constexpr int64_t kAlignment = 16;

// Elements that a slot of `count` takes up.
int64_t Padded(int64_t count, DataType type) {
  const int64_t step = kAlignment / ElementSize(type);
  return (count + step - 1) / step * step;
}

}  // namespace

// --- Layout ---

DataType GradientBuckets::TypeOf(size_t i) const {
  const DataType type = model_->layout().parameters[i].type;
  return device::IsHalf(type) && !options_.reduce_halves_as_they_are ? DataType::kFloat32 : type;
}

bool GradientBuckets::SlotIsGradient(size_t i) const {
  return slots_[i].tensor.type == model_->layout().parameters[i].type;
}

absl::Status GradientBuckets::Make(const std::vector<bool>& trained, int64_t tail_size,
                                   device::Stream stream) {
  Deal(trained);
  for (Bucket& bucket : buckets_) {
    const absl::Status status = LayOut(&bucket, &bucket == &buckets_.back(), tail_size, stream);
    if (status.ok()) continue;
    Clear();
    return status;
  }
  return absl::OkStatus();
}

void GradientBuckets::Deal(const std::vector<bool>& trained) {
  const std::vector<ModelTensors::Parameter>& parameters = model_->layout().parameters;
  slots_.assign(parameters.size(), {});
  int64_t bytes = 0;
  for (size_t i = parameters.size(); i-- > 0;) {
    if (!trained[i]) continue;
    const DataType type = TypeOf(i);
    if (buckets_.empty() || buckets_.back().type != type || bytes >= options_.bytes) {
      buckets_.emplace_back().type = type;
      bytes = 0;
    }
    slots_[i].bucket = buckets_.size() - 1;
    buckets_.back().parameters.push_back(i);
    bytes += parameters[i].count * ElementSize(type);
  }
  // For buffers and tail.
  if (buckets_.empty() || device::IsHalf(buckets_.back().type)) buckets_.emplace_back();
}

absl::Status GradientBuckets::LayOut(Bucket* bucket, bool is_last, int64_t tail_size, device::Stream stream) {
  const ModelTensors::Layout& layout = model_->layout();
  std::vector<std::pair<TensorRef*, int64_t>> tensors;
  for (const size_t i : bucket->parameters)
    tensors.emplace_back(&slots_[i].tensor, layout.parameters[i].count);
  if (is_last) {
    buffers_.assign(layout.buffers.size(), {});
    for (size_t b = 0; b < buffers_.size(); ++b) tensors.emplace_back(&buffers_[b], layout.buffers[b]);
    tensors.emplace_back(&tail_, tail_size);
  }
  bucket->missing = bucket->parameters.size();
  bucket->count = 0;
  for (const auto& [tensor, count] : tensors) bucket->count += Padded(count, bucket->type);
  const int64_t bytes = bucket->count * ElementSize(bucket->type);
  absl::StatusOr<device::Memory> memory = device_->Allocate(std::max<int64_t>(bytes, 1));
  if (!memory.ok()) return memory.status();
  bucket->memory = std::make_shared<device::Memory>(*std::move(memory));
  int64_t begin = 0;
  for (const auto& [tensor, count] : tensors) {
    *tensor = {bucket->memory->at(begin), count, bucket->type};
    const int64_t end = begin + count * ElementSize(bucket->type);
    begin += Padded(count, bucket->type) * ElementSize(bucket->type);
    // What lies between the slots travels, too.
    absl::Status status = device_->SetZero(bucket->memory->at(end), begin - end, stream);
    if (!status.ok()) return status;
  }
  for (const size_t i : bucket->parameters) {
    if (SlotIsGradient(i)) model_->SetSlot(i, slots_[i].tensor.data, bucket->memory);
  }
  return absl::OkStatus();
}

void GradientBuckets::Clear() {
  for (size_t i = 0; i < slots_.size(); ++i) model_->SetSlot(i, nullptr, nullptr);
  buckets_.clear();
  slots_.clear();
  sent_ = 0;
}

// --- On their way ---

void GradientBuckets::SendNext(device::Stream stream) {
  Bucket& bucket = buckets_[sent_++];
  comm::Buffer buffer{bucket.memory->data(), bucket.count, bucket.type};
  if (device_->asynchronous()) {
    buffer.device = device_;
    buffer.stream = stream;
  }
  bucket.work = communicator_->AllReduceAsync(buffer);
}

absl::Status GradientBuckets::Receive(size_t k, device::Stream stream) {
  Bucket& bucket = buckets_[k];
  bucket.status = device_->asynchronous() ? bucket.work->Then(stream) : bucket.work->Wait();
  return bucket.status;
}

absl::Status GradientBuckets::Finish() {
  absl::Status status;
  for (Bucket& bucket : buckets_) {
    if (bucket.work == nullptr) continue;
    if (device_->asynchronous()) bucket.status.Update(bucket.work->Wait());
    bucket.work.reset();
    status.Update(std::exchange(bucket.status, absl::OkStatus()));
  }
  return status;
}

void GradientBuckets::Reset() {
  sent_ = 0;
  for (Bucket& bucket : buckets_) {
    bucket.missing = bucket.parameters.size();
    bucket.work.reset();
  }
}

}  // namespace adaptdl::elastic
