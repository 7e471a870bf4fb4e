#include "services/supervisor/scheduling_service.h"

#include <atomic>
#include <memory>

#include "services/supervisor/pull_reactor.h"
#include "services/supervisor/unary.h"

namespace adaptdl::supervisor {
namespace {

class ClusterStream final : public PullReactor<v1::WatchClusterResponse>, public ChangeListener {
 public:
  explicit ClusterStream(ClusterState* state) : state_(state) {}

  void OnChanges(const Changes& changes) override {
    if (!changes.cluster) return;
    changed_ = true;
    Poke();
  }

 protected:
  Pull Next(v1::WatchClusterResponse* message, grpc::Status* /*end*/) override {
    if (!changed_.exchange(false)) return Pull::kWait;
    *message->mutable_snapshot() = state_->Snapshot();
    return Pull::kMessage;
  }

 private:
  ClusterState* const state_;
  std::atomic<bool> changed_ = true;
};

}  // namespace

grpc::ServerWriteReactor<v1::WatchClusterResponse>* SchedulingServiceImpl::WatchCluster(
    grpc::CallbackServerContext* /*context*/, const v1::WatchClusterRequest* /*request*/) {
  auto stream = std::make_shared<ClusterStream>(state_);
  hub_->Subscribe(std::static_pointer_cast<ChangeListener>(stream));
  stream->Begin(stream);
  streams_->Add(stream);
  return stream.get();
}

grpc::ServerUnaryReactor* SchedulingServiceImpl::ApplyAllocations(grpc::CallbackServerContext* context,
                                                                  const v1::ApplyAllocationsRequest* request,
                                                                  v1::ApplyAllocationsResponse* response) {
  return Answer(context, state_->ApplyAllocations(*request), response);
}

}  // namespace adaptdl::supervisor
