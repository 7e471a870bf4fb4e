#include "services/supervisor/replicas/replica_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/base/mutex.h"
#include "libs/base/utf8.h"
#include "libs/rpc/status.h"
#include "services/supervisor/calls/pull_reactor.h"
#include "services/supervisor/calls/unary.h"
#include "services/supervisor/calls/validation.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// Bytes of what a replica says about a broken group.
constexpr size_t kMaxReason = 1000;

// What follows "Bearer " in the call's metadata; empty if there is none.
std::string BearerToken(const grpc::CallbackServerContext& context) {
  const auto it = context.client_metadata().find("authorization");
  if (it == context.client_metadata().end()) return "";
  absl::string_view value(it->second.data(), it->second.length());
  return absl::ConsumePrefix(&value, "Bearer ") ? std::string(value) : "";
}

// Tells a member who is missing, and at last how the group looks.
class JoinStream final : public PullReactor<v1::JoinGroupResponse>, public ChangeListener {
 public:
  JoinStream(const ReplicaServiceParts& parts, bool omit_members)
      : PullReactor(parts.lanes->changes, parts.lanes->durability),
        parts_(parts),
        omit_members_(omit_members) {}

  // The replica has shown who it is, and has joined.
  void Joined(ReplicaContext replica) {
    {
      MutexLock lock(&mutex_);
      replica_ = std::move(replica);
    }
    Poke();
  }

  void OnChanges(const Changes& /*changes*/) override { Poke(); }

 protected:
  Pull Next(v1::JoinGroupResponse* message, grpc::Status* end) override {
    if (formed_) {
      *end = grpc::Status::OK;
      return Pull::kEnd;
    }
    std::optional<ReplicaContext> replica;
    {
      MutexLock lock(&mutex_);
      replica = replica_;
    }
    if (!replica.has_value()) return Pull::kWait;
    absl::StatusOr<v1::JoinGroupResponse> view =
        parts_.membership->DescribeRendezvous(*replica, omit_members_);
    if (!view.ok()) {
      *end = rpc::ToGrpcStatus(parts_.core->UnavailableUnlessLeading(view.status()));
      return Pull::kEnd;
    }
    formed_ = view->has_formed();
    if (!formed_) {
      if (google::protobuf::util::MessageDifferencer::Equals(*view, last_)) return Pull::kWait;
      last_ = *view;
    }
    *message = *std::move(view);
    message->set_term(parts_.core->term());
    return Pull::kMessage;
  }

 private:
  const ReplicaServiceParts parts_;
  const bool omit_members_;
  Mutex mutex_;
  std::optional<ReplicaContext> replica_ ABSL_GUARDED_BY(mutex_);
  // Used in Next() only: what was said last, and whether it was all that there is to say.
  v1::JoinGroupResponse last_;
  bool formed_ = false;
};

// While the state is at work on a message, which may wait for its disk, those that come are answered all the
// same, and the newest of them is the next one that it gets: each says all that the ones before it said.
class HeartbeatStream final : public grpc::ServerBidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse>,
                              public ReplicaStream,
                              public EndableStream {
 public:
  HeartbeatStream(const ReplicaServiceParts& parts, std::string token)
      : parts_(parts), token_(std::move(token)) {}

  void Begin(const std::string& host) {
    self_ = Self();
    EnterAsStranger(parts_.strangers, host, this);
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    // From now on it is known who speaks, or the stream ends.
    if (!std::exchange(heard_, true)) parts_.strangers->Leave(static_cast<EndableStream*>(this));
    if (!ok) {
      EndOfMessages();
      return;
    }
    bool begin = false;
    {
      MutexLock lock(&mutex_);
      if (handling_) {
        NoteMeanwhile();
      } else {
        begin = handling_ = true;
        request_ = std::move(incoming_);
        arrived_ = parts_.core->Now();
      }
      incoming_.Clear();
      // Under the lock: no stream is read from after its end.
      if (!ending_) StartRead(&incoming_);
    }
    if (begin) HandleRequests();
    Write();
  }

  void Poke() override {
    {
      MutexLock lock(&mutex_);
      answer_due_ = true;
    }
    Write();
  }
  void End(const absl::Status& why) override { End(rpc::ToGrpcStatus(why)); }
  void End(const grpc::Status& status) override {
    {
      MutexLock lock(&mutex_);
      if (!ending_) end_status_ = status;
      ending_ = true;
    }
    Write();
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(&mutex_);
      writing_ = false;
      ending_ = ending_ || !ok;
    }
    Write();
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override {
    parts_.strangers->Leave(static_cast<EndableStream*>(this));
    if (!replica_.replica_id.empty()) parts_.sessions->Detach(replica_.replica_id, this);
    const std::shared_ptr<HeartbeatStream> self = std::move(self_);
  }

 private:
  std::shared_ptr<HeartbeatStream> Self() {
    return std::static_pointer_cast<HeartbeatStream>(shared_from_this());
  }

  // The replica sends no more. What it has sent before is judged first.
  void EndOfMessages() {
    {
      MutexLock lock(&mutex_);
      closed_ = true;
      if (handling_) return;  // Proceed() ends the stream.
    }
    End(grpc::Status::OK);
  }

  // Whether the message is more than a sign of life.
  bool NeedsState() const {
    return replica_.replica_id.empty() || request_.has_broken() || request_.has_rescale() ||
           request_.has_checkpoint() || (request_.has_progress() && !trains_);
  }

  // A sign of life, whatever the state is doing.
  void NoteMeanwhile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    next_ = std::move(incoming_);
    next_arrived_ = parts_.core->Now();
    if (!attached_) return;
    v1::HeartbeatRequest sign;
    *sign.mutable_activity() = next_->activity();
    sign.set_acknowledged_command_id(next_->acknowledged_command_id());
    parts_.sessions->Heard(replica_.replica_id, replica_.job_uid, sign, next_arrived_);
    answer_due_ = true;
  }

  // By whoever has set handling_: until there is none left, or one of them is for the executor.
  void HandleRequests() {
    do {
      if (NeedsState()) {
        parts_.lanes->changes->Post([this, self = Self()] {
          const absl::Status status = GuardedHandle();
          const auto proceed = [this, self, status] {
            if (Proceed(status)) HandleRequests();
          };
          // Whoever is sent away is so for good.
          status.ok() ? proceed() : parts_.lanes->durability->WhenDurable(proceed);
        });
        return;
      }
    } while (Proceed(GuardedHandle()));
  }

  // The message was dealt with: answers it. Whether there is another one.
  bool Proceed(const absl::Status& status) {
    bool more = false;
    {
      MutexLock lock(&mutex_);
      answer_due_ = true;
      attached_ = !replica_.replica_id.empty();
      if (!status.ok() && !ending_) {
        ending_ = true;
        end_status_ = rpc::ToGrpcStatus(parts_.core->UnavailableUnlessLeading(status));
      }
      more = handling_ = next_.has_value() && !ending_;
      ending_ = ending_ || (closed_ && !more);
      if (more) {
        request_ = *std::move(next_);
        arrived_ = next_arrived_;
      }
      next_.reset();
    }
    Write();
    return more;
  }

  absl::Status GuardedHandle() {
    return parts_.lanes->invariants()->Guard("Heartbeat", [this] { return Handle(); });
  }

  absl::Status Handle() {
    if (replica_.replica_id.empty()) {
      const absl::Status status = Attach();
      if (!status.ok()) return status;
    }
    if (request_.has_progress()) {
      if (!leads_) request_.clear_progress();
      const absl::Status status = ValidateProgress(request_.progress());
      if (!status.ok()) {
        parts_.reports->NoteRefused(replica_, "progress", status);
        return status;
      }
    }
    if (const absl::Status status = HandleRescale(); !status.ok()) return status;
    if (const absl::Status status = HandleCheckpoint(); !status.ok()) return status;
    if (request_.has_progress() && !trains_) {
      // Once per stream: heartbeats leave the state alone otherwise.
      const absl::Status status = parts_.reports->ObserveTraining(replica_);
      if (absl::IsAborted(status)) return status;
      trains_ = status.ok();
    }
    parts_.sessions->Heard(replica_.replica_id, replica_.job_uid, request_, arrived_);
    if (Metrics* metrics = parts_.core->metrics()) metrics->CountReplicaHeartbeat();
    return absl::OkStatus();
  }

  // Once per group: heartbeats leave the state alone otherwise.
  absl::Status HandleRescale() {
    if (request_.has_broken() && request_.broken().group() != broken_group_) {
      broken_group_ = request_.broken().group();
      const absl::Status status = parts_.reports->ObserveBroken(
          replica_, broken_group_, ToUtf8(request_.broken().reason(), kMaxReason));
      if (!status.ok()) return status;
    }
    if (leads_ && request_.has_rescale() && request_.rescale().group() != timed_group_) {
      timed_group_ = request_.rescale().group();
      return parts_.reports->ObserveRescale(replica_, request_.rescale());
    }
    return absl::OkStatus();
  }

  // Once per error: heartbeats leave the state alone otherwise.
  absl::Status HandleCheckpoint() {
    if (!leads_ || !request_.has_checkpoint()) return absl::OkStatus();
    if (checkpoint_error_ == request_.checkpoint().error()) return absl::OkStatus();
    const absl::Status status = parts_.reports->ObserveCheckpoint(replica_, request_.checkpoint());
    if (status.ok()) checkpoint_error_ = request_.checkpoint().error();
    return status;
  }

  absl::Status Attach() {
    absl::StatusOr<ReplicaContext> replica = parts_.membership->Authorize(request_.identity(), token_);
    if (!replica.ok()) return replica.status();
    {
      MutexLock lock(&mutex_);
      replica_ = *std::move(replica);
      omit_members_ = request_.omit_members();
    }
    parts_.sessions->Attach(replica_.replica_id, Self());
    // Commands get larger numbers than the replica knows.
    v1::HeartbeatRequest acknowledgement;
    acknowledgement.set_acknowledged_command_id(request_.acknowledged_command_id());
    parts_.sessions->Heard(replica_.replica_id, replica_.job_uid, acknowledgement, arrived_);
    // Its group may have ended since we looked, and then nobody would end this stream.
    const absl::StatusOr<Instructions> orders = parts_.membership->Attach(replica_, !request_.has_broken());
    if (!orders.ok()) {
      parts_.sessions->Forget(replica_.replica_id, orders.status());
      return orders.status();
    }
    leads_ = orders->leads;
    parts_.lanes->durability->WhenDurable(
        [sessions = parts_.sessions, id = replica_.replica_id, orders = *std::move(orders)] {
          if (orders.stop) {
            sessions->Command(id, v1::REPLICA_COMMAND_STOP, "the group is being stopped");
          } else if (orders.plan.has_value()) {
            sessions->Command(id, v1::REPLICA_COMMAND_RESCALE, orders.reason, *orders.plan);
          }
        });
    return absl::OkStatus();
  }

  void Write() {
    MutexLock lock(&mutex_);
    if (writing_ || finished_) return;
    if (ending_) {
      if (handling_) return;  // Proceed() comes back here.
      finished_ = true;
      Finish(end_status_);
    } else if (answer_due_ && !replica_.replica_id.empty()) {
      answer_due_ = false;
      writing_ = true;
      response_ = parts_.sessions->Pending(replica_.replica_id);
      if (omit_members_ && response_.has_plan()) response_.mutable_plan()->mutable_formed()->clear_members();
      *response_.mutable_period() = ToProto(parts_.heartbeat_period);
      response_.set_term(parts_.core->term());
      StartWrite(&response_);
    }
  }

  const ReplicaServiceParts parts_;
  const std::string token_;
  std::shared_ptr<HeartbeatStream> self_;
  // Whether anything has been read; what is being read, and what is being handled.
  bool heard_ = false;
  v1::HeartbeatRequest incoming_;
  v1::HeartbeatRequest request_;
  absl::Time arrived_;
  // Set once, by the first message.
  ReplicaContext replica_;
  // Used by whoever handles a message, one at a time: whether the replica is the one whose progress counts,
  // whether the state knows that the group trains, and the groups of what was told to it last.
  bool leads_ = false;
  bool trains_ = false;
  int64_t broken_group_ = 0;
  int64_t timed_group_ = 0;
  // Of the latest checkpoint, as the state has it. Nothing: it has not been told over this stream.
  std::optional<std::string> checkpoint_error_;

  Mutex mutex_;
  // What the first message asked for.
  bool omit_members_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether somebody works on request_, and the newest message that came meanwhile.
  bool handling_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether there are no further messages.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<v1::HeartbeatRequest> next_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_arrived_ ABSL_GUARDED_BY(mutex_);
  // Whether the first message was dealt with.
  bool attached_ ABSL_GUARDED_BY(mutex_) = false;
  bool answer_due_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_status_ ABSL_GUARDED_BY(mutex_);
  v1::HeartbeatResponse response_;
};

}  // namespace

grpc::ServerWriteReactor<v1::JoinGroupResponse>* ReplicaServiceImpl::JoinGroup(
    grpc::CallbackServerContext* context, const v1::JoinGroupRequest* request) {
  auto stream = std::make_shared<JoinStream>(parts_, request->omit_members());
  stream->Begin(stream);
  parts_.lanes->changes->Post([this, stream, request = *request, token = BearerToken(*context)] {
    const auto join = [&]() -> absl::StatusOr<ReplicaContext> {
      absl::StatusOr<ReplicaContext> replica = parts_.membership->Authorize(request.identity(), token);
      if (!replica.ok()) return replica;
      parts_.hub->SubscribeToJob(replica->job_uid, std::static_pointer_cast<ChangeListener>(stream));
      const absl::Status status =
          parts_.membership->Join(*replica, request.address(), request.rescales_in_place());
      if (!status.ok()) return status;
      return replica;
    };
    absl::StatusOr<ReplicaContext> replica = parts_.lanes->invariants()->Guard("JoinGroup", join);
    if (replica.ok()) {
      stream->Joined(*std::move(replica));
    } else {
      stream->End(rpc::ToGrpcStatus(parts_.core->UnavailableUnlessLeading(replica.status())));
    }
  });
  parts_.streams->Add(stream);
  return stream.get();
}

grpc::ServerBidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse>* ReplicaServiceImpl::Heartbeat(
    grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<HeartbeatStream>(parts_, BearerToken(*context));
  stream->Begin(HostOf(context->peer()));
  parts_.streams->Add(stream);
  return stream.get();
}

grpc::ServerUnaryReactor* ReplicaServiceImpl::ReportHints(grpc::CallbackServerContext* context,
                                                          const v1::ReportHintsRequest* request,
                                                          v1::ReportHintsResponse* response) {
  const auto report = [this, request,
                       token = BearerToken(*context)]() -> absl::StatusOr<v1::ReportHintsResponse> {
    const absl::StatusOr<ReplicaContext> replica = parts_.membership->Authorize(request->identity(), token);
    absl::Status status = replica.status();
    if (status.ok()) status = parts_.reports->ReportHints(*replica, request->hints());
    if (!status.ok()) return parts_.core->UnavailableUnlessLeading(status);
    return v1::ReportHintsResponse();
  };
  return Answer(parts_.lanes, context, report, response);
}

}  // namespace adaptdl::supervisor
