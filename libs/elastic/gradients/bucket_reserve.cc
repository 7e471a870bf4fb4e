#include "libs/elastic/gradients/bucket_reserve.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace adaptdl::elastic {

BucketReserve::~BucketReserve() { Join(); }

void BucketReserve::Join() {
  if (thread_.joinable()) thread_.join();
}

void BucketReserve::Get(const std::vector<int64_t>& sizes) {
  begun_ = true;
  Fetch(sizes);
}

void BucketReserve::Fetch(const std::vector<int64_t>& sizes) {
  for (const int64_t bytes : sizes) {
    absl::StatusOr<device::Memory> memory = Touched(bytes);
    if (!memory.ok()) return;
    MutexLock lock(&mutex_);
    pieces_.push_back(*std::move(memory));
  }
}

void BucketReserve::Begin(std::vector<int64_t> sizes) {
  begun_ = true;
  {
    MutexLock lock(&mutex_);
    running_ = true;
  }
  thread_ = std::thread([this, sizes = std::move(sizes)] {
    Fetch(sizes);
    MutexLock lock(&mutex_);
    running_ = false;
  });
}

bool BucketReserve::ready() const {
  MutexLock lock(&mutex_);
  return !running_;
}

// Nobody uses it any more when this returns.
absl::StatusOr<device::Memory> BucketReserve::Touched(int64_t bytes) {
  absl::StatusOr<device::Memory> memory = device_->Allocate(bytes);
  if (!memory.ok()) return memory;
  const absl::StatusOr<std::unique_ptr<device::OwnedStream>> stream = device_->CreateStream();
  if (!stream.ok()) return stream.status();
  const absl::StatusOr<std::unique_ptr<device::Event>> touched = device_->CreateEvent(/*timed=*/false);
  if (!touched.ok()) return touched.status();
  absl::Status status = device_->SetZero(memory->data(), bytes, (*stream)->get());
  if (status.ok()) status = device_->Record(**touched, (*stream)->get());
  if (status.ok()) status = device_->Await(**touched);
  if (!status.ok()) return status;
  return memory;
}

absl::StatusOr<device::Memory> BucketReserve::Allocate(int64_t bytes) {
  Join();
  MutexLock lock(&mutex_);
  auto best = pieces_.end();
  for (auto piece = pieces_.begin(); piece != pieces_.end(); ++piece) {
    if (piece->bytes() < bytes) continue;
    if (best == pieces_.end() || piece->bytes() < best->bytes()) best = piece;
  }
  if (best == pieces_.end()) return device_->Allocate(bytes);
  device::Memory memory = std::move(*best);
  pieces_.erase(best);
  return memory;
}

void BucketReserve::Drop() {
  Join();
  MutexLock lock(&mutex_);
  pieces_.clear();
}

}  // namespace adaptdl::elastic
