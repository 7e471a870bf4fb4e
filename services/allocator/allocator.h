// The allocator's loop: watch, decide, apply.
//
//   supervisor ──snapshots──▶ [watch thread] ──latest──▶ [round thread] ──ApplyAllocations──▶ supervisor
//
// A round starts shortly (`debounce`) after a snapshot that matters, and at least each `interval`. It is
// decided outside all locks and RPC threads. What it decides is applied only if the snapshot is still the
// current one; if not, the round is decided again on the next. A supervisor that is away is waited for, with
// growing pauses.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_ALLOCATOR_H_
#define ADAPTDL_SERVICES_ALLOCATOR_ALLOCATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/scheduling_service.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/scheduling/policy.h"
#include "services/allocator/allocation_round.h"
#include "services/allocator/capacity_service.h"
#include "services/allocator/metrics.h"

namespace adaptdl::allocator {

struct AllocatorOptions {
  // Longest time between two rounds.
  absl::Duration interval = absl::Seconds(60);
  // How long to wait for further changes after one.
  absl::Duration debounce = absl::Milliseconds(100);
  // Deadline of ApplyAllocations.
  absl::Duration apply_timeout = absl::Seconds(10);
  // Pauses after a failure: the first, doubling to the longest.
  absl::Duration first_pause = absl::Milliseconds(100);
  absl::Duration longest_pause = absl::Seconds(5);
};

enum class RoundOutcome {
  // There is no snapshot yet.
  kNoSnapshot,
  // All is as it should be.
  kUnchanged,
  kApplied,
  // The cluster had changed meanwhile; the next snapshot decides.
  kConflict,
  // The supervisor could not be reached, or refused.
  kFailed,
};

class Allocator {
 public:
  // Nothing is owned; all outlive the allocator.
  struct Parts {
    const scheduling::AllocationPolicy* policy = nullptr;
    v1::SchedulingService::StubInterface* supervisor = nullptr;
    const Clock* clock = nullptr;
    CapacityBoard* capacity = nullptr;
    Metrics* metrics = nullptr;
  };

  Allocator(const AllocatorOptions& options, const Parts& parts);
  // Stops.
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // Starts both threads. Called at most once.
  void Start();
  // Cancels the calls in progress and ends both threads. Idempotent.
  void Stop();

  // What the threads do, step by step, for tests that do not Start().
  void TakeSnapshotForTest(v1::ClusterSnapshot snapshot) { TakeSnapshot(std::move(snapshot)); }
  bool RoundIsDueForTest() const;
  RoundOutcome RunRoundForTest() { return RunRound(); }

 private:
  void WatchLoop();
  // Reads one stream to its end. Returns whether anything came.
  bool WatchOnce();
  void RoundLoop();
  // Waits until a round is due. Returns false when it is time to stop.
  bool WaitForRound();
  RoundOutcome RunRound();
  RoundOutcome Apply(const RoundResult& result);
  absl::Status CallApply(v1::ApplyAllocationsRequest request, int64_t* version);
  RoundOutcome ApplyOneByOne(const v1::ApplyAllocationsRequest& request);
  void TakeSnapshot(v1::ClusterSnapshot snapshot);
  // Waits, unless it is time to stop.
  void Pause(absl::Duration time);
  // Registers the call so that Stop() can cancel it; false when it is time to stop.
  bool Register(grpc::ClientContext** slot, grpc::ClientContext* context);
  void Unregister(grpc::ClientContext** slot);

  const AllocatorOptions options_;
  const Parts parts_;
  AllocationRound round_;  // of the round thread

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const v1::ClusterSnapshot> latest_ ABSL_GUARDED_BY(mutex_);
  // What of `latest_` calls for a round at once when it changes.
  std::string signature_ ABSL_GUARDED_BY(mutex_);
  // Since when a round is wanted; InfiniteFuture: it is not.
  absl::Time wanted_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time last_round_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // After a failure: no round before this.
  absl::Time not_before_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_);
  // Calls in progress, to be cancelled by Stop().
  grpc::ClientContext* watch_call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  grpc::ClientContext* apply_call_ ABSL_GUARDED_BY(mutex_) = nullptr;

  std::thread watch_thread_;
  std::thread round_thread_;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_ALLOCATOR_H_
