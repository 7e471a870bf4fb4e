// A supervisor that the test plays, and a control plane that is connected to it.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_CONTROL_GRPC_GRPC_CONTROL_PLANE_FIXTURE_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_CONTROL_GRPC_GRPC_CONTROL_PLANE_FIXTURE_H_

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/v1/replica_service.grpc.pb.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_context.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/elastic/control/grpc/grpc_control_plane.h"

namespace adaptdl::elastic {

using HeartbeatStream = grpc::ServerReaderWriter<v1::HeartbeatResponse, v1::HeartbeatRequest>;

// A value that one thread sets and another waits for.
template <typename T>
class Mailbox {
 public:
  void Put(T value) {
    MutexLock lock(&mutex_);
    values_.push_back(std::move(value));
    changed_.SignalAll();
  }
  T Take() {
    MutexLock lock(&mutex_);
    while (values_.empty()) changed_.Wait(&mutex_);
    T value = std::move(values_.front());
    values_.erase(values_.begin());
    return value;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<T> values_ ABSL_GUARDED_BY(mutex_);
};

// "<group> <authorization>" of a call.
inline std::string Caller(grpc::ServerContext* context, const v1::ReplicaIdentity& identity) {
  const auto token = context->client_metadata().find("authorization");
  EXPECT_NE(token, context->client_metadata().end());
  return std::to_string(identity.group()) + " " + std::string(token->second.data(), token->second.size());
}

class FakeSupervisor final : public v1::ReplicaService::Service {
 public:
  grpc::Status JoinGroup(grpc::ServerContext* context, const v1::JoinGroupRequest* request,
                         grpc::ServerWriter<v1::JoinGroupResponse>* writer) override {
    return on_join(context, *request, writer);
  }
  grpc::Status Heartbeat(grpc::ServerContext* context, HeartbeatStream* stream) override {
    return on_heartbeat(context, stream);
  }
  grpc::Status ReportHints(grpc::ServerContext* context, const v1::ReportHintsRequest* request,
                           v1::ReportHintsResponse*) override {
    hints.Put(request->hints());
    hints_callers.Put(Caller(context, request->identity()));
    return grpc::Status::OK;
  }

  std::function<grpc::Status(grpc::ServerContext*, const v1::JoinGroupRequest&,
                             grpc::ServerWriter<v1::JoinGroupResponse>*)>
      on_join;
  std::function<grpc::Status(grpc::ServerContext*, HeartbeatStream*)> on_heartbeat;
  Mailbox<v1::Hints> hints;
  Mailbox<std::string> hints_callers;
};

class RecordingObserver final : public ControlObserver {
 public:
  void OnCheckpointCommand(const std::string& reason) override { events.Put("checkpoint " + reason); }
  void OnStopCommand(const std::string& reason) override { events.Put("stop " + reason); }
  void OnFenced(const std::string& reason) override { events.Put("fenced " + reason); }
  void OnPlan(const GroupPlan& plan) override {
    plans.Put(plan);
    events.Put("plan " + std::to_string(plan.next.group));
  }
  std::vector<ReportedMetric> LatestMetrics() override {
    return {{"loss", std::nan(""), 9}, {"accuracy", 0.5, 10}};
  }
  Mailbox<GroupPlan> plans;
  Mailbox<std::string> events;
};

class GrpcControlPlaneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = Serve(&supervisor_, &address_);
    control_ = ControlPlaneAt(address_);
  }
  void TearDown() override {
    control_->Shutdown();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  static std::unique_ptr<grpc::Server> Serve(FakeSupervisor* supervisor, std::string* address) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(supervisor);
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    *address = "127.0.0.1:" + std::to_string(port);
    return server;
  }
  static std::unique_ptr<ControlPlane> ControlPlaneAt(const std::string& addresses) {
    GrpcControlPlaneOptions options;
    options.supervisor_address = addresses;
    options.job_namespace = "default";
    options.job = "mnist";
    options.replica_id = "mnist-12345678-3-1";
    options.group = 3;
    options.token = "secret";
    return CreateGrpcControlPlane(options);
  }

  static v1::HeartbeatResponse Command(v1::ReplicaCommand command, int64_t id, const std::string& reason) {
    v1::HeartbeatResponse response;
    response.set_command(command);
    response.set_command_id(id);
    response.set_reason(reason);
    response.mutable_period()->set_nanos(10'000'000);
    return response;
  }

  // Group 4, or a later one, as the replica with this rank sees it.
  static v1::HeartbeatResponse PlanFor(int64_t group, int rank, int64_t command_id) {
    v1::HeartbeatResponse response = Command(v1::REPLICA_COMMAND_RESCALE, command_id, "more room");
    response.mutable_period()->set_seconds(60);
    v1::GroupFormed* formed = response.mutable_plan()->mutable_formed();
    formed->set_group(group);
    formed->set_rank(rank);
    formed->set_world_size(5);
    formed->set_num_nodes(2);
    formed->set_master_address("10.0.0.7:40000");
    formed->add_gpu_types("a100");
    formed->set_token("token of " + std::to_string(group));
    formed->set_newcomers(3);
    return response;
  }

  static void ReadAll(HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    while (stream->Read(&request)) {
    }
  }

  std::string address_;
  FakeSupervisor supervisor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ControlPlane> control_;
  RecordingObserver observer_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_CONTROL_GRPC_GRPC_CONTROL_PLANE_FIXTURE_H_
