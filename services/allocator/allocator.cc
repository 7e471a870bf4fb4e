#include "services/allocator/allocator.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "libs/base/random_id.h"
#include "libs/messages/proto_time.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"
#include "libs/service/log.h"
#include "libs/tracing/context.h"
#include "libs/tracing/scope.h"
#include "services/allocator/decision_pages.h"
#include "services/allocator/snapshot_converter.h"

namespace adaptdl::allocator {
namespace {

const char* ToString(RoundOutcome outcome) {
  switch (outcome) {
    case RoundOutcome::kApplied:
      return "applied";
    case RoundOutcome::kConflict:
      return "conflict";
    case RoundOutcome::kFailed:
      return "failed";
    default:
      return "unchanged";
  }
}

v1::GetDesiredCapacityResponse ToResponse(const RoundResult& result, absl::Time now) {
  v1::GetDesiredCapacityResponse response;
  response.set_desired_nodes(result.capacity.desired_nodes);
  response.set_current_nodes(result.capacity.current_nodes);
  response.set_reason(result.capacity.reason);
  response.set_snapshot_version(result.request.snapshot_version());
  *response.mutable_decision_time() = messages::ToProto(now);
  for (const std::string& node : result.capacity.idle_nodes) response.add_idle_node_ids(node);
  response.set_start_nodes(result.capacity.start_nodes);
  for (const scheduling::CapacityPoint& point : result.capacity.curve) {
    v1::CapacityPoint* entry = response.add_points();
    entry->set_nodes(point.nodes);
    entry->set_utility(point.utility);
    entry->set_marginal_use(point.marginal_use);
    if (point.makespan_seconds.has_value()) entry->set_makespan_seconds(*point.makespan_seconds);
  }
  response.mutable_unplaced()->Add(result.unplaced.begin(), result.unplaced.end());
  return response;
}

}  // namespace

Allocator::Allocator(const AllocatorOptions& options, const Parts& parts)
    : options_(options),
      parts_(parts),
      round_(parts.policy),
      backoff_(options.first_pause, options.longest_pause) {}

Allocator::~Allocator() { Stop(); }

void Allocator::Start() {
  lease_thread_ = std::thread([this] { LeaseLoop(); });
  watch_thread_ = std::thread([this] { WatchLoop(); });
  round_thread_ = std::thread([this] { RoundLoop(); });
}

void Allocator::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    if (lease_call_ != nullptr) lease_call_->TryCancel();
    if (watch_call_ != nullptr) watch_call_->TryCancel();
    if (apply_call_ != nullptr) apply_call_->TryCancel();
    changed_.SignalAll();
  }
  if (lease_thread_.joinable()) lease_thread_.join();
  if (watch_thread_.joinable()) watch_thread_.join();
  if (round_thread_.joinable()) round_thread_.join();
}

bool Allocator::RoundIsDueForTest() const {
  MutexLock lock(&mutex_);
  return wanted_since_ != absl::InfiniteFuture();
}

// --- the lease thread

void Allocator::LeaseLoop() {
  while (true) {
    const absl::Duration pause = AskForLease();
    const absl::Time end = SteadyNow() + pause;
    MutexLock lock(&mutex_);
    while (!stopping_ && !lease_due_ && SteadyNow() < end) changed_.WaitFor(&mutex_, end - SteadyNow());
    if (stopping_) return;
    lease_due_ = false;
  }
}

absl::Duration Allocator::AskForLease() {
  const rpc::Endpoint supervisor = parts_.supervisors->current();
  rpc::AwaitConnection(supervisor.channel.get());
  v1::AcquireLeaseRequest request;
  request.set_holder(options_.holder);
  grpc::ClientContext context;
  rpc::SetTimeout(&context, options_.lease_timeout);
  if (!Register(&lease_call_, &context)) return options_.first_pause;
  const absl::Time asked = parts_.clock->Steady();
  v1::AcquireLeaseResponse response;
  const absl::Status status =
      rpc::FromGrpcStatus(StubOf(supervisor)->AcquireLease(&context, request, &response));
  Unregister(&lease_call_);
  return status.ok() ? TakeLease(response, asked) : LeaseFailed(supervisor, status);
}

absl::Duration Allocator::TakeLease(const v1::AcquireLeaseResponse& response, absl::Time asked) {
  const absl::Duration duration = messages::ToDuration(response.duration());
  MutexLock lock(&mutex_);
  if (!response.granted()) {
    StandBy(absl::StrCat("allocator ", response.holder(), " decides"));
    return std::clamp(duration, options_.first_pause, options_.lease_poll);
  }
  // One that gives an older lease has been replaced, and will find out.
  if (response.lease_term() < lease_term_) return options_.first_pause;
  Lead(response.lease_term(), asked + duration);
  return std::max(duration / 3, options_.first_pause);
}

absl::Duration Allocator::LeaseFailed(const rpc::Endpoint& supervisor, const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (status.code() == absl::StatusCode::kUnimplemented) {
    // A supervisor of an older version, which has one allocator.
    Lead(0, absl::InfiniteFuture());
    return options_.lease_poll;
  }
  if (parts_.clock->Steady() >= lease_until_) StandBy(std::string(status.message()));
  if (rpc::IsEndpointFailure(status) && parts_.supervisors->several()) {
    parts_.supervisors->GoOn(supervisor);
    // All that may be heard of a supervisor that is stopped is that it does not answer: not what it was asked
    // before, either.
    if (watch_call_ != nullptr) watch_call_->TryCancel();
    if (apply_call_ != nullptr) apply_call_->TryCancel();
    return options_.first_pause;
  }
  return std::min(options_.lease_poll, 5 * options_.first_pause);
}

void Allocator::Lead(int64_t lease_term, absl::Time until) {
  lease_until_ = until;
  if (leads_ && lease_term == lease_term_) return;
  leads_ = true;
  stands_by_ = false;
  lease_term_ = lease_term;
  parts_.metrics->Leading(true);
  log::Info("deciding: this allocator holds the lease", {{"lease_term", absl::StrCat(lease_term)}});
  not_before_ = absl::InfinitePast();
  wanted_since_ = std::min(wanted_since_, parts_.clock->Steady());
  changed_.SignalAll();
}

void Allocator::StandBy(const std::string& why) {
  leads_ = false;
  parts_.metrics->Leading(false);
  const absl::Status refusal = absl::UnavailableError(absl::StrCat("this allocator stands by: ", why));
  parts_.capacity->Refuse(refusal);
  parts_.demands->Refuse(refusal);
  if (!std::exchange(stands_by_, true)) log::Info("standing by", {{"reason", why}});
}

// --- the watch thread

void Allocator::WatchLoop() {
  Backoff backoff(options_.first_pause, options_.longest_pause);
  for (;;) {
    if (WatchOnce()) backoff.Reset();
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    Pause(backoff.Next());
  }
}

bool Allocator::WatchOnce() {
  const rpc::Endpoint supervisor = parts_.supervisors->current();
  rpc::AwaitConnection(supervisor.channel.get());
  grpc::ClientContext context;
  if (!Register(&watch_call_, &context)) return false;
  bool any = false;
  const std::unique_ptr<v1::SchedulingService::Stub> stub = StubOf(supervisor);
  v1::WatchClusterRequest request;
  request.set_changes(true);
  request.set_pages(true);
  {
    MutexLock lock(&mutex_);
    cluster_.BeginStream();
  }
  auto reader = stub->WatchCluster(&context, request);
  v1::WatchClusterResponse response;
  while (reader->Read(&response)) {
    if (!any) {
      parts_.metrics->Watching(true);
      log::Info("watching the cluster", {{"version", absl::StrCat(response.snapshot().version())}});
    }
    any = true;
    Take(std::exchange(response, v1::WatchClusterResponse()));
  }
  const absl::Status status = rpc::FromGrpcStatus(reader->Finish());
  Unregister(&watch_call_);
  parts_.metrics->Watching(false);
  if (rpc::IsEndpointFailure(status)) parts_.supervisors->GoOn(supervisor);
  MutexLock lock(&mutex_);
  // Whoever is there next has not given it yet.
  lease_due_ = true;
  changed_.SignalAll();
  if (!stopping_) {
    log::Warning(
        "the watch of the cluster ended; trying again",
        {{"code", absl::StatusCodeToString(status.code())}, {"error", std::string(status.message())}});
  }
  return any;
}

void Allocator::Take(v1::WatchClusterResponse message) {
  MutexLock lock(&mutex_);
  ++messages_;
  if (!cluster_.Take(std::move(message), parts_.clock->Steady())) return;
  // News may be what a failed round lacked.
  not_before_ = absl::InfinitePast();
  // Whoever has seconds left waits for no further changes.
  const absl::Time since = cluster_.TakeNodeLeaves() ? absl::InfinitePast() : parts_.clock->Steady();
  wanted_since_ = std::min(wanted_since_, since);
  changed_.SignalAll();
}

// --- the round thread

void Allocator::RoundLoop() {
  while (WaitForRound()) RunRound();
}

bool Allocator::WaitForRound() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    if (!cluster_.known() || !leads_) {
      changed_.Wait(&mutex_);
      continue;
    }
    const absl::Time due =
        std::max(std::min(wanted_since_ + options_.debounce, last_round_ + options_.interval), not_before_);
    const absl::Duration left = due - parts_.clock->Steady();
    if (left <= absl::ZeroDuration()) return true;
    changed_.WaitFor(&mutex_, left);
  }
  return false;
}

RoundOutcome Allocator::RunRound() {
  const absl::Time start = parts_.clock->Steady();
  const absl::Time begin = parts_.clock->Now();
  v1::ClusterSnapshot snapshot;
  int64_t messages = 0;
  {
    MutexLock lock(&mutex_);
    if (!cluster_.known()) return RoundOutcome::kNoSnapshot;
    snapshot = cluster_.Snapshot(start);
    messages = messages_;
    wanted_since_ = absl::InfiniteFuture();
    last_round_ = start;
  }
  round_.Expect(parts_.demands->Kinds());
  RoundResult result = round_.Decide(snapshot, parts_.clock->Now());
  parts_.metrics->Decided(result, parts_.clock->Steady() - start);
  for (const Refusal& refusal : result.refusals) {
    log::Warning("not used", {{"what", refusal.what}, {"why", refusal.why}});
  }
  const RoundOutcome outcome = ApplyTraced(result, begin);
  const bool moved = outcome == RoundOutcome::kApplied;
  parts_.metrics->Ended(ToString(outcome), moved ? result.moves : std::vector<Move>());

  MutexLock lock(&mutex_);
  if (outcome != RoundOutcome::kConflict && !stands_by_) {
    parts_.capacity->Set(ToResponse(result, parts_.clock->Now()));
    parts_.demands->Set(std::move(result.basis));
  }
  if (outcome == RoundOutcome::kConflict || outcome == RoundOutcome::kFailed) {
    // The next change starts a round at once; should none come, try again after a pause.
    wanted_since_ = std::min(wanted_since_, parts_.clock->Steady());
    const absl::Duration pause = backoff_.Next();
    if (messages_ == messages) not_before_ = parts_.clock->Steady() + pause;
  } else {
    backoff_.Reset();
  }
  return outcome;
}

RoundOutcome Allocator::ApplyTraced(const RoundResult& result, absl::Time begin) {
  if (parts_.tracer == nullptr || result.request.allocations().empty()) return Apply(result);
  const tracing::Context context = tracing::NewTrace();
  const tracing::Scope scope(context);
  const RoundOutcome outcome = Apply(result);
  parts_.tracer->Take({.name = "decision",
                       .context = context,
                       .begin = begin,
                       .end = parts_.clock->Now(),
                       .attributes = {{"adaptdl.moves", static_cast<int64_t>(result.moves.size())},
                                      {"adaptdl.outcome", ToString(outcome)}}});
  return outcome;
}

RoundOutcome Allocator::Apply(const RoundResult& result) {
  if (result.request.allocations().empty()) return RoundOutcome::kUnchanged;
  int64_t version = result.request.snapshot_version();
  const absl::Status status = CallApply(result.request, &version);
  if (absl::IsInvalidArgument(status) && result.request.allocations_size() > 1) {
    log::Error("allocations refused; applying them one by one", {{"error", std::string(status.message())}});
    return ApplyOneByOne(result.request);
  }
  if (absl::IsAborted(status)) {
    log::Debug("the cluster changed meanwhile; deciding again", {{"version", absl::StrCat(version)}});
    return RoundOutcome::kConflict;
  }
  if (absl::IsCancelled(status)) return RoundOutcome::kFailed;  // by Stop(), or by a supervisor that stops
  if (!status.ok()) {
    log::Warning("allocations not applied; trying again", {{"code", absl::StatusCodeToString(status.code())},
                                                           {"error", std::string(status.message())}});
    return RoundOutcome::kFailed;
  }
  for (const Move& move : result.moves) {
    log::Info("allocation changed", {{"job", move.job},
                                     {"from", absl::StrCat(move.replicas_before)},
                                     {"to", absl::StrCat(move.replicas_after)},
                                     {"reason", move.reason}});
  }
  return RoundOutcome::kApplied;
}

RoundOutcome Allocator::ApplyOneByOne(const v1::ApplyAllocationsRequest& request) {
  std::vector<const v1::JobAllocation*> order;
  for (const v1::JobAllocation& allocation : request.allocations()) order.push_back(&allocation);
  // Whoever gives room away goes first.
  std::stable_sort(order.begin(), order.end(), [](const v1::JobAllocation* a, const v1::JobAllocation* b) {
    return a->node_ids_size() < b->node_ids_size();
  });
  int64_t version = request.snapshot_version();
  RoundOutcome outcome = RoundOutcome::kFailed;
  for (const v1::JobAllocation* allocation : order) {
    v1::ApplyAllocationsRequest single;
    single.set_snapshot_version(version);
    *single.add_allocations() = *allocation;
    const absl::Status status = CallApply(single, &version);
    if (status.ok()) {
      outcome = RoundOutcome::kApplied;
    } else if (absl::IsInvalidArgument(status)) {
      log::Error("allocation refused",
                 {{"job", absl::StrCat(allocation->namespace_(), "/", allocation->name())},
                  {"error", std::string(status.message())}});
    } else {
      return absl::IsAborted(status) ? RoundOutcome::kConflict : RoundOutcome::kFailed;
    }
  }
  return outcome;
}

absl::Status Allocator::CallApply(v1::ApplyAllocationsRequest request, int64_t* version) {
  request.set_request_id(RandomHex(16));
  {
    MutexLock lock(&mutex_);
    request.set_lease_term(lease_term_);
  }
  // All pages go to one supervisor.
  const auto stub = StubOf(parts_.supervisors->current());
  bool by_itself = false;
  for (v1::ApplyAllocationsRequest& page : SplitDecision(std::move(request), options_.page_bytes)) {
    if (by_itself) {
      page.set_request_id(RandomHex(16));
      page.set_snapshot_version(*version);
      page.clear_page();
      page.clear_more();
    }
    v1::ApplyAllocationsResponse response;
    const absl::Status status = CallApplyPage(stub.get(), page, &response);
    if (!status.ok()) return status;
    *version = response.snapshot_version();
    // A supervisor of an older version has stored the page as if it were all: the rest is for it as well.
    by_itself = by_itself || (page.more() && !response.kept());
  }
  return absl::OkStatus();
}

absl::Status Allocator::CallApplyPage(v1::SchedulingService::Stub* stub,
                                      const v1::ApplyAllocationsRequest& page,
                                      v1::ApplyAllocationsResponse* response) {
  grpc::ClientContext context;
  rpc::SetTimeout(&context, options_.apply_timeout);
  if (!Register(&apply_call_, &context)) return absl::CancelledError("the allocator stops");
  const absl::Status status = rpc::FromGrpcStatus(stub->ApplyAllocations(&context, page, response));
  Unregister(&apply_call_);
  if (absl::IsFailedPrecondition(status)) {
    MutexLock lock(&mutex_);
    lease_due_ = true;
    changed_.SignalAll();
  }
  return status;
}

// --- both

void Allocator::Pause(absl::Duration time) {
  const absl::Time end = SteadyNow() + time;
  MutexLock lock(&mutex_);
  while (!stopping_) {
    const absl::Duration left = end - SteadyNow();
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitFor(&mutex_, left);
  }
}

bool Allocator::Register(grpc::ClientContext** slot, grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  if (stopping_) return false;
  *slot = context;
  return true;
}

void Allocator::Unregister(grpc::ClientContext** slot) {
  MutexLock lock(&mutex_);
  *slot = nullptr;
}

}  // namespace adaptdl::allocator
