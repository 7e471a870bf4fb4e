#include "services/supervisor/scheduling_service.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "services/supervisor/pull_reactor.h"
#include "services/supervisor/unary.h"

namespace adaptdl::supervisor {
namespace {

// The pauses between messages are at least so long, and so many times the time that one takes to make, so
// that they never are most of what the supervisor does.
constexpr absl::Duration kShortestPause = absl::Milliseconds(20);
constexpr int kPausePerWork = 16;

class ClusterStream final : public PullReactor<v1::WatchClusterResponse>, public ChangeListener {
 public:
  ClusterStream(ClusterState* state, bool takes_changes)
      : PullReactor(state->executor()), state_(state), takes_changes_(takes_changes) {}

  void OnChanges(const Changes& changes) override {
    if (takes_changes_) {
      MutexLock lock(&mutex_);
      pending_.Add(changes);
    }
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
    Describe(message);
    const absl::Time done = absl::Now();
    next_ = done + std::max(kShortestPause, kPausePerWork * (done - now));
    return Pull::kMessage;
  }

 private:
  void Describe(v1::WatchClusterResponse* message) {
    if (!takes_changes_ || !snapshot_sent_) {
      *message->mutable_snapshot() = state_->Snapshot();
      version_ = message->snapshot().version();
      snapshot_sent_ = true;
      return;
    }
    ClusterNews news;
    {
      MutexLock lock(&mutex_);
      std::swap(news, pending_);
    }
    // The snapshot may have been ahead of the news.
    version_ = std::max(version_, news.version);
    *message->mutable_change() = state_->DescribeChange(news);
    message->mutable_change()->set_version(version_);
  }

  ClusterState* const state_;
  const bool takes_changes_;
  std::atomic<bool> changed_ = true;
  Mutex mutex_;
  // Since the last message.
  ClusterNews pending_ ABSL_GUARDED_BY(mutex_);
  // Used in Next() only.
  bool snapshot_sent_ = false;
  int64_t version_ = 0;
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
    grpc::CallbackServerContext* /*context*/, const v1::WatchClusterRequest* request) {
  auto stream = std::make_shared<ClusterStream>(state_, request->changes());
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
