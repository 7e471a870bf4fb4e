#include "bench/load/played_node.h"

#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "libs/base/random_id.h"
#include "libs/rpc/channel.h"

namespace adaptdl::load {

PlayedNode::PlayedNode(Crowd* crowd, std::string id)
    : crowd_(crowd), id_(std::move(id)), stub_(v1::NodeService::NewStub(crowd->connect(Caller::kNode))) {}

grpc::Status PlayedNode::Start(int cpu_millis) {
  grpc::ClientContext context;
  rpc::SetTimeout(&context, absl::Minutes(2));
  v1::RegisterNodeRequest request;
  request.set_request_id(RandomHex(16));
  request.set_protocol_version(2);
  request.mutable_node()->set_node_id(id_);
  request.mutable_node()->set_worker_address("127.0.0.1:1");
  request.mutable_node()->set_replica_host("127.0.0.1");
  request.mutable_node()->mutable_capacity()->set_cpu_millis(cpu_millis);
  request.mutable_node()->mutable_capacity()->set_memory_bytes(int64_t{1} << 40);
  v1::RegisterNodeResponse response;
  const grpc::Status status = stub_->RegisterNode(&context, request, &response);
  if (!status.ok()) return status;
  stub_->async()->Connect(&context_, this);
  v1::ConnectRequest hello;
  hello.mutable_hello()->set_node_id(id_);
  hello.mutable_hello()->set_session_id(response.session_id());
  StartRead(&in_);
  Send(std::move(hello));
  StartCall();
  // Nodes do not beat in step.
  crowd_->timer.After(crowd_->heartbeat_period * (std::hash<std::string>{}(id_) % 1000) / 1000.0,
                      [this] { Beat(); });
  return status;
}

void PlayedNode::Beat() {
  v1::ConnectRequest message;
  message.mutable_heartbeat();
  {
    MutexLock lock(&mutex_);
    beat_time_ = absl::Now();
  }
  Send(std::move(message));
  crowd_->timer.After(crowd_->heartbeat_period, [this] { Beat(); });
}

void PlayedNode::OnReadDone(bool ok) {
  if (!ok) return;
  if (in_.has_heartbeat_ack()) {
    MutexLock lock(&mutex_);
    crowd_->heartbeats.Add(absl::Now() - beat_time_);
  } else if (in_.has_launch()) {
    const v1::LaunchReplica launch = in_.launch();
    crowd_->on_launch(launch);
    Report(launch, v1::REPLICA_STATE_RUNNING);
    if (absl::StartsWith(launch.job(), kShortLabel)) {
      crowd_->timer.After(crowd_->short_job, [this, launch] { Report(launch, v1::REPLICA_STATE_EXITED); });
    }
  }
  StartRead(&in_);
}

void PlayedNode::Report(const v1::LaunchReplica& launch, v1::ReplicaState state) {
  v1::ConnectRequest message;
  v1::ReplicaReport* report = message.mutable_replica_report();
  report->set_namespace_(launch.namespace_());
  report->set_job(launch.job());
  report->set_job_uid(launch.job_uid());
  v1::Replica* replica = report->mutable_replica();
  replica->set_replica_id(launch.replica_id());
  replica->set_group(launch.group());
  replica->set_rank(launch.rank());
  replica->set_node_id(id_);
  replica->set_state(state);
  *replica->mutable_start_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  Send(std::move(message));
}

void PlayedNode::Send(v1::ConnectRequest message) {
  MutexLock lock(&mutex_);
  out_.push_back(std::move(message));
  if (!writing_) WriteNext();
}

void PlayedNode::WriteNext() {
  writing_ = true;
  StartWrite(&out_.front());
}

void PlayedNode::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  out_.pop_front();
  writing_ = false;
  if (ok && !out_.empty()) WriteNext();
}

void PlayedNode::OnDone(const grpc::Status& status) {
  if (crowd_->ending) return;
  ++crowd_->dropped;
  std::fprintf(stderr, "node %s: its stream ended: %s\n", id_.c_str(), status.error_message().c_str());
}

}  // namespace adaptdl::load
