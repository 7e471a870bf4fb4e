// The public AutoscalerService: shows what the loop last noted on the board.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_SERVICE_H_
#define ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_SERVICE_H_

#include <utility>
#include <vector>

#include "adaptdl/v1/autoscaler_service.grpc.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::autoscaler {

// The pools as they were after the last round. Thread-safe.
class PoolBoard {
 public:
  void Set(std::vector<v1::NodePool> pools) {
    MutexLock lock(&mutex_);
    pools_ = std::move(pools);
  }
  std::vector<v1::NodePool> Get() const {
    MutexLock lock(&mutex_);
    return pools_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<v1::NodePool> pools_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe. `board` is not owned.
class AutoscalerService final : public v1::AutoscalerService::CallbackService {
 public:
  explicit AutoscalerService(const PoolBoard* board) : board_(board) {}

  grpc::ServerUnaryReactor* ListNodePools(grpc::CallbackServerContext* context,
                                          const v1::ListNodePoolsRequest*,
                                          v1::ListNodePoolsResponse* response) override {
    for (v1::NodePool& pool : board_->Get()) *response->add_node_pools() = std::move(pool);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const PoolBoard* const board_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_SERVICE_H_
