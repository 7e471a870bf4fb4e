#include "services/allocator/capacity_service.h"

#include <utility>

#include "absl/status/status.h"
#include "libs/rpc/status.h"

namespace adaptdl::allocator {

CapacityBoard::CapacityBoard()
    : capacity_(absl::UnavailableError("the allocator has not seen the cluster yet; try again")) {}

void CapacityBoard::Set(v1::GetDesiredCapacityResponse capacity) {
  MutexLock lock(&mutex_);
  capacity_ = std::move(capacity);
}

void CapacityBoard::Refuse(const absl::Status& why) {
  MutexLock lock(&mutex_);
  capacity_ = why;
}

absl::StatusOr<v1::GetDesiredCapacityResponse> CapacityBoard::Get() const {
  MutexLock lock(&mutex_);
  return capacity_;
}

grpc::ServerUnaryReactor* CapacityService::GetDesiredCapacity(
    grpc::CallbackServerContext* context, const v1::GetDesiredCapacityRequest* /*request*/,
    v1::GetDesiredCapacityResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<v1::GetDesiredCapacityResponse> capacity = board_.Get();
  if (capacity.ok()) *response = *std::move(capacity);
  reactor->Finish(rpc::ToGrpcStatus(capacity.status()));
  return reactor;
}

}  // namespace adaptdl::allocator
