// The gRPC control plane against a supervisor that the test plays, over a real connection.

#include "libs/elastic/control/grpc/grpc_control_plane.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/control/grpc/grpc_control_plane_fixture.h"

namespace adaptdl::elastic {
namespace {

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
  sent.gain = 1.5;
  sent.efficiency = 0.75;
  sent.gradient_noise_scale = 500;
  sent.learning_rate_factor = 1.25;
  sent.step_times = StepTimes{.compute = 0.5, .sync = 0.25, .data = 0.125};
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
  EXPECT_EQ(got.gain(), 1.5);
  EXPECT_EQ(got.efficiency(), 0.75);
  EXPECT_EQ(got.gradient_noise_scale(), 500);
  EXPECT_EQ(got.learning_rate_factor(), 1.25);
  EXPECT_EQ(got.step_times().compute(), 0.5);
  EXPECT_EQ(got.step_times().sync(), 0.25);
  EXPECT_EQ(got.step_times().data(), 0.125);
  ASSERT_EQ(got.metrics_size(), 2);
  EXPECT_EQ(got.metrics(0).name(), "loss");
  EXPECT_TRUE(std::isnan(got.metrics(0).value()));
  EXPECT_EQ(got.metrics(0).step(), 9);
  EXPECT_EQ(got.metrics(1).value(), 0.5);
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

// Older ones neither acknowledge reports nor say that they do.
TEST_F(GrpcControlPlaneTest, AnOlderSupervisorIsToldAgainWithEachHeartbeat) {
  Mailbox<v1::HeartbeatRequest> heartbeats;
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    stream->Read(&request);
    stream->Write(Command(v1::REPLICA_COMMAND_NONE, 0, ""));
    for (int told = 0; told < 3 && stream->Read(&request); told += request.has_broken() ? 1 : 0) {
      if (request.has_broken()) heartbeats.Put(request);
      stream->Write(Command(v1::REPLICA_COMMAND_NONE, 0, ""));
    }
    ReadAll(stream);
    return grpc::Status::OK;
  };
  control_->Start(&observer_);
  control_->ReportBroken(3, "rank 1 is lost");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(heartbeats.Take().broken().reason(), "rank 1 is lost");
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

}  // namespace
}  // namespace adaptdl::elastic
