#include "services/supervisor/scheduling/scheduling_service.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "services/supervisor/calls/admission.h"
#include "services/supervisor/calls/pull_reactor.h"
#include "services/supervisor/calls/unary.h"
#include "services/supervisor/state/cluster_update.h"

namespace adaptdl::supervisor {
namespace {

// The pauses between messages are at least so long, and so many times the time that one takes to make, so
// that they never are most of what the supervisor does.
constexpr absl::Duration kShortestPause = absl::Milliseconds(20);
constexpr int kPausePerWork = 16;
// About how much one message holds for those who take pages: well below the largest that is accepted.
constexpr size_t kPageBytes = 1 << 20;

class ClusterStream final : public PullReactor<v1::WatchClusterResponse>, public ChangeListener {
 public:
  ClusterStream(const SchedulingManager* scheduling, const Lanes* lanes,
                const v1::WatchClusterRequest& request)
      : PullReactor(lanes->readers, lanes->durability),
        scheduling_(scheduling),
        takes_changes_(request.changes()),
        message_bytes_(request.pages() ? kPageBytes : std::numeric_limits<size_t>::max()) {}

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
    const absl::Time begin = SteadyNow();
    if (!pages_.has_value()) {
      if (!changed_) return Pull::kWait;
      if (begin < next_) {
        PokeAt(next_);  // The cluster changes all the time: wait for more.
        return Pull::kWait;
      }
      changed_ = false;
      pages_.emplace(Look(), message_bytes_);
      work_ = absl::ZeroDuration();
    }
    pages_->Next(message);
    const absl::Time end = SteadyNow();
    work_ += end - begin;
    if (pages_->done()) {
      pages_.reset();
      next_ = end + std::max(kShortestPause, kPausePerWork * work_);
    }
    return Pull::kMessage;
  }

 private:
  // What is to be told.
  ClusterUpdate Look() {
    if (!takes_changes_ || !snapshot_sent_) {
      ClusterUpdate view = scheduling_->View();
      version_ = view.version;
      snapshot_sent_ = true;
      return view;
    }
    ClusterNews news;
    {
      MutexLock lock(&mutex_);
      std::swap(news, pending_);
    }
    // The snapshot may have been ahead of the news.
    version_ = std::max(version_, news.version);
    news.version = version_;
    return scheduling_->ViewOfChange(news);
  }

  const SchedulingManager* const scheduling_;
  const bool takes_changes_;
  const size_t message_bytes_;
  std::atomic<bool> changed_ = true;
  Mutex mutex_;
  // Since the last message.
  ClusterNews pending_ ABSL_GUARDED_BY(mutex_);
  // Used in Next() only.
  bool snapshot_sent_ = false;
  // What is being told, and how long that took so far.
  std::optional<ClusterPages> pages_;
  absl::Duration work_;
  int64_t version_ = 0;
  absl::Time next_ = absl::InfinitePast();
};

}  // namespace

grpc::ServerUnaryReactor* SchedulingServiceImpl::AcquireLease(grpc::CallbackServerContext* context,
                                                              const v1::AcquireLeaseRequest* request,
                                                              v1::AcquireLeaseResponse* response) {
  return Answer(
      lanes_, context, [this, request] { return scheduling_->AcquireLease(*request); }, response);
}

grpc::ServerWriteReactor<v1::WatchClusterResponse>* SchedulingServiceImpl::WatchCluster(
    grpc::CallbackServerContext* /*context*/, const v1::WatchClusterRequest* request) {
  auto stream = std::make_shared<ClusterStream>(scheduling_, lanes_, *request);
  hub_->Subscribe(std::static_pointer_cast<ChangeListener>(stream));
  stream->Begin(stream);
  streams_->Add(stream);
  return stream.get();
}

grpc::ServerUnaryReactor* SchedulingServiceImpl::ApplyAllocations(grpc::CallbackServerContext* context,
                                                                  const v1::ApplyAllocationsRequest* request,
                                                                  v1::ApplyAllocationsResponse* response) {
  return Answer(
      lanes_, context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return scheduling_->ApplyAllocations(*request, caller);
      },
      response);
}

}  // namespace adaptdl::supervisor
