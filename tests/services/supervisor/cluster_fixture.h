// A whole supervisor over real gRPC on a free port, with a clock that stands still and workers that are
// played by the test. Waiting is always for a message, never for time.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_CLUSTER_FIXTURE_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_CLUSTER_FIXTURE_H_

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "adaptdl/v1/quota_service.grpc.pb.h"
#include "adaptdl/v1/replica_service.grpc.pb.h"
#include "adaptdl/v1/scheduling_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "libs/base/mutex.h"
#include "libs/base/random_id.h"
#include "libs/rpc/channel.h"
#include "services/supervisor/store/memory_job_store.h"
#include "services/supervisor/store/sqlite_job_store.h"
#include "services/supervisor/supervisor.h"

namespace adaptdl::supervisor {

// A folder that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(absl::StrCat(testing::TempDir(), "/supervisor-", RandomHex(8))) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

inline void SetDeadline(grpc::ClientContext* context) { rpc::SetTimeout(context, absl::Seconds(30)); }

// Plays the worker of one node.
class FakeWorker {
 public:
  FakeWorker(const std::shared_ptr<grpc::Channel>& channel, std::string node_id, int64_t cpu_millis = 4000)
      : stub_(v1::NodeService::NewStub(channel)), node_id_(std::move(node_id)) {
    node_.set_node_id(node_id_);
    node_.set_worker_address("127.0.0.1:1");
    node_.set_replica_host("127.0.0.1");
    node_.mutable_capacity()->set_cpu_millis(cpu_millis);
  }
  ~FakeWorker() { Disconnect(); }

  v1::Node* node() { return &node_; }
  int64_t session() const { return session_; }

  grpc::Status Register(int protocol_version = 0, v1::RegisterNodeResponse* answer = nullptr) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::RegisterNodeRequest request;
    request.set_request_id(RandomHex(8));
    *request.mutable_node() = node_;
    request.set_protocol_version(protocol_version);
    if (leaving) *request.mutable_preemption_notice() = *leaving;
    v1::RegisterNodeResponse response;
    const grpc::Status status = stub_->RegisterNode(&context, request, &response);
    session_ = response.session_id();
    if (answer != nullptr) *answer = response;
    return status;
  }

  void Connect(const std::vector<v1::ReplicaReport>& inventory = {}, const std::vector<int>& free_ports = {},
               bool confirms_deletions = false) {
    context_ = std::make_unique<grpc::ClientContext>();
    SetDeadline(context_.get());
    stream_ = stub_->Connect(context_.get());
    v1::ConnectRequest request;
    request.mutable_hello()->set_node_id(node_id_);
    request.mutable_hello()->set_session_id(session_);
    for (const auto& report : inventory) *request.mutable_hello()->add_replicas() = report;
    for (const int port : free_ports) request.mutable_hello()->add_free_ports(port);
    request.mutable_hello()->set_confirms_deletions(confirms_deletions);
    stream_->Write(request);
  }

  void Disconnect() {
    if (stream_ == nullptr) return;
    context_->TryCancel();
    v1::ConnectResponse ignored;
    while (stream_->Read(&ignored)) {
    }
    stream_->Finish();
    stream_ = nullptr;
  }

  // What was sent before was heard when this is answered. A hello that is heard later has commands repeated.
  void AwaitHeard() {
    v1::ReplicaReport stranger;
    stranger.mutable_replica()->set_replica_id("stranger");
    stranger.mutable_replica()->set_state(v1::REPLICA_STATE_RUNNING);
    Report(stranger);
    EXPECT_EQ(NextStop().replica_id(), "stranger");
  }

  // The next command; an empty one when the stream has ended.
  v1::ConnectResponse Next() {
    v1::ConnectResponse command;
    stream_->Read(&command);
    return command;
  }
  v1::LaunchReplica NextLaunch() {
    v1::ConnectResponse command;
    while (stream_->Read(&command)) {
      if (command.has_launch()) return command.launch();
    }
    ADD_FAILURE() << "no launch came";
    return {};
  }
  v1::StopReplica NextStop() {
    v1::ConnectResponse command;
    while (stream_->Read(&command)) {
      if (command.has_stop()) return command.stop();
    }
    ADD_FAILURE() << "no stop came";
    return {};
  }
  // Said at registrations.
  std::optional<v1::PreemptionNotice> leaving;

  // How the supervisor ended the stream.
  grpc::Status End() {
    v1::ConnectResponse ignored;
    while (stream_->Read(&ignored)) {
    }
    const grpc::Status status = stream_->Finish();
    stream_ = nullptr;
    return status;
  }

  static v1::ReplicaReport ReportOf(const v1::LaunchReplica& launch, v1::ReplicaState state,
                                    int exit_code = 0) {
    v1::ReplicaReport report;
    report.set_namespace_(launch.namespace_());
    report.set_job(launch.job());
    report.set_job_uid(launch.job_uid());
    report.mutable_replica()->set_replica_id(launch.replica_id());
    report.mutable_replica()->set_group(launch.group());
    report.mutable_replica()->set_rank(launch.rank());
    report.mutable_replica()->set_state(state);
    report.mutable_replica()->set_exit_code(exit_code);
    return report;
  }
  void Send(const v1::ConnectRequest& request) { stream_->Write(request); }
  void Report(const v1::ReplicaReport& report) {
    v1::ConnectRequest request;
    *request.mutable_replica_report() = report;
    Send(request);
  }
  void Running(const v1::LaunchReplica& launch) { Report(ReportOf(launch, v1::REPLICA_STATE_RUNNING)); }
  void Exited(const v1::LaunchReplica& launch, int code) {
    Report(ReportOf(launch, v1::REPLICA_STATE_EXITED, code));
  }
  void Heartbeat(const std::optional<v1::MachineUse>& use = std::nullopt) {
    v1::ConnectRequest request;
    request.mutable_heartbeat();
    if (use.has_value()) *request.mutable_heartbeat()->mutable_use() = *use;
    Send(request);
  }

 private:
  const std::unique_ptr<v1::NodeService::Stub> stub_;
  const std::string node_id_;
  v1::Node node_;
  int64_t session_ = 0;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ConnectRequest, v1::ConnectResponse>> stream_;
};

class ClusterTest : public testing::Test {
 protected:
  // The clock stands still, so buckets would never fill.
  ClusterTest() { options_.admission.calls_per_second = 0; }

  void SetUp() override { Start(); }
  void TearDown() override { Stop(); }

  // The store of the next Start(); memory by default.
  virtual std::unique_ptr<JobStore> MakeStore() {
    auto store = std::make_unique<MemoryJobStore>();
    memory_ = store.get();
    return store;
  }

  void Start() {
    auto supervisor = Supervisor::Create(
        options_, MakeStore(), &clock_, [this](int bytes) { return random_hex_(bytes); }, lease_);
    ASSERT_TRUE(supervisor.ok()) << supervisor.status();
    supervisor_ = *std::move(supervisor);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    for (grpc::Service* service : supervisor_->services()) builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    channel_ = rpc::CreateChannel(absl::StrCat("127.0.0.1:", port), rpc::Plaintext());
    jobs_ = v1::JobService::NewStub(channel_);
    nodes_ = v1::NodeService::NewStub(channel_);
    replicas_ = v1::ReplicaService::NewStub(channel_);
    scheduling_ = v1::SchedulingService::NewStub(channel_);
    quotas_ = v1::QuotaService::NewStub(channel_);
  }
  void Stop() {
    if (server_ != nullptr) {
      supervisor_->EndStreams();
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(10));
      server_->Wait();
    }
    server_ = nullptr;
    supervisor_ = nullptr;
  }

  // Moves the clock, stepping as the supervisor's thread would.
  void Advance(absl::Duration duration, absl::Duration step = absl::Seconds(1)) {
    for (; duration > absl::ZeroDuration(); duration -= step) {
      clock_.Advance(std::min(step, duration));
      supervisor_->Step();
    }
  }

  std::unique_ptr<FakeWorker> AddWorker(const std::string& id, int64_t cpu_millis = 4000) {
    auto worker = std::make_unique<FakeWorker>(channel_, id, cpu_millis);
    const grpc::Status status = worker->Register();
    EXPECT_TRUE(status.ok()) << status.error_message();
    worker->Connect();
    worker->AwaitHeard();
    return worker;
  }

  static v1::Job NewJob(const std::string& name) {
    v1::Job job;
    job.set_name(name);
    job.mutable_spec()->set_max_replicas(8);
    job.mutable_spec()->mutable_template_()->add_command("train");
    return job;
  }
  grpc::Status TrySubmit(const v1::Job& job, v1::Job* result = nullptr,
                         const std::string& request_id = RandomHex(8),
                         const std::string& generate_name = "") {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::SubmitJobRequest request;
    request.set_request_id(request_id);
    *request.mutable_job() = job;
    request.set_generate_name(generate_name);
    v1::SubmitJobResponse response;
    const grpc::Status status = jobs_->SubmitJob(&context, request, &response);
    if (result != nullptr) *result = response.job();
    return status;
  }
  v1::Job Submit(const v1::Job& job) {
    v1::Job result;
    const grpc::Status status = TrySubmit(job, &result);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return result;
  }
  v1::Job Get(const std::string& name) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::GetJobRequest request;
    request.set_name(name);
    v1::GetJobResponse response;
    const grpc::Status status = jobs_->GetJob(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job();
  }
  grpc::Status Cancel(const std::string& name) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::CancelJobRequest request;
    request.set_request_id(RandomHex(8));
    request.set_name(name);
    v1::CancelJobResponse response;
    return jobs_->CancelJob(&context, request, &response);
  }

  // The job once `reached` holds of it.
  v1::Job WaitFor(const std::string& name, const std::function<bool(const v1::Job&)>& reached) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::WatchJobsRequest request;
    request.set_name(name);
    auto stream = jobs_->WatchJobs(&context, request);
    v1::WatchJobsResponse response;
    while (stream->Read(&response)) {
      if (!response.has_job() || !reached(response.job())) continue;
      context.TryCancel();
      return response.job();
    }
    ADD_FAILURE() << "job " << name << " did not get there; it is " << Get(name).DebugString();
    return {};
  }
  v1::Job WaitForPhase(const std::string& name, v1::JobPhase phase) {
    return WaitFor(name, [phase](const v1::Job& job) { return job.status().phase() == phase; });
  }

  v1::ClusterSnapshot Snapshot() {
    grpc::ClientContext context;
    SetDeadline(&context);
    auto stream = scheduling_->WatchCluster(&context, {});
    v1::WatchClusterResponse response;
    EXPECT_TRUE(stream->Read(&response));
    context.TryCancel();
    return response.snapshot();
  }
  static v1::JobAllocation AllocationOf(const v1::Job& job, const std::vector<std::string>& nodes) {
    v1::JobAllocation allocation;
    allocation.set_namespace_(job.namespace_());
    allocation.set_name(job.name());
    allocation.set_job_uid(job.uid());
    for (const std::string& node : nodes) allocation.add_node_ids(node);
    allocation.set_reason("the test says so");
    return allocation;
  }
  grpc::Status Apply(const std::vector<v1::JobAllocation>& allocations, int64_t version = 0) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ApplyAllocationsRequest request;
    request.set_request_id(RandomHex(8));
    request.set_snapshot_version(version == 0 ? Snapshot().version() : version);
    for (const auto& allocation : allocations) *request.add_allocations() = allocation;
    v1::ApplyAllocationsResponse response;
    return scheduling_->ApplyAllocations(&context, request, &response);
  }
  void Allocate(const v1::Job& job, const std::vector<std::string>& nodes) {
    const grpc::Status status = Apply({AllocationOf(job, nodes)});
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  std::vector<v1::Event> Events(const std::string& name) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListEventsRequest request;
    request.set_name(name);
    request.set_page_size(1000);
    v1::ListEventsResponse response;
    EXPECT_TRUE(jobs_->ListEvents(&context, request, &response).ok());
    return {response.events().begin(), response.events().end()};
  }
  bool HasEvent(const std::string& name, const std::string& reason) {
    for (const v1::Event& event : Events(name)) {
      if (event.reason() == reason) return true;
    }
    return false;
  }

  static v1::ReplicaIdentity IdentityOf(const v1::LaunchReplica& launch) {
    v1::ReplicaIdentity identity;
    identity.set_namespace_(launch.namespace_());
    identity.set_job(launch.job());
    identity.set_replica_id(launch.replica_id());
    identity.set_group(launch.group());
    return identity;
  }
  static void Authenticate(grpc::ClientContext* context, const std::string& token) {
    SetDeadline(context);
    context->AddMetadata("authorization", "Bearer " + token);
  }
  grpc::Status ReportHints(const v1::ReplicaIdentity& identity, const std::string& token,
                           const v1::Hints& hints) {
    grpc::ClientContext context;
    Authenticate(&context, token);
    v1::ReportHintsRequest request;
    *request.mutable_identity() = identity;
    *request.mutable_hints() = hints;
    v1::ReportHintsResponse response;
    return replicas_->ReportHints(&context, request, &response);
  }

  // Of the next Start(). Null: there is no other supervisor.
  LeaderLease* lease_ = nullptr;
  SupervisorOptions options_;
  std::function<std::string(int)> random_hex_ = [](int bytes) { return RandomHex(bytes); };
  ManualClock clock_;
  MemoryJobStore* memory_ = nullptr;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::NodeService::Stub> nodes_;
  std::unique_ptr<v1::ReplicaService::Stub> replicas_;
  std::unique_ptr<v1::SchedulingService::Stub> scheduling_;
  std::unique_ptr<v1::QuotaService::Stub> quotas_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_CLUSTER_FIXTURE_H_
