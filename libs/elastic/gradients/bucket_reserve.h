// Memory for gradients' buckets that is there, and touched, before they are made. The first touch of new memory
// takes long (up to seconds for a GiB), and a replica that did it within a step would keep all others of its
// group waiting. So one that joins a job gets it before it meets them, and one that was alone while it trains on.
//
//   Get()     ──────────▶ ready()      at once
//   Begin()   ──thread──▶ ready()      while the caller goes on
//   Allocate() ...                     takes from it
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_LIBS_ELASTIC_GRADIENTS_BUCKET_RESERVE_H_
#define ADAPTDL_LIBS_ELASTIC_GRADIENTS_BUCKET_RESERVE_H_

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/device/device.h"

namespace adaptdl::elastic {

class BucketReserve {
 public:
  // Not owned.
  explicit BucketReserve(device::Device* device) : device_(device) {}
  // Waits for what is under way.
  ~BucketReserve();
  BucketReserve(const BucketReserve&) = delete;
  BucketReserve& operator=(const BucketReserve&) = delete;

  // Gets pieces of so many bytes each. Where there is no memory for one there are fewer of them: Allocate() says
  // so when it is needed.
  void Get(const std::vector<int64_t>& sizes);
  // The same on a thread of its own; once.
  void Begin(std::vector<int64_t> sizes);
  bool begun() const { return begun_; }
  // Whether nothing is under way.
  bool ready() const;

  // The smallest piece that is large enough, or else new memory. Waits for what is under way.
  absl::StatusOr<device::Memory> Allocate(int64_t bytes);
  // Gives back what is left.
  void Drop();

 private:
  void Fetch(const std::vector<int64_t>& sizes);
  void Join();
  absl::StatusOr<device::Memory> Touched(int64_t bytes);

  device::Device* const device_;
  bool begun_ = false;
  std::thread thread_;
  mutable Mutex mutex_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<device::Memory> pieces_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GRADIENTS_BUCKET_RESERVE_H_
