#include "bench/load/played_replica.h"

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/load/played_training.h"
#include "libs/rpc/channel.h"

namespace adaptdl::load {

// The JoinGroup call.
class PlayedReplica::Rendezvous final : public grpc::ClientReadReactor<v1::JoinGroupResponse> {
 public:
  explicit Rendezvous(PlayedReplica* replica) : replica_(replica) {
    context_.AddMetadata("authorization", replica->authorization_);
    *request_.mutable_identity() = replica->identity_;
    request_.set_address("127.0.0.1:1");
    request_.set_rescales_in_place(true);
    request_.set_omit_members(true);
    replica_->stub_->async()->JoinGroup(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    formed_ = response_.has_formed();
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    if (status.ok() && formed_) {
      replica_->OnFormed();
    } else {
      replica_->Lost("rendezvous", status);
    }
  }

 private:
  PlayedReplica* const replica_;
  grpc::ClientContext context_;
  v1::JoinGroupRequest request_;
  v1::JoinGroupResponse response_;
  bool formed_ = false;
};

PlayedReplica::PlayedReplica(Crowd* crowd, const v1::LaunchReplica& launch)
    : crowd_(crowd),
      leads_(launch.rank() == 0),
      stub_(v1::ReplicaService::NewStub(crowd->connect(Caller::kReplica))),
      authorization_(absl::StrCat("Bearer ", launch.token())) {
  identity_.set_namespace_(launch.namespace_());
  identity_.set_job(launch.job());
  identity_.set_replica_id(launch.replica_id());
  identity_.set_group(launch.group());
}

void PlayedReplica::Join(std::function<void()> formed) {
  formed_ = std::move(formed);
  rendezvous_ = std::make_unique<Rendezvous>(this);
}

void PlayedReplica::OnFormed() {
  ++crowd_->replicas_formed;
  if (formed_) formed_();
  context_.AddMetadata("authorization", authorization_);
  *out_.mutable_identity() = identity_;
  out_.set_omit_members(true);
  stub_->async()->Heartbeat(&context_, this);
  {
    // As the library does: members that begin together do not go on in step.
    MutexLock lock(&mutex_);
    periods_ = static_cast<double>(std::hash<std::string>{}(identity_.replica_id()) % 1000) / 1000.0;
  }
  Beat();
  StartCall();
  // Jobs do not speak in step.
  if (leads_) {
    crowd_->timer.After(crowd_->hints_period * (std::hash<std::string>{}(identity_.job()) % 1000) / 1000.0,
                        [this] { ReportHints(); });
  }
}

void PlayedReplica::Beat() {
  {
    MutexLock lock(&mutex_);
    open_ = 2;
    beat_time_ = absl::Now();
  }
  if (leads_) PlayProgress(identity_.job(), out_.mutable_progress());
  StartRead(&in_);
  StartWrite(&out_);
}

void PlayedReplica::OnReadDone(bool ok) {
  if (!ok) return;
  {
    MutexLock lock(&mutex_);
    crowd_->heartbeats.Add(absl::Now() - beat_time_);
  }
  HalfDone();
}

void PlayedReplica::OnWriteDone(bool ok) {
  if (ok) HalfDone();
}

void PlayedReplica::HalfDone() {
  MutexLock lock(&mutex_);
  if (--open_ > 0) return;
  const double periods = std::exchange(periods_, 1.0);
  crowd_->timer.At(beat_time_ + periods * crowd_->heartbeat_period, [this] {
    if (!crowd_->ending) Beat();
  });
}

void PlayedReplica::ReportHints() {
  if (crowd_->ending) return;
  struct Call {
    grpc::ClientContext context;
    v1::ReportHintsRequest request;
    v1::ReportHintsResponse response;
  };
  const auto call = std::make_shared<Call>();
  call->context.AddMetadata("authorization", authorization_);
  rpc::SetTimeout(&call->context, absl::Seconds(10));
  *call->request.mutable_identity() = identity_;
  *call->request.mutable_hints() = crowd_->hints(identity_.job());
  stub_->async()->ReportHints(&call->context, &call->request, &call->response,
                              [this, call](const grpc::Status& status) {
                                if (!status.ok()) return Lost("hints", status);
                                ++crowd_->hints_taken;
                              });
  crowd_->timer.After(crowd_->hints_period, [this] { ReportHints(); });
}

void PlayedReplica::OnDone(const grpc::Status& status) { Lost("heartbeats", status); }

void PlayedReplica::Lost(const char* what, const grpc::Status& status) {
  if (crowd_->ending) return;
  ++crowd_->dropped;
  std::fprintf(stderr, "replica %s: its %s ended: %s\n", identity_.replica_id().c_str(), what,
               status.error_message().c_str());
}

}  // namespace adaptdl::load
