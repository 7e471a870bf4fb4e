// The gRPC control plane against a supervisor that the test plays, over a real connection.

#include "libs/elastic/control/grpc_control_plane.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "adaptdl/v1/replica_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_context.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/base/mutex.h"
#include "libs/certificates/certificates.h"

namespace adaptdl::elastic {
namespace {

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
std::string Caller(grpc::ServerContext* context, const v1::ReplicaIdentity& identity) {
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
  Mailbox<GroupPlan> plans;
  Mailbox<std::string> events;
};

class GrpcControlPlaneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&supervisor_);
    server_ = builder.BuildAndStart();
    GrpcControlPlaneOptions options;
    address_ = "127.0.0.1:" + std::to_string(port);
    options.supervisor_address = address_;
    options.job_namespace = "default";
    options.job = "mnist";
    options.replica_id = "mnist-12345678-3-1";
    options.group = 3;
    options.token = "secret";
    control_ = CreateGrpcControlPlane(options);
  }
  void TearDown() override {
    control_->Shutdown();
    server_->Shutdown(std::chrono::system_clock::now());
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

TEST_F(GrpcControlPlaneTest, WaitsForTheGroupAndTellsWhoItIs) {
  supervisor_.on_join = [](grpc::ServerContext* context, const v1::JoinGroupRequest& request,
                           grpc::ServerWriter<v1::JoinGroupResponse>* writer) {
    const auto token = context->client_metadata().find("authorization");
    EXPECT_NE(token, context->client_metadata().end());
    EXPECT_EQ(std::string(token->second.data(), token->second.size()), "Bearer secret");
    EXPECT_EQ(request.identity().namespace_(), "default");
    EXPECT_EQ(request.identity().job(), "mnist");
    EXPECT_EQ(request.identity().replica_id(), "mnist-12345678-3-1");
    EXPECT_EQ(request.identity().group(), 3);
    EXPECT_EQ(request.address(), "10.0.0.1:4711");
    v1::JoinGroupResponse forming;
    forming.mutable_forming()->add_missing()->set_rank(0);
    writer->Write(forming);
    v1::JoinGroupResponse formed;
    formed.mutable_formed()->set_group(3);
    formed.mutable_formed()->set_rank(1);
    formed.mutable_formed()->set_world_size(2);
    formed.mutable_formed()->set_num_nodes(2);
    formed.mutable_formed()->set_master_address("10.0.0.7:40000");
    writer->Write(formed);
    return grpc::Status::OK;
  };
  const auto membership = control_->JoinGroup("10.0.0.1:4711");
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_EQ(membership->group, 3);
  EXPECT_EQ(membership->rank, 1);
  EXPECT_EQ(membership->world_size, 2);
  EXPECT_EQ(membership->num_nodes, 2);
  EXPECT_EQ(membership->master_address, "10.0.0.7:40000");
}

TEST_F(GrpcControlPlaneTest, TriesAgainWhenTheSupervisorIsAway) {
  std::atomic<int> calls = 0;
  supervisor_.on_join = [&](grpc::ServerContext*, const v1::JoinGroupRequest&,
                            grpc::ServerWriter<v1::JoinGroupResponse>* writer) {
    if (++calls == 1) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
    v1::JoinGroupResponse formed;
    formed.mutable_formed()->set_world_size(1);
    writer->Write(formed);
    return grpc::Status::OK;
  };
  EXPECT_TRUE(control_->JoinGroup("").ok());
  EXPECT_EQ(calls, 2);
}

TEST_F(GrpcControlPlaneTest, AnOldGroupCannotJoin) {
  supervisor_.on_join = [](grpc::ServerContext*, const v1::JoinGroupRequest&,
                           grpc::ServerWriter<v1::JoinGroupResponse>*) {
    return grpc::Status(grpc::StatusCode::ABORTED, "group 3 is not the current one");
  };
  EXPECT_EQ(control_->JoinGroup("").status().code(), absl::StatusCode::kAborted);
}

TEST_F(GrpcControlPlaneTest, CancelEndsTheWait) {
  supervisor_.on_join = [&](grpc::ServerContext* context, const v1::JoinGroupRequest&,
                            grpc::ServerWriter<v1::JoinGroupResponse>* writer) {
    // From within the call, so that the client surely waits.
    control_->Cancel();
    v1::JoinGroupResponse forming;
    forming.mutable_forming();
    while (!context->IsCancelled() && writer->Write(forming)) {
    }
    return grpc::Status::CANCELLED;
  };
  EXPECT_EQ(control_->JoinGroup("").status().code(), absl::StatusCode::kCancelled);
}

TEST_F(GrpcControlPlaneTest, PassesEachCommandOnOnceAndAcknowledgesIt) {
  Mailbox<int64_t> acknowledged;
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    EXPECT_TRUE(stream->Read(&request));
    EXPECT_EQ(request.acknowledged_command_id(), 0);
    stream->Write(Command(v1::REPLICA_COMMAND_NONE, 0, ""));
    stream->Write(Command(v1::REPLICA_COMMAND_CHECKPOINT, 1, "first"));
    stream->Write(Command(v1::REPLICA_COMMAND_CHECKPOINT, 1, "repeated"));
    stream->Write(Command(v1::REPLICA_COMMAND_STOP, 2, "second"));
    while (stream->Read(&request)) {
      if (request.acknowledged_command_id() == 2) {
        acknowledged.Put(2);
        break;
      }
    }
    while (stream->Read(&request)) {
    }
    return grpc::Status::OK;
  };
  control_->Start(&observer_);
  EXPECT_EQ(observer_.events.Take(), "checkpoint first");
  EXPECT_EQ(observer_.events.Take(), "stop second");
  EXPECT_EQ(acknowledged.Take(), 2);
}

TEST_F(GrpcControlPlaneTest, SendsProgressWithHeartbeats) {
  Mailbox<v1::TrainingProgress> progress;
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    stream->Write(Command(v1::REPLICA_COMMAND_NONE, 0, ""));
    while (stream->Read(&request)) {
      if (request.has_progress()) {
        progress.Put(request.progress());
        break;
      }
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
  };
  Progress sent;
  sent.optimizer_steps = 10;
  sent.epoch = 2;
  sent.total_epochs = 5;
  sent.fraction = 0.5;
  sent.throughput = 100;
  sent.scale_invariant_steps = 9;
  sent.total_scale_invariant_steps = 25;
  control_->UpdateProgress(sent);
  control_->Start(&observer_);
  const v1::TrainingProgress got = progress.Take();
  EXPECT_EQ(got.optimizer_steps(), 10);
  EXPECT_EQ(got.epoch(), 2);
  EXPECT_EQ(got.total_epochs(), 5);
  EXPECT_EQ(got.fraction(), 0.5);
  EXPECT_EQ(got.throughput(), 100);
  EXPECT_EQ(got.scale_invariant_steps(), 9);
  EXPECT_EQ(got.total_scale_invariant_steps(), 25);
  // The stream broke, and the next one comes.
  EXPECT_EQ(progress.Take().optimizer_steps(), 10);
}

TEST_F(GrpcControlPlaneTest, ThatTrainingHasBegunIsToldAtOnce) {
  Mailbox<bool> connected;
  Mailbox<int64_t> steps;
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    // A period so long that the test would time out.
    v1::HeartbeatResponse response = Command(v1::REPLICA_COMMAND_NONE, 0, "");
    response.mutable_period()->set_seconds(60);
    EXPECT_TRUE(stream->Read(&request));
    EXPECT_FALSE(request.has_progress());
    stream->Write(response);
    connected.Put(true);
    EXPECT_TRUE(stream->Read(&request));
    steps.Put(request.progress().optimizer_steps());
    while (stream->Read(&request)) {
    }
    return grpc::Status::OK;
  };
  control_->Start(&observer_);
  connected.Take();
  Progress progress;
  progress.optimizer_steps = 1;
  control_->UpdateProgress(progress);
  EXPECT_EQ(steps.Take(), 1);
}

TEST_F(GrpcControlPlaneTest, TheLastProgressIsReadBeforeTheEnd) {
  Mailbox<bool> connected;
  int64_t last = 0;
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    // A period so long that no other heartbeat comes.
    v1::HeartbeatResponse response = Command(v1::REPLICA_COMMAND_NONE, 0, "");
    response.mutable_period()->set_seconds(60);
    EXPECT_TRUE(stream->Read(&request));
    stream->Write(response);
    connected.Put(true);
    while (stream->Read(&request)) last = request.progress().optimizer_steps();
    return grpc::Status::OK;
  };
  control_->Start(&observer_);
  connected.Take();
  Progress progress;
  progress.optimizer_steps = 250;
  control_->UpdateProgress(progress);
  control_->Shutdown();
  server_->Shutdown();  // Waits for the handler.
  EXPECT_EQ(last, 250);
}

TEST_F(GrpcControlPlaneTest, ASupervisorThatHangsDoesNotKeepTheProcess) {
  Mailbox<bool> connected;
  supervisor_.on_heartbeat = [&](grpc::ServerContext* context, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    stream->Read(&request);
    connected.Put(true);
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  };
  control_->Start(&observer_);
  connected.Take();
  control_->Shutdown();
}

TEST_F(GrpcControlPlaneTest, AFencedReplicaIsTold) {
  supervisor_.on_heartbeat = [](grpc::ServerContext*, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    stream->Read(&request);
    return grpc::Status(grpc::StatusCode::ABORTED, "group 4 has begun");
  };
  control_->Start(&observer_);
  EXPECT_EQ(observer_.events.Take(), "fenced group 4 has begun");
}

TEST_F(GrpcControlPlaneTest, ANewcomerThatCouldNotBeConnectedAsksAgainAsTheMemberItIs) {
  Mailbox<std::string> callers;
  std::atomic<int64_t> group = 4;
  supervisor_.on_join = [&](grpc::ServerContext* context, const v1::JoinGroupRequest& request,
                            grpc::ServerWriter<v1::JoinGroupResponse>* writer) {
    EXPECT_TRUE(request.rescales_in_place());
    EXPECT_EQ(request.address(), "10.0.0.1:4711");
    callers.Put(Caller(context, request.identity()));
    v1::JoinGroupResponse response;
    response.mutable_formed()->set_group(group);
    response.mutable_formed()->set_token("token of " + std::to_string(group++));
    writer->Write(response);
    return grpc::Status::OK;
  };
  const auto first = control_->JoinGroup("10.0.0.1:4711");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->group, 4);
  EXPECT_EQ(first->token, "token of 4");
  EXPECT_EQ(control_->JoinGroup("10.0.0.1:4711")->group, 5);
  EXPECT_EQ(callers.Take(), "3 Bearer secret");
  EXPECT_EQ(callers.Take(), "4 Bearer token of 4");
  // And heartbeats are those of the group joined last.
  supervisor_.on_heartbeat = [&](grpc::ServerContext* context, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    EXPECT_TRUE(stream->Read(&request));
    callers.Put(Caller(context, request.identity()));
    ReadAll(stream);
    return grpc::Status::OK;
  };
  control_->Start(&observer_);
  EXPECT_EQ(callers.Take(), "5 Bearer token of 5");
}

TEST_F(GrpcControlPlaneTest, PassesEachPlanOnOnceAndAcknowledgesIt) {
  Mailbox<int64_t> acknowledged;
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    stream->Read(&request);
    stream->Write(PlanFor(4, 1, 8));
    while (stream->Read(&request) && request.acknowledged_command_id() != 8) {
    }
    acknowledged.Put(8);
    stream->Write(PlanFor(4, 1, 8));
    // From a supervisor that was started again, and numbers its commands anew.
    stream->Write(PlanFor(5, -1, 2));
    stream->Write(Command(v1::REPLICA_COMMAND_STOP, 9, "enough"));
    while (stream->Read(&request) && request.acknowledged_command_id() != 9) {
    }
    acknowledged.Put(9);
    ReadAll(stream);
    return grpc::Status::OK;
  };
  EXPECT_TRUE(control_->plans_groups());
  control_->Start(&observer_);
  EXPECT_EQ(observer_.events.Take(), "plan 4");
  EXPECT_EQ(observer_.events.Take(), "plan 5");
  EXPECT_EQ(observer_.events.Take(), "stop enough");
  EXPECT_EQ(acknowledged.Take(), 8);
  EXPECT_EQ(acknowledged.Take(), 9);
  const GroupPlan first = observer_.plans.Take();
  EXPECT_EQ(first.reason, "more room");
  EXPECT_FALSE(first.leaves());
  EXPECT_EQ(first.next.group, 4);
  EXPECT_EQ(first.next.rank, 1);
  EXPECT_EQ(first.next.world_size, 5);
  EXPECT_EQ(first.next.num_nodes, 2);
  EXPECT_EQ(first.next.master_address, "10.0.0.7:40000");
  EXPECT_THAT(first.next.gpu_types, ::testing::ElementsAre("a100"));
  EXPECT_EQ(first.next.token, "token of 4");
  EXPECT_EQ(first.next.newcomers, 3);
  EXPECT_TRUE(observer_.plans.Take().leaves());
}

TEST_F(GrpcControlPlaneTest, HeartbeatsGoOnInTheNextGroupAndNothingIsLost) {
  Mailbox<bool> older_ended;
  Mailbox<std::string> callers;
  Mailbox<v1::HeartbeatRequest> first_of_next;
  supervisor_.on_heartbeat = [&](grpc::ServerContext* context, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    stream->Read(&request);
    callers.Put(Caller(context, request.identity()));
    if (request.identity().group() == 4) {
      first_of_next.Put(request);
      ReadAll(stream);
      return grpc::Status::OK;
    }
    stream->Write(PlanFor(4, 0, 6));
    ReadAll(stream);
    older_ended.Put(true);
    return grpc::Status(grpc::StatusCode::ABORTED, "group 3 is over");
  };
  control_->Start(&observer_);
  const GroupMembership next = observer_.plans.Take().next;
  EXPECT_EQ(callers.Take(), "3 Bearer secret");
  Progress progress;
  progress.optimizer_steps = 77;
  control_->UpdateProgress(progress);
  // What the older group had to tell is behind it.
  control_->ReportBroken(3, "rank 2 is lost");
  control_->EnterGroup(next);
  EXPECT_TRUE(older_ended.Take());
  EXPECT_EQ(callers.Take(), "4 Bearer token of 4");
  const v1::HeartbeatRequest first = first_of_next.Take();
  EXPECT_EQ(first.identity().replica_id(), "mnist-12345678-3-1");
  EXPECT_EQ(first.progress().optimizer_steps(), 77);
  EXPECT_EQ(first.acknowledged_command_id(), 6);
  EXPECT_FALSE(first.has_broken());
  ASSERT_TRUE(control_->ReportHints({}).ok());
  EXPECT_EQ(supervisor_.hints_callers.Take(), "4 Bearer token of 4");
}

TEST_F(GrpcControlPlaneTest, AReplicaWithAPlaceInTheNextGroupIsNotFencedWhileItChangesOver) {
  Mailbox<std::string> callers;
  supervisor_.on_heartbeat = [&](grpc::ServerContext* context, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    stream->Read(&request);
    callers.Put(Caller(context, request.identity()));
    if (request.identity().group() == 4) return grpc::Status(grpc::StatusCode::ABORTED, "group 4 is over");
    stream->Write(PlanFor(4, 1, 1));
    // Another member was faster.
    return grpc::Status(grpc::StatusCode::ABORTED, "group 3 is over");
  };
  control_->Start(&observer_);
  EXPECT_EQ(observer_.events.Take(), "plan 4");
  EXPECT_EQ(callers.Take(), "3 Bearer secret");
  control_->EnterGroup(observer_.plans.Take().next);
  EXPECT_EQ(callers.Take(), "4 Bearer token of 4");
  EXPECT_EQ(observer_.events.Take(), "fenced group 4 is over");
}

TEST_F(GrpcControlPlaneTest, AReplicaWithoutAPlaceInTheNextGroupIsFenced) {
  supervisor_.on_heartbeat = [](grpc::ServerContext*, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    stream->Read(&request);
    stream->Write(PlanFor(4, -1, 1));
    return grpc::Status(grpc::StatusCode::ABORTED, "group 3 is over");
  };
  control_->Start(&observer_);
  EXPECT_EQ(observer_.events.Take(), "plan 4");
  EXPECT_EQ(observer_.events.Take(), "fenced group 3 is over");
}

TEST_F(GrpcControlPlaneTest, ReportsAsBrokenTheNextGroupThatOthersHaveEntered) {
  Mailbox<v1::HeartbeatRequest> next;
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    stream->Read(&request);
    if (request.identity().group() == 4) {
      next.Put(request);
      stream->Write(PlanFor(5, 1, 2));
      ReadAll(stream);
      return grpc::Status::OK;
    }
    stream->Write(PlanFor(4, 1, 1));
    return grpc::Status(grpc::StatusCode::ABORTED, "group 3 is over");
  };
  control_->Start(&observer_);
  EXPECT_EQ(observer_.events.Take(), "plan 4");
  control_->ReportBroken(4, "the last barrier failed");
  const v1::HeartbeatRequest first = next.Take();
  EXPECT_EQ(first.broken().group(), 4);
  EXPECT_EQ(first.broken().reason(), "the last barrier failed");
  EXPECT_EQ(observer_.events.Take(), "plan 5");
}

TEST_F(GrpcControlPlaneTest, ABrokenGroupAndTheTimesOfAChangeAreToldAtOnce) {
  supervisor_.on_join = [](grpc::ServerContext*, const v1::JoinGroupRequest&,
                           grpc::ServerWriter<v1::JoinGroupResponse>* writer) {
    v1::JoinGroupResponse response;
    response.mutable_formed()->set_group(3);
    response.mutable_formed()->set_rank(0);
    writer->Write(response);
    return grpc::Status::OK;
  };
  Mailbox<bool> connected;
  Mailbox<v1::HeartbeatRequest> heartbeats;
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    v1::HeartbeatResponse response = Command(v1::REPLICA_COMMAND_NONE, 0, "");
    response.mutable_period()->set_seconds(60);
    stream->Read(&request);
    stream->Write(response);
    connected.Put(true);
    for (int i = 0; i < 2 && stream->Read(&request); ++i) heartbeats.Put(request);
    ReadAll(stream);
    return grpc::Status::OK;
  };
  ASSERT_TRUE(control_->JoinGroup("").ok());
  control_->Start(&observer_);
  connected.Take();
  control_->ReportRescale({.group = 3, .agree = 0.25, .rebuild = 1.5, .synchronize = 2, .first_step = 0.125});
  const v1::RescaleTimes times = heartbeats.Take().rescale();
  EXPECT_EQ(times.group(), 3);
  EXPECT_EQ(times.agree().nanos(), 250'000'000);
  EXPECT_EQ(times.rebuild().seconds(), 1);
  EXPECT_EQ(times.rebuild().nanos(), 500'000'000);
  EXPECT_EQ(times.synchronize().seconds(), 2);
  EXPECT_EQ(times.first_step().nanos(), 125'000'000);
  control_->ReportBroken(3, "rank 1 is lost");
  EXPECT_EQ(heartbeats.Take().broken().reason(), "rank 1 is lost");
}

TEST_F(GrpcControlPlaneTest, ReportsHintsFieldByField) {
  Hints hints;
  hints.init_batch_size = 64;
  hints.max_profiled_replicas = 2;
  hints.perf_params = HintPerfParams{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.5};
  ASSERT_TRUE(control_->ReportHints(hints).ok());
  const v1::Hints got = supervisor_.hints.Take();
  EXPECT_EQ(got.init_batch_size(), 64);
  EXPECT_EQ(got.max_profiled_replicas(), 2);
  EXPECT_FALSE(got.has_max_batch_size());
  EXPECT_FALSE(got.has_grad_params());
  EXPECT_EQ(got.perf_params().alpha_c(), 0.1);
  EXPECT_EQ(got.perf_params().beta_c(), 0.2);
  EXPECT_EQ(got.perf_params().alpha_n(), 0.3);
  EXPECT_EQ(got.perf_params().beta_n(), 0.4);
  EXPECT_EQ(got.perf_params().alpha_r(), 0.5);
  EXPECT_EQ(got.perf_params().beta_r(), 0.6);
  EXPECT_EQ(got.perf_params().gamma(), 1.5);
}

// A supervisor with TLS.
class SecureControlPlaneTest : public ::testing::Test {
 protected:
  SecureControlPlaneTest() {
    std::string pattern = testing::TempDir() + "/adaptdl-control-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    for (const char* cluster : {"/own", "/other"}) {
      EXPECT_TRUE(
          certificates::MakeCertificates(
              {.folder = folder_ + cluster, .identities = {{.service = "supervisor"}}, .now = absl::Now()})
              .ok());
    }
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs = {{ReadWholeFile(folder_ + "/own/supervisor/key.pem").value(),
                               ReadWholeFile(folder_ + "/own/supervisor/cert.pem").value()}};
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port_);
    builder.RegisterService(&supervisor_);
    server_ = builder.BuildAndStart();
  }
  ~SecureControlPlaneTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
    std::filesystem::remove_all(folder_);
  }

  absl::Status Report(const std::string& ca, const std::string& name = "") {
    GrpcControlPlaneOptions options;
    options.supervisor_address = "127.0.0.1:" + std::to_string(port_);
    options.supervisor_ca = ca.empty() ? "" : folder_ + ca;
    options.supervisor_tls_name = name;
    options.group = 3;
    options.token = "secret";
    return CreateGrpcControlPlane(options)->ReportHints(Hints());
  }

  std::string folder_;
  int port_ = 0;
  FakeSupervisor supervisor_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(SecureControlPlaneTest, ProvesWhoItIsToTheRightSupervisorOnly) {
  EXPECT_TRUE(Report("/own/ca.pem").ok());
  EXPECT_EQ(supervisor_.hints_callers.Take(), "3 Bearer secret");
  EXPECT_TRUE(absl::IsUnavailable(Report("/other/ca.pem")));
  EXPECT_TRUE(absl::IsUnavailable(Report("/own/ca.pem", "adaptdl.example.com")));
  EXPECT_TRUE(absl::IsUnavailable(Report("")));
}

// Two supervisors, of which the second has taken over from the first.
class SeveralSupervisorsTest : public GrpcControlPlaneTest {
 protected:
  void SetUp() override {
    GrpcControlPlaneTest::SetUp();
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&second_);
    second_server_ = builder.BuildAndStart();
    GrpcControlPlaneOptions options;
    options.supervisor_address = address_ + ",127.0.0.1:" + std::to_string(port);
    options.job_namespace = "default";
    options.job = "mnist";
    options.replica_id = "mnist-12345678-3-1";
    options.group = 3;
    options.token = "secret";
    control_ = CreateGrpcControlPlane(options);
  }
  void TearDown() override {
    control_->Shutdown();
    second_server_->Shutdown(std::chrono::system_clock::now());
    GrpcControlPlaneTest::TearDown();
  }

  static v1::HeartbeatResponse CommandOf(int64_t term, v1::ReplicaCommand command, int64_t id,
                                         const std::string& reason) {
    v1::HeartbeatResponse response = Command(command, id, reason);
    response.set_term(term);
    return response;
  }
  static grpc::Status Formed(grpc::ServerWriter<v1::JoinGroupResponse>* writer, int64_t term, int rank) {
    v1::JoinGroupResponse formed;
    formed.set_term(term);
    formed.mutable_formed()->set_group(3);
    formed.mutable_formed()->set_rank(rank);
    formed.mutable_formed()->set_world_size(2);
    writer->Write(formed);
    return grpc::Status::OK;
  }

  FakeSupervisor second_;
  std::unique_ptr<grpc::Server> second_server_;
};

TEST_F(SeveralSupervisorsTest, LeavesOneThatDoesNotAnswer) {
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    stream->Write(CommandOf(1, v1::REPLICA_COMMAND_NONE, 0, ""));
    ReadAll(stream);  // As if it was stopped.
    return grpc::Status::OK;
  };
  second_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    stream->Write(CommandOf(2, v1::REPLICA_COMMAND_CHECKPOINT, 1, "from the second"));
    ReadAll(stream);
    return grpc::Status::OK;
  };
  control_->Start(&observer_);
  EXPECT_EQ(observer_.events.Take(), "checkpoint from the second");
}

TEST_F(SeveralSupervisorsTest, IgnoresOneWhoseTermIsOver) {
  std::atomic<int> calls = 0;
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    // Leads, fails, comes back without having noticed, and leads again.
    const int64_t terms[] = {5, 4, 7};
    const int call = calls++;
    const int64_t term = terms[std::min(call, 2)];
    stream->Write(
        CommandOf(term, v1::REPLICA_COMMAND_CHECKPOINT, call + 1, "in term " + std::to_string(term)));
    if (term == 5) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "over");
    ReadAll(stream);
    return grpc::Status::OK;
  };
  second_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "a standby");
  };
  control_->Start(&observer_);
  EXPECT_EQ(observer_.events.Take(), "checkpoint in term 5");
  EXPECT_EQ(observer_.events.Take(), "checkpoint in term 7");
}

TEST_F(SeveralSupervisorsTest, JoinsWithTheNewestLeader) {
  supervisor_.on_join = [&](grpc::ServerContext*, const v1::JoinGroupRequest&,
                            grpc::ServerWriter<v1::JoinGroupResponse>* writer) {
    v1::JoinGroupResponse forming;
    forming.set_term(3);
    forming.mutable_forming();
    writer->Write(forming);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "over");
  };
  std::atomic<int> calls = 0;
  second_.on_join = [&](grpc::ServerContext*, const v1::JoinGroupRequest&,
                        grpc::ServerWriter<v1::JoinGroupResponse>* writer) {
    const bool stale = calls++ == 0;
    return Formed(writer, stale ? 2 : 4, stale ? 0 : 1);
  };
  const auto membership = control_->JoinGroup("");
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_EQ(membership->rank, 1);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace adaptdl::elastic
