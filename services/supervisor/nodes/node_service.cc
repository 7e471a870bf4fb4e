#include "services/supervisor/nodes/node_service.h"

#include <list>
#include <memory>
#include <string>
#include <utility>

#include "libs/base/mutex.h"
#include "libs/rpc/status.h"
#include "services/supervisor/calls/bidi_reactor.h"
#include "services/supervisor/calls/unary.h"
#include "services/supervisor/calls/validation.h"

namespace adaptdl::supervisor {
namespace {

// Commands that may wait for a worker; one that reads none for so long connects again and is told anew.
constexpr size_t kMaxQueuedCommands = 10'000;

// Messages that may wait for the state; from there on the node is not read from until some are done.
constexpr size_t kMaxWaitingMessages = 10'000;

// First version of the protocol with HeartbeatAck.
constexpr int kAcknowledgesHeartbeats = 2;

// Heartbeats are answered as they come. What concerns the state waits for its turn, in the order in which it
// came, and holds no heartbeat up: the state may wait for its disk.
class NodeStream final : public BidiReactor<v1::ConnectRequest, v1::ConnectResponse>, public NodeLink {
 public:
  // `caller`: whoever opened the stream, or why that is not known.
  NodeStream(NodeManager* nodes, const Core* core, const Lanes* lanes, WorkerLauncher* launcher,
             service::Strangers* strangers, absl::StatusOr<security::Caller> caller)
      : BidiReactor("Connect", core, lanes, strangers),
        nodes_(nodes),
        core_(core),
        launcher_(launcher),
        caller_(std::move(caller)) {}

  void Send(v1::ConnectResponse command) override {
    {
      MutexLock lock(&mutex_);
      if (ending()) return;
      if (queue_.size() < kMaxQueuedCommands) {
        queue_.push_back(std::move(command));
      } else {
        EndSoon(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                             "the worker does not read its commands; connect again"));
      }
    }
    Write();
  }

  void EndWith(const absl::Status& why) override { End(rpc::ToGrpcStatus(why)); }

 protected:
  // A replica's newest report stands for those before it.
  void Arrived(Message message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (lease_ != nullptr) {
      lease_->Renew(message.arrived);
      if (message.request.has_heartbeat()) return TakeHeartbeat(message.request.mutable_heartbeat());
    }
    if (message.request.has_replica_report()) {
      const std::string& id = message.request.replica_report().replica().replica_id();
      std::erase_if(waiting_, [&](const Message& older) {
        return older.request.has_replica_report() &&
               older.request.replica_report().replica().replica_id() == id;
      });
    }
    waiting_.push_back(std::move(message));
  }

  bool has_room() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_.size() < kMaxWaitingMessages;
  }

  bool NeedsState(const v1::ConnectRequest& /*request*/) const override { return true; }

  absl::Status Handle(const Message& message) override {
    const v1::ConnectRequest& request = message.request;
    if (request.has_hello()) return Hello(request.hello());
    if (node_id_.empty()) {
      return absl::InvalidArgumentError("message: the first one of a stream must be a hello; send it first");
    }
    switch (request.message_case()) {
      case v1::ConnectRequest::kHeartbeat: {  // it came before the hello was dealt with
        v1::NodeHeartbeat heartbeat = request.heartbeat();
        MutexLock lock(&mutex_);
        TakeHeartbeat(&heartbeat);
        return absl::OkStatus();
      }
      case v1::ConnectRequest::kReplicaReport:
        return nodes_->ObserveReplica(node_id_, request.replica_report());
      case v1::ConnectRequest::kFreePorts:
        return nodes_->OfferPorts(node_id_, request.free_ports());
      case v1::ConnectRequest::kPreemptionNotice:
        return nodes_->NoticePreemption(node_id_, request.preemption_notice());
      case v1::ConnectRequest::kJobFilesDeleted:
        return nodes_->FinishDeletion(node_id_, request.job_files_deleted().job_uid());
      default:
        return absl::OkStatus();  // Of a newer worker.
    }
  }

  bool NextResponse(v1::ConnectResponse* response) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (queue_.empty()) return false;
    *response = std::move(queue_.front());
    queue_.pop_front();
    return true;
  }
  void DropResponses() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { queue_.clear(); }
  void OnEnd() override {
    if (!node_id_.empty()) launcher_->Detach(node_id_, this);
  }

 private:
  void TakeHeartbeat(v1::NodeHeartbeat* heartbeat) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (Metrics* metrics = core_->metrics()) metrics->CountNodeHeartbeat();
    if (heartbeat->has_use()) NoteUse(std::move(*heartbeat->mutable_use()));
    if (lease_->protocol_version < kAcknowledgesHeartbeats || ending()) return;
    if (queue_.size() >= kMaxQueuedCommands) return;  // The next command ends the stream.
    queue_.emplace_back().mutable_heartbeat_ack();
  }

  // What makes no sense is left aside: the node lives all the same.
  void NoteUse(v1::MachineUse use) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (ValidateMachineUse(use).ok()) {
      use.DiscardUnknownFields();  // They have no bound.
      lease_->set_use(std::move(use));
    } else if (Metrics* metrics = core_->metrics()) {
      metrics->CountRefusedReport("use");
    }
  }

  absl::Status Hello(const v1::NodeHello& hello) {
    if (!node_id_.empty())
      return absl::InvalidArgumentError("hello: was sent before; open a new stream instead");
    if (!caller_.ok()) return caller_.status();
    if (const absl::Status status = security::CheckNode(*caller_, hello.node_id()); !status.ok())
      return status;
    absl::StatusOr<std::shared_ptr<Lease>> lease = nodes_->FindSession(hello.node_id(), hello.session_id());
    if (!lease.ok()) return lease.status();
    {
      MutexLock lock(&mutex_);
      lease_ = *std::move(lease);
    }
    node_id_ = hello.node_id();
    launcher_->Attach(node_id_, hello.session_id(), std::static_pointer_cast<NodeStream>(shared_from_this()));
    return nodes_->ReconcileNode(hello);
  }

  NodeManager* const nodes_;
  const Core* const core_;
  WorkerLauncher* const launcher_;
  const absl::StatusOr<security::Caller> caller_;
  // Set by the hello; used by whoever deals with a message, one at a time.
  std::string node_id_;
  // Set by the hello.
  std::shared_ptr<Lease> lease_ ABSL_GUARDED_BY(mutex_);
  std::list<v1::ConnectResponse> queue_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerUnaryReactor* NodeServiceImpl::RegisterNode(grpc::CallbackServerContext* context,
                                                        const v1::RegisterNodeRequest* request,
                                                        v1::RegisterNodeResponse* response) {
  const absl::Status status = guard_->CheckNode(*context, request->node().node_id());
  if (!status.ok()) return Answer(context, status);
  return Answer(
      lanes_, context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return nodes_->RegisterNode(*request, caller);
      },
      response);
}

grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>* NodeServiceImpl::Connect(
    grpc::CallbackServerContext* context) {
  auto stream =
      std::make_shared<NodeStream>(nodes_, core_, lanes_, launcher_, strangers_, guard_->CallerOf(*context));
  stream->Begin(service::HostOf(context->peer()));
  streams_->Add(stream);
  return stream.get();
}

grpc::ServerUnaryReactor* NodeServiceImpl::ListNodes(grpc::CallbackServerContext* context,
                                                     const v1::ListNodesRequest* request,
                                                     v1::ListNodesResponse* response) {
  const absl::Status status = admission_->Call(Admission::CallerOf(*context, *guard_));
  if (!status.ok()) return Answer(context, status);
  return AnswerRead(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request] { return nodes_->ListNodes(*request); }, response);
}

grpc::ServerUnaryReactor* NodeServiceImpl::DrainNode(grpc::CallbackServerContext* context,
                                                     const v1::DrainNodeRequest* request,
                                                     v1::DrainNodeResponse* response) {
  const absl::Status status =
      admission_->Change(Admission::CallerOf(*context, *guard_), lanes_->changes->waiting());
  if (!status.ok()) return Answer(context, status);
  return AnswerChange(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return nodes_->DrainNode(*request, caller);
      },
      response);
}

grpc::ServerUnaryReactor* NodeServiceImpl::RemoveNode(grpc::CallbackServerContext* context,
                                                      const v1::RemoveNodeRequest* request,
                                                      v1::RemoveNodeResponse* response) {
  const absl::Status status =
      admission_->Change(Admission::CallerOf(*context, *guard_), lanes_->changes->waiting());
  if (!status.ok()) return Answer(context, status);
  return AnswerChange(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return nodes_->RemoveNode(*request, caller);
      },
      response);
}

}  // namespace adaptdl::supervisor
