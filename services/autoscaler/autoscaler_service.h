// The public AutoscalerService: shows what the loop last noted on the board.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_SERVICE_H_
#define ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_SERVICE_H_

#include "adaptdl/v1/autoscaler_service.grpc.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::autoscaler {

// The pool as it was after the last round. Thread-safe.
class PoolBoard {
 public:
  void Set(const v1::NodePool& pool) {
    MutexLock lock(&mutex_);
    pool_ = pool;
  }
  v1::NodePool Get() const {
    MutexLock lock(&mutex_);
    return pool_;
  }

 private:
  mutable Mutex mutex_;
  v1::NodePool pool_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe. `board` is not owned.
class AutoscalerService final : public v1::AutoscalerService::CallbackService {
 public:
  explicit AutoscalerService(const PoolBoard* board) : board_(board) {}

  grpc::ServerUnaryReactor* ListNodePools(grpc::CallbackServerContext* context,
                                          const v1::ListNodePoolsRequest*,
                                          v1::ListNodePoolsResponse* response) override {
    *response->add_node_pools() = board_->Get();
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const PoolBoard* const board_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_SERVICE_H_
