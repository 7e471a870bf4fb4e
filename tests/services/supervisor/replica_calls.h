// The calls of a replica, one object per stream.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_REPLICA_CALLS_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_REPLICA_CALLS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {

// A JoinGroup call.
class Join {
 public:
  Join(v1::ReplicaService::Stub* stub, const v1::ReplicaIdentity& identity, const std::string& token,
       const std::string& address, bool rescales_in_place = false, bool omit_members = false) {
    SetDeadline(&context_);
    context_.AddMetadata("authorization", "Bearer " + token);
    v1::JoinGroupRequest request;
    *request.mutable_identity() = identity;
    request.set_address(address);
    request.set_rescales_in_place(rescales_in_place);
    request.set_omit_members(omit_members);
    stream_ = stub->JoinGroup(&context_, request);
  }
  ~Join() {
    context_.TryCancel();
    End();
  }
  v1::JoinGroupResponse Next() {
    v1::JoinGroupResponse response;
    stream_->Read(&response);
    return response;
  }
  v1::GroupFormed Formed() {
    v1::JoinGroupResponse response;
    while (stream_->Read(&response)) {
      if (response.has_formed()) return response.formed();
    }
    ADD_FAILURE() << "the group did not form";
    return {};
  }
  grpc::Status End() {
    if (stream_ == nullptr) return grpc::Status::OK;
    v1::JoinGroupResponse ignored;
    while (stream_->Read(&ignored)) {
    }
    const grpc::Status status = stream_->Finish();
    stream_ = nullptr;
    return status;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::JoinGroupResponse>> stream_;
};

// A Heartbeat call.
class Heart {
 public:
  Heart(v1::ReplicaService::Stub* stub, const v1::ReplicaIdentity& identity, const std::string& token)
      : identity_(identity) {
    SetDeadline(&context_);
    context_.AddMetadata("authorization", "Bearer " + token);
    stream_ = stub->Heartbeat(&context_);
  }
  ~Heart() {
    context_.TryCancel();
    End();
  }
  void Beat(double fraction = -1, int64_t acknowledged = 0) {
    v1::HeartbeatRequest request;
    *request.mutable_identity() = identity_;
    request.mutable_progress()->set_fraction(fraction);
    request.mutable_progress()->set_optimizer_steps(static_cast<int64_t>(fraction * 1000) + 1000);
    request.set_acknowledged_command_id(acknowledged);
    stream_->Write(request);
  }
  void BeatWithoutProgress() {
    v1::HeartbeatRequest request;
    *request.mutable_identity() = identity_;
    stream_->Write(request);
  }
  void Send(v1::HeartbeatRequest request) {
    *request.mutable_identity() = identity_;
    stream_->Write(request);
  }
  void Acknowledge(int64_t command_id) {
    v1::HeartbeatRequest request;
    request.set_acknowledged_command_id(command_id);
    Send(request);
  }
  void Broken(int64_t group) {
    v1::HeartbeatRequest request;
    request.mutable_broken()->set_group(group);
    Send(request);
  }
  v1::HeartbeatResponse Next() {
    v1::HeartbeatResponse response;
    stream_->Read(&response);
    return response;
  }
  v1::HeartbeatResponse NextCommand() {
    v1::HeartbeatResponse response;
    while (stream_->Read(&response)) {
      if (response.command() != v1::REPLICA_COMMAND_NONE) return response;
    }
    ADD_FAILURE() << "no command came";
    return {};
  }
  // The first answer that acknowledges the report.
  v1::HeartbeatResponse NextAcknowledged(int64_t report_id) {
    v1::HeartbeatResponse response;
    while (stream_->Read(&response)) {
      if (response.acknowledged_report_id() >= report_id) return response;
    }
    ADD_FAILURE() << "report " << report_id << " was not acknowledged";
    return {};
  }
  // Says no more. How the stream ended, once all that was said was heard.
  grpc::Status Close() {
    stream_->WritesDone();
    return End();
  }
  grpc::Status End() {
    if (stream_ == nullptr) return grpc::Status::OK;
    v1::HeartbeatResponse ignored;
    while (stream_->Read(&ignored)) {
    }
    const grpc::Status status = stream_->Finish();
    stream_ = nullptr;
    return status;
  }

 private:
  const v1::ReplicaIdentity identity_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::HeartbeatRequest, v1::HeartbeatResponse>> stream_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_REPLICA_CALLS_H_
