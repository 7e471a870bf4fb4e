#include "libs/elastic/torch/gradient_buckets.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "ATen/ATen.h"

namespace adaptdl::elastic {
namespace {

comm::Buffer BufferOf(const at::Tensor& flat) {
  return {flat.data_ptr(), flat.numel(),
          flat.scalar_type() == at::kDouble ? comm::DataType::kFloat64 : comm::DataType::kFloat32};
}

}  // namespace

// --- Layout ---

void GradientBuckets::Make(const std::vector<bool>& trained, size_t num_signals) {
  slots_.assign(parameters_->size(), {});
  buffer_views_.clear();
  for (size_t i = parameters_->size(); i-- > 0;) {
    if (!trained[i]) continue;
    const at::ScalarType type = (*parameters_)[i].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    if (buckets_.empty() || buckets_.back().type != type || SizeOf(buckets_.back()) >= bytes_) {
      buckets_.emplace_back();
      buckets_.back().type = type;
    }
    slots_[i].bucket = buckets_.size() - 1;
    buckets_.back().parameters.push_back(i);
  }
  if (buckets_.empty()) buckets_.emplace_back();
  for (Bucket& bucket : buckets_) LayOut(&bucket, &bucket == &buckets_.back(), num_signals);
}

int64_t GradientBuckets::SizeOf(const Bucket& bucket) const {
  int64_t bytes = 0;
  for (size_t i : bucket.parameters) {
    bytes += (*parameters_)[i].numel() * (bucket.type == at::kDouble ? 8 : 4);
  }
  return bytes;
}

void GradientBuckets::LayOut(Bucket* bucket, bool is_last, size_t num_signals) {
  for (size_t i : bucket->parameters) {
    bucket->extras_begin += (*parameters_)[i].numel();
    if (std::find(bucket->groups.begin(), bucket->groups.end(), (*groups_)[i]) == bucket->groups.end()) {
      bucket->groups.push_back((*groups_)[i]);
    }
  }
  if (is_last) {
    for (const at::Tensor& buffer : *buffers_) bucket->extras_begin += buffer.numel();
  }
  const size_t extras = bucket->parameters.size() + bucket->groups.size() + (is_last ? 2 + num_signals : 0);
  bucket->flat =
      at::empty({bucket->extras_begin + static_cast<int64_t>(extras)}, at::TensorOptions(bucket->type));
  int64_t at = 0;
  const auto view_of = [&](const at::Tensor& tensor) {
    at += tensor.numel();
    // Not a view: LibTorch's zero_grad() refuses those.
    void* const begin = static_cast<char*>(bucket->flat.data_ptr()) +
                        (at - tensor.numel()) * static_cast<int64_t>(bucket->flat.element_size());
    return at::from_blob(
        begin, tensor.sizes(), [flat = bucket->flat](void*) {}, bucket->flat.options());
  };
  for (size_t i : bucket->parameters) slots_[i].view = view_of((*parameters_)[i]);
  if (is_last) {
    for (const at::Tensor& buffer : *buffers_) buffer_views_.push_back(view_of(buffer));
  }
  bucket->missing = bucket->parameters.size();
}

// --- On their way ---

void GradientBuckets::Launch(const Local& local, const std::function<void()>& on_sent) {
  for (; launched_ < buckets_.size() && buckets_[launched_].missing == 0; ++launched_) {
    Bucket& bucket = buckets_[launched_];
    if (launched_ == 0) on_sent();
    if (launched_ + 1 == buckets_.size()) PackBuffers(local.weight);
    std::vector<double> extras = ExtrasOf(bucket, local);
    const auto count = static_cast<int64_t>(extras.size());
    bucket.flat.narrow(0, bucket.extras_begin, count)
        .copy_(at::from_blob(extras.data(), {count}, at::kDouble));
    bucket.work = communicator_->AllReduceAsync(BufferOf(bucket.flat));
  }
}

void GradientBuckets::PackBuffers(double weight) {
  for (size_t i = 0; i < buffers_->size(); ++i) {
    // A share of nothing may hold anything, even NaN.
    if (weight == 0) {
      buffer_views_[i].zero_();
    } else {
      buffer_views_[i].copy_((*buffers_)[i]);
      buffer_views_[i].mul_(weight);
    }
  }
}

std::vector<double> GradientBuckets::ExtrasOf(const Bucket& bucket, const Local& local) const {
  std::vector<double> extras;
  for (size_t i : bucket.parameters) extras.push_back((*local.units)[i] > 0 ? 1 : 0);
  for (int group : bucket.groups) {
    double sqr = 0;
    for (size_t i : bucket.parameters) sqr += (*groups_)[i] == group ? (*local.local_sqr)[i] : 0;
    extras.push_back(sqr);
  }
  if (&bucket == &buckets_.back()) {
    extras.push_back(local.weight);
    extras.push_back(static_cast<double>(local.sampled_passes));
    const std::vector<double> signals = (*local.signals)();
    extras.insert(extras.end(), signals.begin(), signals.end());
  }
  return extras;
}

absl::Status GradientBuckets::Await() {
  absl::Status status;
  for (Bucket& bucket : buckets_) {
    const absl::Status received = bucket.work->Wait();
    bucket.work.reset();
    status.Update(received);
  }
  return status;
}

void GradientBuckets::Unpack(const std::function<void(size_t i, const at::Tensor* average)>& take,
                             Sums* sums) {
  for (const Bucket& bucket : buckets_) UnpackOne(bucket, take, sums);
}

void GradientBuckets::UnpackOne(const Bucket& bucket,
                                const std::function<void(size_t i, const at::Tensor* average)>& take,
                                Sums* sums) {
  const at::Tensor extras =
      bucket.flat.narrow(0, bucket.extras_begin, bucket.flat.numel() - bucket.extras_begin).to(at::kDouble);
  const double* number = extras.data_ptr<double>();
  for (size_t i : bucket.parameters) take(i, *number++ == 0 ? nullptr : &slots_[i].view);
  for (int group : bucket.groups) sums->local_sqr[static_cast<size_t>(group)] += *number++;
  if (&bucket != &buckets_.back()) return;
  const double weight = *number++;
  for (size_t i = 0; weight > 0 && i < buffers_->size(); ++i) {
    (*buffers_)[i].copy_(buffer_views_[i] / weight);
  }
  sums->micro_batches = std::llround(*number++);
  const double* const end = extras.data_ptr<double>() + extras.numel();
  sums->signals.assign(number, end);
}

void GradientBuckets::Reset() {
  launched_ = 0;
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters.size();
}

}  // namespace adaptdl::elastic
