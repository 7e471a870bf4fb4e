// Pinned memory for copies between a device and main memory, used again and again. Inside libs/comm only.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_COMM_STAGING_POOL_H_
#define ADAPTDL_LIBS_COMM_STAGING_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/device/device.h"

namespace adaptdl::comm {

// What one collective needs for its copies.
struct Staging {
  device::Memory memory;
  std::unique_ptr<device::Event> copied_out;
  std::unique_ptr<device::Event> copied_back;
};

class StagingPool {
 public:
  // Not owned.
  explicit StagingPool(device::Device* device) : device_(device) {}

  // At least `bytes`. Asks the device for memory only if none that was returned is large enough.
  absl::StatusOr<std::unique_ptr<Staging>> Take(int64_t bytes);

  // What is there is not used any more.
  void Return(std::unique_ptr<Staging> staging);

 private:
  // The smallest that is large enough, or else the largest, or nothing.
  std::unique_ptr<Staging> TakeBest(int64_t bytes);

  device::Device* const device_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Staging>> free_ ABSL_GUARDED_BY(mutex_);  // by size
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_STAGING_POOL_H_
