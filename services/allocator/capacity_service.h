// Answers how many nodes the cluster should have, and what jobs could make of others, from what the last round put on the
// boards. Thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_CAPACITY_SERVICE_H_
#define ADAPTDL_SERVICES_ALLOCATOR_CAPACITY_SERVICE_H_

#include <cstddef>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/capacity_service.grpc.pb.h"
#include "libs/base/mutex.h"
#include "services/allocator/demand_board.h"

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
  // The boards are not owned and outlive the service.
  CapacityService(const CapacityBoard* board, DemandBoard* demands) : board_(*board), demands_(*demands) {}

  grpc::ServerUnaryReactor* GetDesiredCapacity(grpc::CallbackServerContext* context,
                                               const v1::GetDesiredCapacityRequest* request,
                                               v1::GetDesiredCapacityResponse* response) override;
  grpc::ServerUnaryReactor* ListJobDemands(grpc::CallbackServerContext* context,
                                           const v1::ListJobDemandsRequest* request,
                                           v1::ListJobDemandsResponse* response) override;

 private:
  const CapacityBoard& board_;
  DemandBoard& demands_;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_CAPACITY_SERVICE_H_
