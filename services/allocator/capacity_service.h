// Answers how many nodes the cluster should have, from what the last round put on the board. Thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_CAPACITY_SERVICE_H_
#define ADAPTDL_SERVICES_ALLOCATOR_CAPACITY_SERVICE_H_

#include <cstddef>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/capacity_service.grpc.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::allocator {

// The last decision about capacity.
class CapacityBoard {
 public:
  CapacityBoard();
  void Set(v1::GetDesiredCapacityResponse capacity);
  // Until the next Set().
  void Refuse(const absl::Status& why);
  // UNAVAILABLE before the first Set().
  absl::StatusOr<v1::GetDesiredCapacityResponse> Get() const;
  // The page that begins at `token` (empty: the first), which ends with the entry that goes beyond `bytes`.
  // ABORTED: the token belongs to an older decision.
  absl::StatusOr<v1::GetDesiredCapacityResponse> GetPage(const std::string& token, size_t bytes) const;

 private:
  mutable Mutex mutex_;
  absl::StatusOr<v1::GetDesiredCapacityResponse> capacity_ ABSL_GUARDED_BY(mutex_);
  // Names the decision in page tokens.
  std::string decision_ ABSL_GUARDED_BY(mutex_);
};

class CapacityService final : public v1::CapacityService::CallbackService {
 public:
  // `board` is not owned and outlives the service.
  explicit CapacityService(const CapacityBoard* board) : board_(*board) {}

  grpc::ServerUnaryReactor* GetDesiredCapacity(grpc::CallbackServerContext* context,
                                               const v1::GetDesiredCapacityRequest* request,
                                               v1::GetDesiredCapacityResponse* response) override;

 private:
  const CapacityBoard& board_;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_CAPACITY_SERVICE_H_
