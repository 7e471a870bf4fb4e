#include "services/supervisor/scheduling_service.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/supervisor/pull_reactor.h"
#include "services/supervisor/unary.h"

namespace adaptdl::supervisor {
namespace {

// Each snapshot holds the whole cluster: the pauses between them are at least so long, and so many times the
// time that one takes to make, so that they never are most of what the supervisor does.
constexpr absl::Duration kShortestPause = absl::Milliseconds(20);
constexpr int kPausePerWork = 16;

class ClusterStream final : public PullReactor<v1::WatchClusterResponse>, public ChangeListener {
 public:
  explicit ClusterStream(ClusterState* state) : PullReactor(state->executor()), state_(state) {}

  void OnChanges(const Changes& changes) override {
    if (!changes.cluster) return;
    changed_ = true;
    Poke();
  }

 protected:
  Pull Next(v1::WatchClusterResponse* message, grpc::Status* /*end*/) override {
    if (!changed_) return Pull::kWait;
    const absl::Time now = absl::Now();
    if (now < next_) {
      PokeAt(next_);  // The cluster changes all the time: wait for more.
      return Pull::kWait;
    }
    changed_ = false;
    *message->mutable_snapshot() = state_->Snapshot();
    const absl::Time done = absl::Now();
    next_ = done + std::max(kShortestPause, kPausePerWork * (done - now));
    return Pull::kMessage;
  }

 private:
  ClusterState* const state_;
  std::atomic<bool> changed_ = true;
  // Used in Next() only.
  absl::Time next_ = absl::InfinitePast();
};

}  // namespace

grpc::ServerUnaryReactor* SchedulingServiceImpl::AcquireLease(grpc::CallbackServerContext* context,
                                                              const v1::AcquireLeaseRequest* request,
                                                              v1::AcquireLeaseResponse* response) {
  return Answer(
      state_, context, [this, request] { return state_->AcquireLease(*request); }, response);
}

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
  return Answer(
      state_, context, [this, request] { return state_->ApplyAllocations(*request); }, response);
}

}  // namespace adaptdl::supervisor
