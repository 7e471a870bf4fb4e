// The allocator's loop: watch, decide, apply.
//
//   supervisor ──changes──▶ [watch thread] ──cluster──▶ [round thread] ──ApplyAllocations──▶ supervisor
//
// A round starts shortly (`debounce`) after a change that matters, at once after one by which a node goes away, and at
// least each `interval`. It is
// decided outside all locks and RPC threads, on a copy of the cluster. What it decides is applied as far as
// it still holds; if nothing of it does, the round is decided again on the next change. A supervisor that is
// away is waited for, with growing pauses.
//
// Of several allocators one decides: whoever holds the supervisor's lease, which a third thread acquires and
// renews. The others watch, too, so that they can go on at once. The supervisor refuses what is applied under
// an older lease.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_ALLOCATOR_H_
#define ADAPTDL_SERVICES_ALLOCATOR_ALLOCATOR_H_

#include <cstddef>
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
#include "libs/base/backoff.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/base/random_id.h"
#include "libs/rpc/endpoints.h"
#include "libs/scheduling/policy.h"
#include "libs/tracing/tracer.h"
#include "services/allocator/allocation_round.h"
#include "services/allocator/capacity_service.h"
#include "services/allocator/cluster_mirror.h"
#include "services/allocator/metrics.h"

namespace adaptdl::allocator {

struct AllocatorOptions {
  // Longest time between two rounds.
  absl::Duration interval = absl::Seconds(60);
  // How long to wait for further changes after one.
  absl::Duration debounce = absl::Milliseconds(100);
  // Deadline of ApplyAllocations.
  absl::Duration apply_timeout = absl::Seconds(10);
  // Decisions that are larger go out in pages of about so many bytes.
  size_t page_bytes = 1 << 20;
  // Deadline of AcquireLease; after it the next supervisor is tried, if there are several.
  absl::Duration lease_timeout = absl::Seconds(1);
  // Longest time between two looks whether the lease is free.
  absl::Duration lease_poll = absl::Seconds(1);
  // Names this process. Not empty.
  std::string holder = RandomHex(8);
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
    rpc::Endpoints* supervisors = nullptr;
    const Clock* clock = nullptr;
    CapacityBoard* capacity = nullptr;
    DemandBoard* demands = nullptr;
    Metrics* metrics = nullptr;
    // Gets a span for each decision that changes something. Null: there are none.
    tracing::Tracer* tracer = nullptr;
  };

  Allocator(const AllocatorOptions& options, const Parts& parts);
  // Stops.
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // Starts the threads. Called at most once.
  void Start();
  // Cancels the calls in progress and ends the threads. Idempotent.
  void Stop();

  // What the threads do, step by step, for tests that do not Start().
  void TakeForTest(v1::WatchClusterResponse message) { Take(std::move(message)); }
  bool RoundIsDueForTest() const;
  absl::Duration AskForLeaseForTest() { return AskForLease(); }
  RoundOutcome RunRoundForTest() { return RunRound(); }

 private:
  void LeaseLoop();
  // Acquires or renews the lease, once. Returns when to do so again.
  absl::Duration AskForLease();
  absl::Duration TakeLease(const v1::AcquireLeaseResponse& response, absl::Time asked);
  absl::Duration LeaseFailed(const rpc::Endpoint& supervisor, const absl::Status& status);
  void Lead(int64_t lease_term, absl::Time until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StandBy(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::unique_ptr<v1::SchedulingService::Stub> StubOf(const rpc::Endpoint& supervisor) {
    return v1::SchedulingService::NewStub(supervisor.channel);
  }
  void WatchLoop();
  // Reads one stream to its end. Returns whether anything came.
  bool WatchOnce();
  void RoundLoop();
  // Waits until a round is due. Returns false when it is time to stop.
  bool WaitForRound();
  RoundOutcome RunRound();
  // The same as a trace, which the supervisor's part in it joins. It began then.
  RoundOutcome ApplyTraced(const RoundResult& result, absl::Time begin);
  RoundOutcome Apply(const RoundResult& result);
  // `version`: of the cluster after it.
  absl::Status CallApply(v1::ApplyAllocationsRequest request, int64_t* version);
  absl::Status CallApplyPage(v1::SchedulingService::Stub* stub, const v1::ApplyAllocationsRequest& page,
                             v1::ApplyAllocationsResponse* response);
  RoundOutcome ApplyOneByOne(const v1::ApplyAllocationsRequest& request);
  void Take(v1::WatchClusterResponse message);
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
  ClusterMirror cluster_ ABSL_GUARDED_BY(mutex_);
  // How many messages it has taken.
  int64_t messages_ ABSL_GUARDED_BY(mutex_) = 0;
  // Since when a round is wanted; InfiniteFuture: it is not.
  absl::Time wanted_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time last_round_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // After a failure: no round before this.
  absl::Time not_before_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  // Whether it decides, under which lease (0: the supervisor knows none), and until when without news.
  bool leads_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t lease_term_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time lease_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // Whether it is known that it does not.
  bool stands_by_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether to ask for the lease before its time.
  bool lease_due_ ABSL_GUARDED_BY(mutex_) = false;
  // Calls in progress, to be cancelled by Stop().
  grpc::ClientContext* lease_call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  grpc::ClientContext* watch_call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  grpc::ClientContext* apply_call_ ABSL_GUARDED_BY(mutex_) = nullptr;

  std::thread lease_thread_;
  std::thread watch_thread_;
  std::thread round_thread_;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_ALLOCATOR_H_
