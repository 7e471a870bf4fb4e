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

// Numbers in the tail besides one for each parameter, at most, that SizesFor() has room for: a model with more
// parameter groups than that gets memory for its last bucket in the first step.
constexpr int64_t kTailBesides = 1024;

// Elements that a slot of `count` takes up.
int64_t Padded(int64_t count, DataType type) {
  const int64_t step = kAlignment / ElementSize(type);
  return (count + step - 1) / step * step;
}

}  // namespace

// --- Layout ---

DataType GradientBuckets::TypeOf(const ModelTensors::Parameter& parameter, const Options& options) {
  return device::IsHalf(parameter.type) && !options.reduce_halves_as_they_are ? DataType::kFloat32
                                                                              : parameter.type;
}

bool GradientBuckets::SlotIsGradient(size_t i) const {
  return slots_[i].tensor.type == model_->layout().parameters[i].type;
}

absl::Status GradientBuckets::Make(const std::vector<bool>& trained, int64_t tail_size,
                                   device::Stream stream) {
  buckets_ = Deal(model_->layout(), trained, options_);
  slots_.assign(trained.size(), {});
  for (Bucket& bucket : buckets_) {
    const absl::Status status = LayOut(&bucket, &bucket == &buckets_.back(), tail_size, stream);
    if (status.ok()) continue;
    Clear();
    return status;
  }
  // What did not fit is of no more use.
  if (options_.reserve != nullptr) options_.reserve->Drop();
  return absl::OkStatus();
}

std::vector<GradientBuckets::Bucket> GradientBuckets::Deal(const ModelTensors::Layout& layout,
                                                           const std::vector<bool>& trained,
                                                           const Options& options) {
  std::vector<Bucket> buckets;
  int64_t bytes = 0;
  for (size_t i = layout.parameters.size(); i-- > 0;) {
    if (!trained[i]) continue;
    const DataType type = TypeOf(layout.parameters[i], options);
    if (buckets.empty() || buckets.back().type != type || bytes >= options.bytes) {
      buckets.emplace_back().type = type;
      bytes = 0;
    }
    buckets.back().parameters.push_back(i);
    bytes += layout.parameters[i].count * ElementSize(type);
  }
  // For buffers and tail.
  if (buckets.empty() || device::IsHalf(buckets.back().type)) buckets.emplace_back();
  return buckets;
}

std::vector<int64_t> GradientBuckets::SizesFor(ModelTensors* model, const Options& options) {
  const ModelTensors::Layout& layout = model->layout();
  std::vector<bool> trained;
  for (size_t i = 0; i < layout.parameters.size(); ++i) trained.push_back(model->IsTrained(i));
  std::vector<int64_t> sizes;
  const std::vector<Bucket> buckets = Deal(layout, trained, options);
  for (const Bucket& bucket : buckets) {
    int64_t count = 0;
    for (const size_t i : bucket.parameters) count += Padded(layout.parameters[i].count, bucket.type);
    if (&bucket == &buckets.back()) {
      for (const int64_t buffer : layout.buffers) count += Padded(buffer, bucket.type);
      count += Padded(static_cast<int64_t>(layout.parameters.size()) + kTailBesides, bucket.type);
    }
    sizes.push_back(count * ElementSize(bucket.type));
  }
  return sizes;
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
  for (const size_t i : bucket->parameters) slots_[i].bucket = static_cast<size_t>(bucket - buckets_.data());
  bucket->missing = bucket->parameters.size();
  bucket->count = 0;
  for (const auto& [tensor, count] : tensors) bucket->count += Padded(count, bucket->type);
  const int64_t bytes = bucket->count * ElementSize(bucket->type);
  const int64_t least = std::max<int64_t>(bytes, 1);
  absl::StatusOr<device::Memory> memory =
      options_.reserve != nullptr ? options_.reserve->Allocate(least) : device_->Allocate(least);
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
