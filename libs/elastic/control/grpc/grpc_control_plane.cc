#include "libs/elastic/control/grpc/grpc_control_plane.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "adaptdl/v1/replica_service.grpc.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/base/say.h"
#include "libs/elastic/control/grpc/conversions.h"
#include "libs/elastic/control/grpc/pending_reports.h"
#include "libs/elastic/control/grpc/supervisor_link.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/endpoints.h"
#include "libs/rpc/status.h"

namespace adaptdl::elastic {
namespace {

constexpr absl::Duration kDefaultHeartbeatPeriod = absl::Seconds(5);
constexpr absl::Duration kReportTimeout = absl::Seconds(5);
// With several supervisors: how long one may leave a heartbeat unanswered, and how long it is waited for in a
// rendezvous until it is asked again.
constexpr absl::Duration kAnswerTimeout = absl::Milliseconds(2500);
constexpr absl::Duration kRendezvousTurn = absl::Seconds(5);
// How long the last heartbeat, which tells how far the job came, may delay the end of the process.
constexpr absl::Duration kGoodbyeTimeout = absl::Seconds(2);

// How long a replica whose group was refused, but which has a place in a newer one, may take to enter that.
constexpr absl::Duration kChangeGrace = absl::Seconds(5);

class GrpcControlPlane final : public ControlPlane {
 public:
  explicit GrpcControlPlane(const GrpcControlPlaneOptions& options) : link_(options) {
    member_.group = options.group;
  }

  ~GrpcControlPlane() override { Shutdown(); }

  absl::StatusOr<GroupMembership> JoinGroup(const std::string& address) override {
    JitteredBackoff backoff(link_.longest_pause());
    for (;;) {
      const rpc::Endpoint supervisor = link_.current();
      rpc::AwaitConnection(supervisor.channel.get());
      absl::StatusOr<GroupMembership> membership = TryJoin(supervisor, address);
      if (membership.ok()) {
        MutexLock lock(&mutex_);
        member_ = *membership;
        joined_as_ = address;
        return membership;
      }
      if (SupervisorLink::IsFinal(membership.status()))
        return absl::AbortedError(membership.status().message());
      link_.GoOnFrom(supervisor);
      if (!Pause(backoff.Next())) return absl::CancelledError("asked to stop");
      Say(Severity::kNotice, absl::StrCat("waiting for the supervisor at ", supervisor.address, ": ",
                                          membership.status().ToString()));
    }
  }

  void Cancel() override {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    if (context_) context_->TryCancel();
    changed_.SignalAll();
  }

  void Start(ControlObserver* observer) override {
    observer_ = observer;
    heartbeats_ = std::thread([this] { SendHeartbeats(); });
  }

  bool plans_groups() const override { return true; }

  void EnterGroup(const GroupMembership& group) override {
    MutexLock lock(&mutex_);
    BecomeMember(group);
    if (takes_reports_) {
      reports_.Entered(group);
      Hasten();
    } else if (context_) {
      // An older supervisor takes a stream for that of one group.
      context_->TryCancel();
    }
  }

  void ReportBroken(int64_t group, const std::string& reason) override {
    MutexLock lock(&mutex_);
    reports_.Broken(group, reason);
    Hasten();
  }

  void ReportRescale(const RescaleTimes& times) override {
    MutexLock lock(&mutex_);
    if (member_.rank != 0) return;
    reports_.Rescaled(times);
    Hasten();
  }

  void ReportCheckpoint(int64_t step, const absl::Status& status) override {
    MutexLock lock(&mutex_);
    if (reports_.CheckpointTaken(step, status)) Hasten();
  }

  void UpdateProgress(const Progress& progress) override {
    MutexLock lock(&mutex_);
    // That training has begun is news.
    if (!progress_) Hasten();
    progress_ = progress;
  }

  absl::Status ReportHints(const Hints& hints) override {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, kReportTimeout);
    v1::ReportHintsRequest request;
    link_.Identify(Member(), &context, request.mutable_identity());
    *request.mutable_hints() = ToProto(hints);
    v1::ReportHintsResponse response;
    const rpc::Endpoint supervisor = link_.current();
    const absl::Status status =
        rpc::FromGrpcStatus(SupervisorLink::StubOf(supervisor)->ReportHints(&context, request, &response));
    if (rpc::IsEndpointFailure(status)) link_.GoOnFrom(supervisor);
    return status;
  }

  void Shutdown() override {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalAll();
      const absl::Time deadline = SteadyNow() + kGoodbyeTimeout;
      while (streaming_ && SteadyNow() < deadline) changed_.WaitFor(&mutex_, deadline - SteadyNow());
      if (context_) context_->TryCancel();
    }
    if (heartbeats_.joinable()) heartbeats_.join();
  }

 private:
  using HeartbeatStream = grpc::ClientReaderWriter<v1::HeartbeatRequest, v1::HeartbeatResponse>;

  GroupMembership Member() {
    MutexLock lock(&mutex_);
    return member_;
  }

  void BecomeMember(const GroupMembership& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    member_ = group;
    plans_.erase(plans_.begin(), plans_.upper_bound(group.group));
    reports_.ForgetBrokenBefore(group.group);
    changed_.SignalAll();
  }

  // Makes `context` the one that Cancel() and Shutdown() end. False: it is too late to begin.
  bool Publish(grpc::ClientContext* context) {
    MutexLock lock(&mutex_);
    if (context != nullptr && (cancelled_ || stopping_)) return false;
    context_ = context;
    return true;
  }

  // False: asked to end meanwhile.
  bool Pause(absl::Duration duration) {
    MutexLock lock(&mutex_);
    if (!cancelled_ && !stopping_) changed_.WaitFor(&mutex_, duration);
    return !cancelled_ && !stopping_;
  }

  // One that is told to wait asks again after each turn: with several supervisors, this one may be stopped.
  absl::StatusOr<GroupMembership> TryJoin(const rpc::Endpoint& supervisor, const std::string& address) {
    absl::StatusOr<GroupMembership> membership;
    bool waits = true;
    while (waits) {
      waits = false;
      membership = TakeTurn(supervisor, address, &waits);
    }
    return membership;
  }

  // `*waits`: the supervisor has said that others are to come.
  absl::StatusOr<GroupMembership> TakeTurn(const rpc::Endpoint& supervisor, const std::string& address,
                                           bool* waits) {
    grpc::ClientContext context;
    if (link_.several()) rpc::SetTimeout(&context, kRendezvousTurn);
    const v1::JoinGroupRequest request = link_.JoinRequest(Member(), address, &context);
    if (!Publish(&context)) return absl::UnavailableError("asked to stop");
    const std::unique_ptr<v1::ReplicaService::Stub> stub = SupervisorLink::StubOf(supervisor);
    auto reader = stub->JoinGroup(&context, request);
    std::optional<GroupMembership> membership;
    v1::JoinGroupResponse response;
    bool current = true;
    bool forming = false;
    while (reader->Read(&response)) {
      current = link_.IsCurrent(response.term());
      if (!current) {
        context.TryCancel();
        break;
      }
      forming = response.has_forming();
      if (!response.forming().missing().empty()) {
        Say(Severity::kNotice, DescribeMissing(response.forming()));
      }
      if (response.has_formed()) membership = FromProto(response.formed());
    }
    const absl::Status status = rpc::FromGrpcStatus(reader->Finish());
    Publish(nullptr);
    if (!current) return absl::UnavailableError("another supervisor has taken over from this one");
    if (membership) return *membership;
    *waits = forming && absl::IsDeadlineExceeded(status);
    return status.ok() ? absl::UnavailableError("the supervisor ended the rendezvous without a group")
                       : status;
  }

  // A supervisor that has taken over may know nothing of what replicas alone can say: where this one is reached, and
  // that it re-scales in place. One that knows takes it for said. The stream of heartbeats tells of errors.
  void JoinAgain(const rpc::Endpoint& supervisor, const GroupMembership& member) {
    std::optional<std::string> address;
    {
      MutexLock lock(&mutex_);
      address = joined_as_;
    }
    if (!address.has_value()) return;
    grpc::ClientContext context;
    rpc::SetTimeout(&context, kAnswerTimeout);
    const v1::JoinGroupRequest request = link_.JoinRequest(member, *address, &context);
    if (!Publish(&context)) return;
    const std::unique_ptr<v1::ReplicaService::Stub> stub = SupervisorLink::StubOf(supervisor);
    const auto reader = stub->JoinGroup(&context, request);
    // Any answer says that it was heard; who else is there, it need not know.
    v1::JoinGroupResponse response;
    reader->Read(&response);
    context.TryCancel();
    reader->Finish();
    Publish(nullptr);
  }

  void SendHeartbeats() {
    JitteredBackoff backoff(link_.longest_pause());
    for (bool first = true;; first = false) {
      GroupMembership member = Member();
      const rpc::Endpoint supervisor = link_.current();
      rpc::AwaitConnection(supervisor.channel.get());
      if (!first) JoinAgain(supervisor, member);
      const absl::Status status = RunHeartbeatStream(supervisor, &member, &backoff);
      if (Ending()) return;
      if (Member().group != member.group) continue;
      if (SupervisorLink::IsFinal(status)) {
        if (AwaitNextGroup(member.group)) continue;
        if (!Ending()) observer_->OnFenced(std::string(status.message()));
        return;
      }
      link_.GoOnFrom(supervisor);
      // Training goes on without the supervisor, for as long as it is away.
      if (!Pause(backoff.Next())) return;
    }
  }

  bool Ending() {
    MutexLock lock(&mutex_);
    return stopping_;
  }

  // The supervisor has refused the replica as a member of `group`: because a newer one has begun to train,
  // in which the replica has a place that it is about to take? False: no.
  bool AwaitNextGroup(int64_t group) {
    MutexLock lock(&mutex_);
    const absl::Time deadline = SteadyNow() + kChangeGrace;
    while (!stopping_ && member_.group == group && !plans_.empty()) {
      // It has tried that one and asks for another: only a member of the present group is heard.
      const std::optional<int64_t> broken = reports_.broken_group();
      const auto tried = broken.has_value() ? plans_.find(*broken) : plans_.end();
      if (tried != plans_.end()) {
        BecomeMember(GroupMembership(tried->second));
        break;
      }
      const absl::Duration left = deadline - SteadyNow();
      if (left <= absl::ZeroDuration()) return false;
      changed_.WaitFor(&mutex_, left);
    }
    return !stopping_ && member_.group != group;
  }

  // Sends until the stream breaks. `member`: as whom it speaks, at first and in the end.
  absl::Status RunHeartbeatStream(const rpc::Endpoint& supervisor, GroupMembership* member,
                                  JitteredBackoff* backoff) {
    grpc::ClientContext context;
    v1::ReplicaIdentity identity;
    link_.Identify(*member, &context, &identity);
    if (!Publish(&context)) return absl::CancelledError("asked to stop");
    const std::unique_ptr<v1::ReplicaService::Stub> stub = SupervisorLink::StubOf(supervisor);
    std::unique_ptr<HeartbeatStream> stream = stub->Heartbeat(&context);
    {
      MutexLock lock(&mutex_);
      stream_ended_ = false;
      forsaken_ = false;
      unanswered_since_ = absl::InfiniteFuture();
      streaming_ = true;
      takes_reports_ = false;
      reports_.BeginStream();
      // EnterGroup() may have come before there was something to cancel.
      if (member_.group != member->group) context.TryCancel();
    }
    std::thread reader([this, &stream, backoff] { ReadCommands(stream.get(), backoff); });
    std::random_device random;
    bool writable = stream->Write(NextHeartbeat(&identity, member));
    // Members of a large group begin together, and so do all when a supervisor comes back: they must not go
    // on in step.
    double periods = std::uniform_real_distribution<double>()(random);
    while (writable && AwaitNextHeartbeat(std::exchange(periods, 1.0))) {
      writable = stream->Write(NextHeartbeat(&identity, member));
    }
    // The supervisor ends the stream once it has read the last heartbeat; Shutdown() waits for that, not for
    // long.
    if (writable && stream->Write(NextHeartbeat(&identity, member))) stream->WritesDone();
    reader.join();
    const absl::Status status = rpc::FromGrpcStatus(stream->Finish());
    Publish(nullptr);
    MutexLock lock(&mutex_);
    return forsaken_ ? absl::UnavailableError("the supervisor does not answer, or does not lead any more")
                     : status;
  }

  // From the group that the replica has entered on, `identity` and `speaker` are that one's.
  v1::HeartbeatRequest NextHeartbeat(v1::ReplicaIdentity* identity, GroupMembership* speaker) {
    v1::HeartbeatRequest request;
    request.set_omit_members(true);
    *request.mutable_activity() = ToProto(observer_->CurrentActivity());
    const std::vector<ReportedMetric> metrics = observer_->LatestMetrics();
    MutexLock lock(&mutex_);
    if (const GroupMembership* group = reports_.entered()) {
      *speaker = *group;
      identity->set_group(group->group);
    }
    *request.mutable_identity() = *identity;
    if (progress_) *request.mutable_progress() = ToProto(*progress_, metrics);
    reports_.FillIn(/*leads=*/member_.rank == 0, &request);
    request.set_acknowledged_command_id(acknowledged_);
    if (link_.several()) unanswered_since_ = std::min(unanswered_since_, SteadyNow());
    return request;
  }

  // So many periods after the last one. False: the stream is broken, or it is time to end.
  bool AwaitNextHeartbeat(double periods) {
    MutexLock lock(&mutex_);
    const absl::Time start = SteadyNow();
    // The period may change meanwhile: the first answer tells it.
    while (!stream_ended_ && !stopping_ && !hastened_) {
      const absl::Time now = SteadyNow();
      if (now >= unanswered_since_ + kAnswerTimeout) {
        Forsake();
        return false;
      }
      const absl::Time due = start + periods * period_;
      if (now >= due) break;
      const absl::Duration left = std::min(due, unanswered_since_ + kAnswerTimeout) - now;
      changed_.WaitFor(&mutex_, left);
    }
    hastened_ = false;
    return !stream_ended_ && !stopping_;
  }

  // Leaves the supervisor for another one.
  void Forsake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    forsaken_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }

  // The next heartbeat goes out at once.
  void Hasten() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    hastened_ = true;
    changed_.SignalAll();
  }

  void ReadCommands(HeartbeatStream* stream, JitteredBackoff* backoff) {
    v1::HeartbeatResponse response;
    while (stream->Read(&response)) {
      if (!link_.IsCurrent(response.term())) {
        MutexLock lock(&mutex_);
        Forsake();
        break;
      }
      backoff->Reset();
      bool is_new = false;
      {
        MutexLock lock(&mutex_);
        unanswered_since_ = absl::InfiniteFuture();
        takes_reports_ = response.takes_reports();
        reports_.Acknowledge(response.acknowledged_report_id());
        if (response.has_period()) {
          period_ = std::clamp(
              absl::Seconds(response.period().seconds()) + absl::Nanoseconds(response.period().nanos()),
              absl::Milliseconds(10), absl::Minutes(1));
          changed_.SignalAll();
        }
        is_new = response.command_id() > acknowledged_ || response.has_plan();
      }
      if (is_new) CarryOut(response);
    }
    MutexLock lock(&mutex_);
    stream_ended_ = true;
    streaming_ = false;
    changed_.SignalAll();
  }

  void CarryOut(const v1::HeartbeatResponse& response) {
    switch (response.command()) {
      case v1::REPLICA_COMMAND_CHECKPOINT:
        observer_->OnCheckpointCommand(response.reason());
        break;
      case v1::REPLICA_COMMAND_STOP:
        observer_->OnStopCommand(response.reason());
        break;
      case v1::REPLICA_COMMAND_RESCALE:
        if (!NotePlan(response)) return;
        break;
      default:
        return;
    }
    MutexLock lock(&mutex_);
    acknowledged_ = std::max(acknowledged_, response.command_id());
    Hasten();
  }

  // Plans are told apart by their groups: after a restart the supervisor numbers its commands anew. False:
  // nothing new.
  bool NotePlan(const v1::HeartbeatResponse& response) {
    GroupPlan plan;
    plan.next = FromProto(response.plan().formed());
    plan.reason = response.reason();
    plan.broken = response.plan().broken();
    {
      MutexLock lock(&mutex_);
      if (plan.next.group <= std::max(newest_plan_, member_.group))
        return response.command_id() > acknowledged_;
      newest_plan_ = plan.next.group;
      if (!plan.leaves()) plans_[plan.next.group] = plan.next;
    }
    observer_->OnPlan(plan);
    return true;
  }

  SupervisorLink link_;
  ControlObserver* observer_ = nullptr;
  std::thread heartbeats_;

  Mutex mutex_;
  CondVar changed_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool stream_ended_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether the next heartbeat is due before its time.
  bool hastened_ ABSL_GUARDED_BY(mutex_) = false;
  // From the beginning of a heartbeat stream until the supervisor has ended it.
  bool streaming_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether the heartbeat stream was ended for the sake of another supervisor, and since when a heartbeat of
  // it waits for an answer.
  bool forsaken_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time unanswered_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  // The call under way that is to be cancelled when it is time to end.
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Duration period_ ABSL_GUARDED_BY(mutex_) = kDefaultHeartbeatPeriod;
  // The group that it calls as a member of; at first the one that it was started for.
  GroupMembership member_ ABSL_GUARDED_BY(mutex_);
  // The address that it has joined with. Nothing: it has not.
  std::optional<std::string> joined_as_ ABSL_GUARDED_BY(mutex_);
  // Newer groups in which it was offered a place, and the newest that it was told of at all.
  std::map<int64_t, GroupMembership> plans_ ABSL_GUARDED_BY(mutex_);
  int64_t newest_plan_ ABSL_GUARDED_BY(mutex_) = 0;
  // Whether the supervisor has said over the present stream that it knows HeartbeatRequest.entered_group.
  bool takes_reports_ ABSL_GUARDED_BY(mutex_) = false;
  PendingReports reports_ ABSL_GUARDED_BY(mutex_);
  std::optional<Progress> progress_ ABSL_GUARDED_BY(mutex_);
  int64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<ControlPlane> CreateGrpcControlPlane(const GrpcControlPlaneOptions& options) {
  return std::make_unique<GrpcControlPlane>(options);
}

}  // namespace adaptdl::elastic
