#include "services/supervisor/nodes/node_service.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "libs/base/mutex.h"
#include "libs/rpc/status.h"
#include "services/supervisor/calls/unary.h"

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
class NodeStream final : public grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>,
                         public NodeLink,
                         public EndableStream {
 public:
  // `caller`: whoever opened the stream, or why that is not known.
  NodeStream(NodeManager* nodes, const Core* core, const Lanes* lanes, WorkerLauncher* launcher,
             Strangers* strangers, absl::StatusOr<security::Caller> caller)
      : nodes_(nodes),
        core_(core),
        lanes_(lanes),
        launcher_(launcher),
        strangers_(strangers),
        caller_(std::move(caller)) {}

  void Begin(const std::string& host) {
    self_ = Self();
    EnterAsStranger(strangers_, host, this);
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    // From now on it is known who speaks, or the stream ends.
    if (!std::exchange(heard_, true)) strangers_->Leave(static_cast<EndableStream*>(this));
    if (!ok) {
      EndOfMessages();
      return;
    }
    bool begin = false;
    {
      MutexLock lock(&mutex_);
      if (lease_ != nullptr) lease_->Renew(core_->Now());
      if (!request_.has_heartbeat() || lease_ == nullptr) {
        Enqueue();
        begin = !std::exchange(handling_, true);
      } else {
        AnswerHeartbeat();
      }
      request_.Clear();
      ReadOn();
    }
    if (begin) HandleNext();
    Write();
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
    strangers_->Leave(static_cast<EndableStream*>(this));
    if (!node_id_.empty()) launcher_->Detach(node_id_, this);
    const std::shared_ptr<NodeStream> self = std::move(self_);
  }

 private:
  std::shared_ptr<NodeStream> Self() { return std::static_pointer_cast<NodeStream>(shared_from_this()); }

  // The worker sends no more. What it has sent before is dealt with first.
  void EndOfMessages() {
    {
      MutexLock lock(&mutex_);
      closed_ = true;
      reading_ = false;
      if (handling_) return;  // Proceed() ends the stream.
    }
    End(grpc::Status::OK);
  }

  // A replica's newest report stands for those before it.
  void Enqueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (request_.has_replica_report()) {
      const std::string& id = request_.replica_report().replica().replica_id();
      std::erase_if(waiting_, [&](const v1::ConnectRequest& older) {
        return older.has_replica_report() && older.replica_report().replica().replica_id() == id;
      });
    }
    waiting_.push_back(std::move(request_));
  }

  void AnswerHeartbeat() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (Metrics* metrics = core_->metrics()) metrics->CountNodeHeartbeat();
    if (lease_->protocol_version < kAcknowledgesHeartbeats || ending_) return;
    if (queue_.size() >= kMaxQueuedCommands) return;  // The next command ends the stream.
    queue_.emplace_back().mutable_heartbeat_ack();
  }

  // Unless a read is under way, or there is enough to do. Under the lock: no stream is read from after its
  // end.
  void ReadOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    reading_ = !ending_ && !closed_ && waiting_.size() < kMaxWaitingMessages;
    if (reading_) StartRead(&request_);
  }

  void HandleNext() {
    lanes_->changes->Post([this, self = Self()] {
      v1::ConnectRequest request;
      {
        MutexLock lock(&mutex_);
        request = std::move(waiting_.front());
        waiting_.pop_front();
      }
      const auto handle = [&] { return Handle(request); };
      const absl::Status status = lanes_->invariants()->Guard("Connect", handle);
      // Whoever is sent away is so for good.
      if (status.ok()) return Proceed(status);
      lanes_->durability->WhenDurable([this, self, status] { Proceed(status); });
    });
  }

  // A message was dealt with.
  void Proceed(const absl::Status& status) {
    bool more = false;
    {
      MutexLock lock(&mutex_);
      if (!status.ok() && !ending_) {
        ending_ = true;
        end_status_ = rpc::ToGrpcStatus(status);
        queue_.clear();
      }
      if (ending_) waiting_.clear();
      more = handling_ = !waiting_.empty();
      ending_ = ending_ || (closed_ && !more);
      if (!reading_) ReadOn();
    }
    if (more) HandleNext();
    Write();
  }

  absl::Status Handle(const v1::ConnectRequest& request) {
    if (request.has_hello()) return Hello(request.hello());
    if (node_id_.empty()) {
      return absl::InvalidArgumentError("message: the first one of a stream must be a hello; send it first");
    }
    switch (request.message_case()) {
      case v1::ConnectRequest::kHeartbeat: {  // it came before the hello was dealt with
        MutexLock lock(&mutex_);
        AnswerHeartbeat();
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
    launcher_->Attach(node_id_, hello.session_id(), Self());
    return nodes_->ReconcileNode(hello);
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

  NodeManager* const nodes_;
  const Core* const core_;
  const Lanes* const lanes_;
  WorkerLauncher* const launcher_;
  Strangers* const strangers_;
  const absl::StatusOr<security::Caller> caller_;
  std::shared_ptr<NodeStream> self_;
  // What is being read, and whether anything has been.
  v1::ConnectRequest request_;
  bool heard_ = false;
  // Set by the hello; used by whoever handles a message, one at a time.
  std::string node_id_;

  Mutex mutex_;
  // Set by the hello.
  std::shared_ptr<Lease> lease_ ABSL_GUARDED_BY(mutex_);
  // Messages that the executor has not begun, and whether it is at one.
  std::deque<v1::ConnectRequest> waiting_ ABSL_GUARDED_BY(mutex_);
  bool handling_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether there are no further messages.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
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
  stream->Begin(HostOf(context->peer()));
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
