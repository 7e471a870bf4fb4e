// A supervisor that does what the test says, over real gRPC. Thread-safe.

#ifndef ADAPTDL_TESTS_SERVICES_WORKER_FAKE_SUPERVISOR_H_
#define ADAPTDL_TESTS_SERVICES_WORKER_FAKE_SUPERVISOR_H_

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "libs/base/mutex.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {

class FakeSupervisor final : public v1::NodeService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::ConnectResponse, v1::ConnectRequest>;

  ~FakeSupervisor() override { Stop(); }

  // Serves at any free port, and after a Stop() at the same one again.
  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port_), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  // As if it was killed: all streams break.
  void Stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // Sends a command on the current stream; waits for one.
  void Send(const v1::ConnectResponse& command) {
    MutexLock lock(&mutex_);
    WaitLocked([&] { return stream_ != nullptr; });
    if (stream_ != nullptr) stream_->Write(command);
  }
  void Launch(const v1::LaunchReplica& launch) {
    v1::ConnectResponse command;
    *command.mutable_launch() = launch;
    Send(command);
  }
  void StopReplica(const std::string& replica_id, int64_t grace_seconds = 20) {
    v1::ConnectResponse command;
    command.mutable_stop()->set_replica_id(replica_id);
    command.mutable_stop()->mutable_grace_period()->set_seconds(grace_seconds);
    Send(command);
  }
  void Acknowledge(const std::string& replica_id) {
    v1::ConnectResponse command;
    command.mutable_acknowledge()->set_replica_id(replica_id);
    Send(command);
  }

  // Ends the current stream with `status`, at the next message that comes on it.
  void EndStream(const grpc::Status& status) {
    MutexLock lock(&mutex_);
    end_status_ = status;
  }

  // Of its registrations from now on.
  void SetTerm(int64_t term) {
    MutexLock lock(&mutex_);
    term_ = term;
  }
  // Whether it speaks version 2 of the protocol and answers heartbeats. If it did, and does not any more, it
  // is like one that was stopped.
  void SetAnswers(bool answers) {
    MutexLock lock(&mutex_);
    if (answers) protocol_version_ = 2;
    answers_ = answers;
  }

  // Acknowledge every end as soon as it is reported, as the real one does.
  void AcknowledgeAll() {
    MutexLock lock(&mutex_);
    acknowledge_all_ = true;
  }

  // The first registration, or hello, that has come and was not taken yet.
  std::optional<v1::Node> TakeRegistration() { return Take(&registrations_); }
  std::optional<v1::NodeHello> TakeHello() { return Take(&hellos_); }
  // Forgets those that have come.
  void ForgetHellos() {
    MutexLock lock(&mutex_);
    hellos_.clear();
  }

  // Waits until the latest report of the replica is of this state, and returns it.
  std::optional<v1::ReplicaReport> WaitForState(const std::string& replica_id, v1::ReplicaState state) {
    MutexLock lock(&mutex_);
    const v1::ReplicaReport* found = nullptr;
    WaitLocked([&] {
      for (const v1::ReplicaReport& report : reports_) {
        if (report.replica().replica_id() == replica_id && report.replica().state() == state) found = &report;
      }
      return found != nullptr;
    });
    return found == nullptr ? std::nullopt : std::optional<v1::ReplicaReport>(*found);
  }

  // Waits until `count` reports of this state have come.
  bool WaitForReports(const std::string& replica_id, v1::ReplicaState state, int count) {
    MutexLock lock(&mutex_);
    return WaitLocked([&] {
      int seen = 0;
      for (const v1::ReplicaReport& report : reports_) {
        if (report.replica().replica_id() == replica_id && report.replica().state() == state) ++seen;
      }
      return seen >= count;
    });
  }

  // Waits until the worker has said that nothing of the job is left.
  bool WaitForDeletion(const std::string& job_uid) {
    MutexLock lock(&mutex_);
    return WaitLocked([&] { return deleted_.count(job_uid) > 0; });
  }

  bool WaitForHeartbeats(int count) {
    MutexLock lock(&mutex_);
    return WaitLocked([&] { return heartbeats_ >= count; });
  }

  // Waits until a heartbeat has told of such a use of the machine, and returns that.
  std::optional<v1::MachineUse> WaitForUse(const std::function<bool(const v1::MachineUse&)>& is_such) {
    MutexLock lock(&mutex_);
    const bool came = WaitLocked([&] { return use_.has_value() && is_such(*use_); });
    return came ? use_ : std::nullopt;
  }

  // Until the worker has said that it goes away.
  bool WaitForNotice() {
    MutexLock lock(&mutex_);
    return WaitLocked([&] { return std::find(order_.begin(), order_.end(), "notice") != order_.end(); });
  }

  // Until a node has registered and said that it goes away.
  bool WaitForLeavingRegistration() {
    MutexLock lock(&mutex_);
    return WaitLocked([&] { return leaving_ > 0; });
  }

  // How many have come.
  int heartbeats() {
    MutexLock lock(&mutex_);
    return heartbeats_;
  }

  // The messages after the hello, by name, in order ("notice", "EXITED" and so on; no heartbeats).
  std::vector<std::string> Order() {
    MutexLock lock(&mutex_);
    return order_;
  }

  grpc::Status RegisterNode(grpc::ServerContext*, const v1::RegisterNodeRequest* request,
                            v1::RegisterNodeResponse* response) override {
    MutexLock lock(&mutex_);
    registrations_.push_back(request->node());
    leaving_ += request->has_preemption_notice();
    response->set_session_id(++session_);
    response->set_term(term_);
    response->set_protocol_version(std::min(protocol_version_, request->protocol_version()));
    response->mutable_heartbeat_period()->set_nanos(50'000'000);
    changed_.SignalAll();
    return grpc::Status::OK;
  }

  grpc::Status Connect(grpc::ServerContext*, Stream* stream) override {
    v1::ConnectRequest request;
    grpc::Status status;
    while (status.ok() && stream->Read(&request)) status = Handle(stream, request);
    MutexLock lock(&mutex_);
    if (stream_ == stream) stream_ = nullptr;
    return status;
  }

 private:
  template <typename T>
  std::optional<T> Take(std::deque<T>* queue) {
    MutexLock lock(&mutex_);
    if (!WaitLocked([&] { return !queue->empty(); })) return std::nullopt;
    T item = queue->front();
    queue->pop_front();
    return item;
  }

  bool WaitLocked(const std::function<bool()>& predicate) {
    const absl::Time deadline = absl::Now() + kDeadline;
    while (!predicate()) {
      if (absl::Now() >= deadline) return false;
      changed_.WaitFor(&mutex_, deadline - absl::Now());
    }
    return true;
  }

  grpc::Status Handle(Stream* stream, const v1::ConnectRequest& request) {
    MutexLock lock(&mutex_);
    if (request.has_hello()) {
      hellos_.push_back(request.hello());
      for (const v1::ReplicaReport& report : request.hello().replicas()) AddReport(stream, report);
      stream_ = stream;
      order_.clear();
    }
    if (request.has_heartbeat()) {
      ++heartbeats_;
      if (request.heartbeat().has_use()) use_ = request.heartbeat().use();
      v1::ConnectResponse answer;
      answer.mutable_heartbeat_ack();
      if (answers_) stream->Write(answer);
    }
    if (request.has_job_files_deleted()) deleted_.insert(request.job_files_deleted().job_uid());
    if (request.has_preemption_notice()) order_.push_back("notice");
    if (request.has_replica_report()) {
      order_.push_back(v1::ReplicaState_Name(request.replica_report().replica().state()).substr(14));
      AddReport(stream, request.replica_report());
    }
    changed_.SignalAll();
    return std::exchange(end_status_, grpc::Status::OK);
  }

  void AddReport(Stream* stream, const v1::ReplicaReport& report) {
    reports_.push_back(report);
    const v1::ReplicaState state = report.replica().state();
    if (!acknowledge_all_ || (state != v1::REPLICA_STATE_EXITED && state != v1::REPLICA_STATE_LOST)) return;
    v1::ConnectResponse command;
    command.mutable_acknowledge()->set_replica_id(report.replica().replica_id());
    stream->Write(command);
  }

  Mutex mutex_;
  CondVar changed_;
  int port_ = 0;
  int64_t session_ = 0;
  int64_t term_ = 0;
  int protocol_version_ = 1;
  bool answers_ = false;
  int heartbeats_ = 0;
  std::optional<v1::MachineUse> use_;
  int leaving_ = 0;
  bool acknowledge_all_ = false;
  Stream* stream_ = nullptr;
  grpc::Status end_status_;
  std::deque<v1::Node> registrations_;
  std::deque<v1::NodeHello> hellos_;
  std::deque<v1::ReplicaReport> reports_;
  std::vector<std::string> order_;
  std::set<std::string> deleted_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_TESTS_SERVICES_WORKER_FAKE_SUPERVISOR_H_
