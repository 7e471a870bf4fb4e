#include "services/supervisor/replicas/replica_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/base/mutex.h"
#include "libs/base/utf8.h"
#include "libs/rpc/status.h"
#include "services/supervisor/calls/bidi_reactor.h"
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
class HeartbeatStream final : public BidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse>,
                              public ReplicaStream {
 public:
  HeartbeatStream(const ReplicaServiceParts& parts, std::string token)
      : BidiReactor("Heartbeat", parts.core, parts.lanes, parts.strangers),
        parts_(parts),
        token_(std::move(token)) {}

  void Poke() override {
    {
      MutexLock lock(&mutex_);
      answer_due_ = true;
    }
    Write();
  }
  using BidiReactor::End;
  void End(const absl::Status& why) override { BidiReactor::End(rpc::ToGrpcStatus(why)); }

 protected:
  void Arrived(Message message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    waiting_.clear();
    if (handling() && attached_) NoteSignOfLife(message);
    waiting_.push_back(std::move(message));
  }

  // Whether the message is more than a sign of life.
  bool NeedsState(const v1::HeartbeatRequest& request) const override {
    return replica_.replica_id.empty() || request.has_broken() || request.has_rescale() ||
           request.has_checkpoint() || request.has_entered_group() || (request.has_progress() && !trains_);
  }

  absl::Status Handle(const Message& message) override {
    v1::HeartbeatRequest request = message.request;
    const bool enters = request.entered_group().group() > replica_.group;
    if (replica_.replica_id.empty() || enters) {
      if (const absl::Status status = Attach(request, message.arrived); !status.ok()) return status;
    }
    if (request.has_progress()) {
      if (!leads_) request.clear_progress();
      const absl::Status status = ValidateProgress(request.progress());
      if (!status.ok()) {
        parts_.reports->NoteRefused(replica_, "progress", status);
        return status;
      }
    }
    if (const absl::Status status = HandleReports(request); !status.ok()) return status;
    if (request.has_progress() && !trains_) {
      // Once per group: heartbeats leave the state alone otherwise.
      const absl::Status status = parts_.reports->ObserveTraining(replica_);
      if (absl::IsAborted(status)) return status;
      trains_ = status.ok();
    }
    parts_.sessions->Heard(replica_.replica_id, replica_.job_uid, request, message.arrived);
    if (Metrics* metrics = parts_.core->metrics()) metrics->CountReplicaHeartbeat();
    return absl::OkStatus();
  }

  void Handled() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    answer_due_ = true;
    attached_ = !replica_.replica_id.empty();
  }

  bool NextResponse(v1::HeartbeatResponse* response) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!answer_due_ || replica_id_.empty()) return false;
    answer_due_ = false;
    *response = parts_.sessions->Pending(replica_id_);
    if (omit_members_ && response->has_plan()) response->mutable_plan()->mutable_formed()->clear_members();
    *response->mutable_period() = ToProto(parts_.heartbeat_period);
    response->set_term(parts_.core->term());
    response->set_acknowledged_report_id(acknowledged_report_);
    response->set_takes_reports(true);
    return true;
  }

  void OnEnd() override {
    if (!replica_.replica_id.empty()) parts_.sessions->Detach(replica_.replica_id, this);
  }

 private:
  std::shared_ptr<HeartbeatStream> Self() {
    return std::static_pointer_cast<HeartbeatStream>(shared_from_this());
  }

  // Whatever the state is doing.
  void NoteSignOfLife(const Message& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    v1::HeartbeatRequest sign;
    *sign.mutable_activity() = message.request.activity();
    sign.set_acknowledged_command_id(message.request.acknowledged_command_id());
    parts_.sessions->Heard(replica_id_, job_uid_, sign, message.arrived);
    answer_due_ = true;
  }

  // Deals with what is reported, once: heartbeats leave the state alone otherwise.
  absl::Status HandleReports(const v1::HeartbeatRequest& request) {
    if (!HasNews(request)) return absl::OkStatus();
    if (request.has_broken()) {
      const absl::Status status = parts_.reports->ObserveBroken(
          replica_, request.broken().group(), ToUtf8(request.broken().reason(), kMaxReason));
      if (!status.ok()) return status;
    }
    if (leads_ && request.has_rescale()) {
      const absl::Status status = parts_.reports->ObserveRescale(replica_, request.rescale());
      if (!status.ok()) return status;
    }
    if (leads_ && request.has_checkpoint()) {
      const absl::Status status = parts_.reports->ObserveCheckpoint(replica_, request.checkpoint());
      if (!status.ok()) return status;
    }
    Acknowledge(request.report_id());
    return absl::OkStatus();
  }

  // Whether the message reports something that was not dealt with. Older replicas do not number their reports,
  // and say the last ones again and again: others are news.
  bool HasNews(const v1::HeartbeatRequest& request) {
    if (request.report_id() > 0) return request.report_id() > std::exchange(report_, request.report_id());
    v1::HeartbeatRequest reports;
    if (request.has_broken()) reports.mutable_broken()->set_group(request.broken().group());
    if (request.has_rescale()) reports.mutable_rescale()->set_group(request.rescale().group());
    if (request.has_checkpoint()) reports.mutable_checkpoint()->set_error(request.checkpoint().error());
    std::string text = reports.SerializeAsString();
    const bool news = text != older_reports_;
    older_reports_ = std::move(text);
    return news;
  }

  // With the next answer, once what was reported can't be lost.
  void Acknowledge(int64_t report_id) {
    if (report_id == 0) return;
    parts_.lanes->durability->WhenDurable([self = Self(), report_id] {
      {
        MutexLock lock(&self->mutex_);
        self->acknowledged_report_ = report_id;
        self->answer_due_ = true;
      }
      self->Write();
    });
  }

  // The replica speaks for its group: for the first time, or for another one than before.
  absl::Status Attach(const v1::HeartbeatRequest& request, absl::Time arrived) {
    v1::ReplicaIdentity identity = request.identity();
    if (request.has_entered_group()) identity.set_group(request.entered_group().group());
    absl::StatusOr<ReplicaContext> replica = parts_.membership->Authorize(
        identity, request.has_entered_group() ? request.entered_group().token() : token_);
    if (!replica.ok()) return replica.status();
    const bool first = replica_.replica_id.empty();
    if (!first && (replica->replica_id != replica_.replica_id || replica->job_uid != replica_.job_uid)) {
      return absl::InvalidArgumentError(absl::StrCat("identity.replica_id: the stream is that of \"",
                                                     replica_.replica_id,
                                                     "\", and nobody else's; open another stream"));
    }
    replica_ = *std::move(replica);
    trains_ = false;
    if (first) {
      MutexLock lock(&mutex_);
      replica_id_ = replica_.replica_id;
      job_uid_ = replica_.job_uid;
      omit_members_ = request.omit_members();
    }
    if (first) parts_.sessions->Attach(replica_.replica_id, Self());
    // Commands get larger numbers than the replica knows.
    v1::HeartbeatRequest acknowledgement;
    acknowledgement.set_acknowledged_command_id(request.acknowledged_command_id());
    parts_.sessions->Heard(replica_.replica_id, replica_.job_uid, acknowledgement, arrived);
    // Its group may have ended since we looked, and then nobody would end this stream.
    const absl::StatusOr<Instructions> orders = parts_.membership->Attach(replica_, !request.has_broken());
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

  const ReplicaServiceParts parts_;
  const std::string token_;
  // Used by whoever deals with a message, one at a time: who speaks, for which group; whether it is the replica
  // whose progress counts; whether the state knows that the group trains; and what was reported last.
  ReplicaContext replica_;
  bool leads_ = false;
  bool trains_ = false;
  int64_t report_ = 0;
  std::string older_reports_;

  // Set by the first message: who speaks, and what it asked for.
  std::string replica_id_ ABSL_GUARDED_BY(mutex_);
  std::string job_uid_ ABSL_GUARDED_BY(mutex_);
  bool omit_members_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether the first message was dealt with.
  bool attached_ ABSL_GUARDED_BY(mutex_) = false;
  bool answer_due_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t acknowledged_report_ ABSL_GUARDED_BY(mutex_) = 0;
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
  stream->Begin(service::HostOf(context->peer()));
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
