#include "services/supervisor/node_service.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "libs/base/mutex.h"
#include "libs/rpc/status.h"
#include "services/supervisor/unary.h"

namespace adaptdl::supervisor {
namespace {

// Commands that may wait for a worker; one that reads none for so long connects again and is told anew.
constexpr size_t kMaxQueuedCommands = 10'000;

// First version of the protocol with HeartbeatAck.
constexpr int kAcknowledgesHeartbeats = 2;

class NodeStream final : public grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>,
                         public NodeLink,
                         public EndableStream {
 public:
  // `caller`: whoever opened the stream, or why that is not known.
  NodeStream(ClusterState* state, WorkerLauncher* launcher, absl::StatusOr<security::Caller> caller)
      : state_(state), launcher_(launcher), caller_(std::move(caller)) {}

  void Begin() {
    self_ = Self();
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      End(grpc::Status::OK);
      return;
    }
    if (request_.has_heartbeat() && lease_ != nullptr) {
      Proceed(GuardedHandle());
      return;
    }
    {
      MutexLock lock(&mutex_);
      handling_ = true;
    }
    state_->executor()->Post([this, self = Self()] { Proceed(GuardedHandle()); });
  }

  void Send(v1::ConnectResponse command) override {
    {
      MutexLock lock(&mutex_);
      if (ending_) return;
      if (queue_.size() < kMaxQueuedCommands) {
        queue_.push_back(std::move(command));
      } else {
        ending_ = true;
        end_status_ = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                   "the worker does not read its commands; connect again");
        queue_.clear();
      }
    }
    Write();
  }

  void EndWith(const absl::Status& why) override { End(rpc::ToGrpcStatus(why)); }
  void End(const grpc::Status& status) override {
    {
      MutexLock lock(&mutex_);
      if (!ending_) end_status_ = status;
      ending_ = true;
      queue_.clear();
    }
    Write();
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(&mutex_);
      writing_ = false;
      if (!ok) {
        ending_ = true;
        queue_.clear();
      }
    }
    Write();
  }

  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override {
    if (!node_id_.empty()) launcher_->Detach(node_id_, this);
    const std::shared_ptr<NodeStream> self = std::move(self_);
  }

 private:
  std::shared_ptr<NodeStream> Self() { return std::static_pointer_cast<NodeStream>(shared_from_this()); }

  // The message was dealt with: reads the next one.
  void Proceed(const absl::Status& status) {
    request_.Clear();
    {
      MutexLock lock(&mutex_);
      handling_ = false;
      if (!status.ok() && !ending_) {
        ending_ = true;
        end_status_ = rpc::ToGrpcStatus(status);
        queue_.clear();
      }
      // Under the lock: no stream is read from after its end.
      if (!ending_) StartRead(&request_);
    }
    Write();
  }

  absl::Status GuardedHandle() {
    return state_->executor()->invariants()->Guard("Connect", [this] { return Handle(request_); });
  }

  absl::Status Handle(const v1::ConnectRequest& request) {
    if (request.has_hello()) return Hello(request.hello());
    if (lease_ == nullptr) {
      return absl::InvalidArgumentError("message: the first one of a stream must be a hello; send it first");
    }
    lease_->Renew(state_->Now());
    switch (request.message_case()) {
      case v1::ConnectRequest::kHeartbeat:
        if (Metrics* metrics = state_->metrics()) metrics->CountNodeHeartbeat();
        if (lease_->protocol_version >= kAcknowledgesHeartbeats) {
          v1::ConnectResponse answer;
          answer.mutable_heartbeat_ack();
          Send(std::move(answer));
        }
        return absl::OkStatus();
      case v1::ConnectRequest::kReplicaReport:
        return state_->ObserveReplica(node_id_, request.replica_report());
      case v1::ConnectRequest::kFreePorts:
        return state_->OfferPorts(node_id_, request.free_ports());
      case v1::ConnectRequest::kPreemptionNotice:
        return state_->NoticePreemption(node_id_, request.preemption_notice());
      default:
        return absl::OkStatus();  // Of a newer worker.
    }
  }

  absl::Status Hello(const v1::NodeHello& hello) {
    if (lease_ != nullptr)
      return absl::InvalidArgumentError("hello: was sent before; open a new stream instead");
    if (!caller_.ok()) return caller_.status();
    if (const absl::Status status = security::CheckNode(*caller_, hello.node_id()); !status.ok())
      return status;
    absl::StatusOr<std::shared_ptr<Lease>> lease = state_->FindSession(hello.node_id(), hello.session_id());
    if (!lease.ok()) return lease.status();
    lease_ = *std::move(lease);
    node_id_ = hello.node_id();
    launcher_->Attach(node_id_, hello.session_id(), Self());
    return state_->ReconcileNode(hello);
  }

  // Sends the next command, or ends the stream when it is to end.
  void Write() {
    MutexLock lock(&mutex_);
    if (writing_ || finished_) return;
    if (ending_) {
      if (handling_) return;  // Proceed() comes back here.
      finished_ = true;
      Finish(end_status_);
    } else if (!queue_.empty()) {
      writing_ = true;
      outgoing_ = std::move(queue_.front());
      queue_.pop_front();
      StartWrite(&outgoing_);
    }
  }

  ClusterState* const state_;
  WorkerLauncher* const launcher_;
  const absl::StatusOr<security::Caller> caller_;
  std::shared_ptr<NodeStream> self_;
  v1::ConnectRequest request_;
  // Set by the hello; used by whoever handles a message.
  std::shared_ptr<Lease> lease_;
  std::string node_id_;

  Mutex mutex_;
  // Whether the executor works on request_.
  bool handling_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<v1::ConnectResponse> queue_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_status_ ABSL_GUARDED_BY(mutex_);
  v1::ConnectResponse outgoing_;
};

}  // namespace

grpc::ServerUnaryReactor* NodeServiceImpl::RegisterNode(grpc::CallbackServerContext* context,
                                                        const v1::RegisterNodeRequest* request,
                                                        v1::RegisterNodeResponse* response) {
  const absl::Status status = guard_->CheckNode(*context, request->node().node_id());
  if (!status.ok()) return Answer(context, status);
  return Answer(
      state_, context, [this, request] { return state_->RegisterNode(*request); }, response);
}

grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>* NodeServiceImpl::Connect(
    grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<NodeStream>(state_, launcher_, guard_->CallerOf(*context));
  stream->Begin();
  streams_->Add(stream);
  return stream.get();
}

grpc::ServerUnaryReactor* NodeServiceImpl::ListNodes(grpc::CallbackServerContext* context,
                                                     const v1::ListNodesRequest* request,
                                                     v1::ListNodesResponse* response) {
  const absl::Status status = admission_->Call(Admission::CallerOf(*context, *guard_));
  if (!status.ok()) return Answer(context, status);
  return Answer(
      state_, context, [this, request] { return state_->ListNodes(*request); }, response);
}

grpc::ServerUnaryReactor* NodeServiceImpl::DrainNode(grpc::CallbackServerContext* context,
                                                     const v1::DrainNodeRequest* request,
                                                     v1::DrainNodeResponse* response) {
  const absl::Status status =
      admission_->Change(Admission::CallerOf(*context, *guard_), state_->executor()->waiting());
  if (!status.ok()) return Answer(context, status);
  return Answer(
      state_, context, [this, request] { return state_->DrainNode(*request); }, response);
}

grpc::ServerUnaryReactor* NodeServiceImpl::RemoveNode(grpc::CallbackServerContext* context,
                                                      const v1::RemoveNodeRequest* request,
                                                      v1::RemoveNodeResponse* response) {
  const absl::Status status =
      admission_->Change(Admission::CallerOf(*context, *guard_), state_->executor()->waiting());
  if (!status.ok()) return Answer(context, status);
  return Answer(
      state_, context, [this, request] { return state_->RemoveNode(*request); }, response);
}

}  // namespace adaptdl::supervisor
