#include "libs/comm/staging_pool.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl::comm {

absl::StatusOr<std::unique_ptr<Staging>> StagingPool::Take(int64_t bytes) {
  std::unique_ptr<Staging> staging = TakeBest(bytes);
  if (staging == nullptr) {
    staging = std::make_unique<Staging>();
    for (std::unique_ptr<device::Event>* event : {&staging->copied_out, &staging->copied_back}) {
      absl::StatusOr<std::unique_ptr<device::Event>> created = device_->CreateEvent(/*timed=*/false);
      if (!created.ok()) return created.status();
      *event = *std::move(created);
    }
  }
  if (staging->memory.bytes() < bytes) {
    staging->memory = device::Memory();
    absl::StatusOr<device::Memory> memory = device_->AllocateHost(bytes);
    if (!memory.ok()) return memory.status();
    staging->memory = *std::move(memory);
  }
  return staging;
}

void StagingPool::Return(std::unique_ptr<Staging> staging) {
  const int64_t bytes = staging->memory.bytes();
  MutexLock lock(&mutex_);
  const auto place = std::upper_bound(free_.begin(), free_.end(), bytes, [](int64_t size, const auto& other) {
    return size < other->memory.bytes();
  });
  free_.insert(place, std::move(staging));
}

std::unique_ptr<Staging> StagingPool::TakeBest(int64_t bytes) {
  MutexLock lock(&mutex_);
  if (free_.empty()) return nullptr;
  auto best = std::lower_bound(free_.begin(), free_.end(), bytes,
                               [](const auto& other, int64_t size) { return other->memory.bytes() < size; });
  if (best == free_.end()) --best;
  std::unique_ptr<Staging> staging = std::move(*best);
  free_.erase(best);
  return staging;
}

}  // namespace adaptdl::comm
