// What replicas may do: join their group, send heartbeats, report hints, each only as who they are.

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/services/supervisor/cluster_fixture.h"
#include "tests/services/supervisor/replica_calls.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Hints SomeHints() {
  v1::Hints hints;
  hints.set_init_batch_size(64);
  hints.set_max_profiled_replicas(1);
  return hints;
}

class ReplicasTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    worker_ = AddWorker("n1");
    other_worker_ = AddWorker("n2");
    job_ = Submit(NewJob("a"));
    Allocate(job_, {"n1", "n2"});
    rank0_ = worker_->NextLaunch();
    rank1_ = other_worker_->NextLaunch();
  }
  void TearDown() override {
    worker_ = nullptr;
    other_worker_ = nullptr;
    ClusterTest::TearDown();
  }
  std::unique_ptr<Join> JoinAs(const v1::LaunchReplica& launch, const std::string& address) {
    return std::make_unique<Join>(replicas_.get(), IdentityOf(launch), launch.token(), address);
  }
  void Run() {
    worker_->Running(rank0_);
    other_worker_->Running(rank1_);
    WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  }

  std::unique_ptr<FakeWorker> worker_;
  std::unique_ptr<FakeWorker> other_worker_;
  v1::Job job_;
  v1::LaunchReplica rank0_;
  v1::LaunchReplica rank1_;
};

TEST_F(ReplicasTest, CheckpointsThatFailAreAnEventOfTheJob) {
  const auto first = JoinAs(rank0_, "n1:5000");
  const auto second = JoinAs(rank1_, "n2:5000");
  Run();
  Heart leader(replicas_.get(), IdentityOf(rank0_), rank0_.token());
  Heart other(replicas_.get(), IdentityOf(rank1_), rank1_.token());
  const auto report = [](Heart* heart, int64_t step, const std::string& error) {
    v1::HeartbeatRequest request;
    request.mutable_checkpoint()->set_step(step);
    request.mutable_checkpoint()->set_error(error);
    heart->Send(request);
    heart->Next();
  };
  report(&leader, 1, "");
  report(&other, 1, "it is not for rank 1 to say");
  report(&leader, 2, "disk full");
  report(&leader, 2, "disk full");
  report(&leader, 3, "disk very full");
  EXPECT_EQ(Get("a").status().checkpoint_error(), "disk very full");
  // The allocator is to know that the job would lose what it did since.
  EXPECT_EQ(Snapshot().jobs(0).status().checkpoint_error(), "disk very full");
  report(&leader, 4, "");
  EXPECT_EQ(Get("a").status().checkpoint_error(), "");
  std::vector<std::string> told;
  for (const v1::Event& event : Events("a")) {
    if (event.reason().starts_with("Checkpoint")) told.push_back(event.message());
  }
  ASSERT_EQ(told.size(), 2u);
  EXPECT_THAT(told[0], HasSubstr("after step 2, the one before stays and training goes on: disk full"));
  EXPECT_THAT(told[1], HasSubstr("again, the first after step 4"));
  v1::HeartbeatRequest request;
  request.mutable_checkpoint()->set_step(-1);
  request.mutable_checkpoint()->set_error("disk full");
  leader.Send(request);
  EXPECT_EQ(leader.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ReplicasTest, RendezvousWaitsForExactlyTheMembersAndSaysWhoIsMissing) {
  const auto first = JoinAs(rank0_, "n1:5000");
  const v1::JoinGroupResponse forming = first->Next();
  ASSERT_TRUE(forming.has_forming());
  ASSERT_EQ(forming.forming().missing_size(), 1);
  EXPECT_EQ(forming.forming().missing(0).replica_id(), rank1_.replica_id());
  EXPECT_EQ(forming.forming().missing(0).node_id(), "n2");
  // No timer forms a group.
  Advance(absl::Seconds(5));
  const auto second = JoinAs(rank1_, "");
  const v1::GroupFormed formed = second->Formed();
  EXPECT_EQ(formed.rank(), 1);
  EXPECT_EQ(formed.world_size(), 2);
  EXPECT_EQ(formed.num_nodes(), 2);
  EXPECT_EQ(formed.master_address(), "n1:5000");
  EXPECT_EQ(first->Formed().rank(), 0);
  EXPECT_TRUE(first->End().ok());
  EXPECT_EQ(formed.members_size(), 2);
  // Whoever lost the answer asks again, or for less.
  const v1::GroupFormed brief =
      Join(replicas_.get(), IdentityOf(rank1_), rank1_.token(), "", false, true).Formed();
  EXPECT_EQ(brief.world_size(), 2);
  EXPECT_EQ(brief.rank(), 1);
  EXPECT_EQ(brief.members_size(), 0);
  EXPECT_EQ(JoinAs(rank1_, "")->Formed().master_address(), "n1:5000");
  EXPECT_EQ(JoinAs(rank0_, "n1:5001")->End().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(HasEvent("a", "RendezvousComplete"));
  EXPECT_TRUE(Get("a").status().replicas(1).joined());
}

TEST_F(ReplicasTest, MembersLearnWhichGpusTheGroupIsOn) {
  const auto types = [this](const std::string& name, int gpus) {
    v1::Job job = NewJob(name);
    job.mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(100);
    job.mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(gpus);
    job = Submit(job);
    FakeWorker fast(channel_, name + "-fast");
    FakeWorker slow(channel_, name + "-slow");
    fast.node()->set_gpu_type("T4");
    slow.node()->set_gpu_type("A100");
    for (FakeWorker* worker : {&fast, &slow}) {
      worker->node()->mutable_capacity()->set_gpus(2);
      EXPECT_TRUE(worker->Register().ok());
      worker->Connect();
    }
    Allocate(job, {name + "-fast", name + "-fast", name + "-slow"});
    const v1::LaunchReplica rank0 = fast.NextLaunch();
    const v1::LaunchReplica rank1 = fast.NextLaunch();
    const v1::LaunchReplica rank2 = slow.NextLaunch();
    auto first = JoinAs(rank0, "h:1");
    auto second = JoinAs(rank1, "");
    auto third = JoinAs(rank2, "");
    const v1::GroupFormed formed = first->Formed();
    return std::vector<std::string>(formed.gpu_types().begin(), formed.gpu_types().end());
  };
  EXPECT_EQ(types("gpu", 1), (std::vector<std::string>{"A100", "T4"}));
  EXPECT_TRUE(types("cpu", 0).empty()) << "it computes on none of the GPUs there";
}

TEST_F(ReplicasTest, RendezvousOfAStoppedGroupEnds) {
  const auto first = JoinAs(rank0_, "n1:5000");
  first->Next();
  EXPECT_TRUE(Cancel("a").ok());
  EXPECT_EQ(first->End().error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(ReplicasTest, OldGroupsAreFencedOff) {
  Run();
  Heart heart(replicas_.get(), IdentityOf(rank0_), rank0_.token());
  heart.Beat();
  EXPECT_EQ(heart.Next().command(), v1::REPLICA_COMMAND_NONE);
  Allocate(job_, {"n1"});
  worker_->Exited(rank0_, 143);
  other_worker_->Exited(rank1_, 143);
  const v1::LaunchReplica next = worker_->NextLaunch();
  EXPECT_EQ(next.group(), 2);
  EXPECT_EQ(heart.End().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(JoinAs(rank0_, "n1:5000")->End().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReportHints(IdentityOf(rank0_), rank0_.token(), SomeHints()).error_code(),
            grpc::StatusCode::ABORTED);
  // The old token opens nothing of the new group.
  EXPECT_EQ(ReportHints(IdentityOf(next), rank0_.token(), SomeHints()).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(ReportHints(IdentityOf(next), next.token(), SomeHints()).ok());
}

// Defect 44: anybody could write any job's hints.
TEST_F(ReplicasTest, Defect44NobodySpeaksForAnotherJob) {
  const v1::Job other = Submit(NewJob("b"));
  Allocate(other, {"n1"});
  const v1::LaunchReplica stranger = worker_->NextLaunch();
  const auto code = [&](const v1::ReplicaIdentity& identity, const std::string& token) {
    return ReportHints(identity, token, SomeHints()).error_code();
  };
  EXPECT_EQ(code(IdentityOf(rank0_), rank0_.token()), grpc::StatusCode::OK);
  EXPECT_EQ(code(IdentityOf(rank0_), stranger.token()), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code(IdentityOf(rank0_), ""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code(IdentityOf(rank0_), rank0_.token().substr(0, 63)), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code(v1::ReplicaIdentity(), rank0_.token()), grpc::StatusCode::UNAUTHENTICATED);
  v1::ReplicaIdentity unknown = IdentityOf(rank0_);
  unknown.set_job("nobody");
  EXPECT_EQ(code(unknown, rank0_.token()), grpc::StatusCode::UNAUTHENTICATED);
  v1::ReplicaIdentity no_member = IdentityOf(rank0_);
  no_member.set_replica_id(stranger.replica_id());
  EXPECT_EQ(code(no_member, rank0_.token()), grpc::StatusCode::PERMISSION_DENIED);
  // The other calls look as closely.
  EXPECT_EQ(Join(replicas_.get(), IdentityOf(rank0_), stranger.token(), "n1:1").End().error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  Heart heart(replicas_.get(), IdentityOf(rank0_), stranger.token());
  heart.Beat();
  EXPECT_EQ(heart.End().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  grpc::ClientContext bare;
  SetDeadline(&bare);
  v1::ReportHintsRequest request;
  *request.mutable_identity() = IdentityOf(rank0_);
  v1::ReportHintsResponse response;
  EXPECT_EQ(replicas_->ReportHints(&bare, request, &response).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ReplicasTest, Defect44TokensAreNeverShown) {
  Run();
  EXPECT_THAT(Get("a").DebugString(), Not(HasSubstr(rank0_.token())));
  EXPECT_THAT(Snapshot().DebugString(), Not(HasSubstr(rank0_.token())));
  for (const v1::Event& event : Events("a")) EXPECT_THAT(event.DebugString(), Not(HasSubstr(rank0_.token())));
}

// Defect 30: hints are checked, and one job's nonsense reaches nobody.
TEST_F(ReplicasTest, Defect30HintsAreCheckedBeforeAnybodySeesThem) {
  v1::Hints hints = SomeHints();
  ASSERT_TRUE(ReportHints(IdentityOf(rank0_), rank0_.token(), hints).ok());
  hints.mutable_perf_params()->set_alpha_c(std::nan(""));
  EXPECT_EQ(ReportHints(IdentityOf(rank0_), rank0_.token(), hints).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  hints = SomeHints();
  hints.set_max_batch_size(1);
  EXPECT_EQ(ReportHints(IdentityOf(rank0_), rank0_.token(), hints).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  const int64_t version = Snapshot().version();
  Advance(absl::Seconds(1));
  const v1::ClusterSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.jobs(0).status().hints().init_batch_size(), 64);
  EXPECT_FALSE(snapshot.jobs(0).status().hints().has_perf_params());
  EXPECT_EQ(snapshot.version(), version) << "hints alone must not void the allocator's decision";
}

TEST_F(ReplicasTest, NonsenseIsToldToTheJobsUserOnce) {
  v1::Hints hints = SomeHints();
  hints.mutable_perf_params()->set_alpha_c(std::nan(""));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ReportHints(IdentityOf(rank0_), rank0_.token(), hints).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  int told = 0;
  for (const v1::Event& event : Events("a")) {
    if (event.reason() != "ReportRefused") continue;
    ++told;
    EXPECT_EQ(event.type(), v1::EVENT_TYPE_WARNING);
    EXPECT_EQ(event.replica_id(), rank0_.replica_id());
    EXPECT_NE(event.message().find("alpha_c"), std::string::npos) << event.message();
  }
  EXPECT_EQ(told, 1);
}

TEST_F(ReplicasTest, AllocatorSeesNewHintsAtOnce) {
  grpc::ClientContext context;
  SetDeadline(&context);
  auto stream = scheduling_->WatchCluster(&context, {});
  v1::WatchClusterResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(ReportHints(IdentityOf(rank0_), rank0_.token(), SomeHints()).ok());
  Advance(absl::Seconds(1));
  while (!response.snapshot().jobs(0).status().has_hints()) ASSERT_TRUE(stream->Read(&response));
  context.TryCancel();
  while (stream->Read(&response)) {
  }
  stream->Finish();
}

TEST_F(ReplicasTest, StopReachesReplicasByTheirHeartbeat) {
  Run();
  Heart heart(replicas_.get(), IdentityOf(rank1_), rank1_.token());
  heart.Beat();
  const v1::HeartbeatResponse first = heart.Next();
  EXPECT_EQ(first.command(), v1::REPLICA_COMMAND_NONE);
  EXPECT_EQ(first.period().seconds(), 2);
  EXPECT_TRUE(Cancel("a").ok());
  const v1::HeartbeatResponse stop = heart.NextCommand();
  EXPECT_EQ(stop.command(), v1::REPLICA_COMMAND_STOP);
  EXPECT_GT(stop.command_id(), 0);
  // One that connects late learns it with its first message.
  Heart late(replicas_.get(), IdentityOf(rank0_), rank0_.token());
  late.Beat();
  EXPECT_EQ(late.NextCommand().command(), v1::REPLICA_COMMAND_STOP);
}

TEST_F(ReplicasTest, PreemptionAsksForACheckpointUntilItIsAcknowledged) {
  Run();
  Heart heart(replicas_.get(), IdentityOf(rank0_), rank0_.token());
  heart.Beat(-1, 41);
  heart.Next();
  v1::ConnectRequest notice;
  notice.mutable_preemption_notice()->set_reason("spot reclaim");
  other_worker_->Send(notice);
  const v1::HeartbeatResponse command = heart.NextCommand();
  EXPECT_EQ(command.command(), v1::REPLICA_COMMAND_CHECKPOINT);
  EXPECT_GT(command.command_id(), 41) << "larger than what the replica knows from before";
  heart.Beat(-1, 41);
  EXPECT_EQ(heart.Next().command(), v1::REPLICA_COMMAND_CHECKPOINT);
  heart.Beat(-1, command.command_id());
  EXPECT_EQ(heart.Next().command(), v1::REPLICA_COMMAND_NONE);
}

TEST_F(ReplicasTest, ProgressOfRankZeroIsKeptAndGivesAnEstimate) {
  Run();
  Heart rank0(replicas_.get(), IdentityOf(rank0_), rank0_.token());
  Heart rank1(replicas_.get(), IdentityOf(rank1_), rank1_.token());
  rank0.Beat(0.1);
  rank0.Next();
  Advance(absl::Seconds(1));
  Advance(absl::Seconds(4));
  rank0.Beat(0.2);
  rank0.Next();
  rank1.Beat(0.9);  // Not its business.
  rank1.Next();
  Advance(absl::Seconds(1));  // No longer: the workers send no heartbeats.
  const v1::Job job = Get("a");
  EXPECT_DOUBLE_EQ(job.status().progress().fraction(), 0.2);
  ASSERT_TRUE(job.status().has_estimated_completion_time());
  // A tenth in some seconds leaves eight tenths to go, from when the second one was stored.
  EXPECT_GT(job.status().estimated_completion_time().seconds(), absl::ToUnixSeconds(clock_.Now()) + 20);
  EXPECT_LT(job.status().estimated_completion_time().seconds(), absl::ToUnixSeconds(clock_.Now()) + 60);
}

TEST_F(ReplicasTest, ARescaleLastsUntilTheFirstStepOfTheWholeGroup) {
  Run();
  const auto third_worker = AddWorker("n3");
  auto heart = std::make_unique<Heart>(replicas_.get(), IdentityOf(rank0_), rank0_.token());
  heart->Beat(0.1);
  heart->Next();
  Advance(absl::Seconds(1));
  ASSERT_TRUE(Get("a").status().has_progress());
  Allocate(job_, {"n2", "n3"});
  clock_.Advance(absl::Seconds(1));
  // The last words of the old group end nothing.
  heart->Beat(0.2);
  heart->Next();
  worker_->Exited(rank0_, 143);
  other_worker_->Exited(rank1_, 143);
  const v1::LaunchReplica rank0 = other_worker_->NextLaunch();
  const v1::LaunchReplica rank1 = third_worker->NextLaunch();
  clock_.Advance(absl::Seconds(2));
  third_worker->Running(rank1);
  other_worker_->Running(rank0);
  EXPECT_FALSE(WaitForPhase("a", v1::JOB_PHASE_RUNNING).status().has_rescale_duration());
  clock_.Advance(absl::Seconds(4));
  Heart next(replicas_.get(), IdentityOf(rank0), rank0.token());
  Heart other(replicas_.get(), IdentityOf(rank1), rank1.token());
  // A replica that is only alive, and one that does not speak for the group.
  next.BeatWithoutProgress();
  next.Next();
  other.Beat(0.2);
  other.Next();
  EXPECT_FALSE(Get("a").status().has_rescale_duration());
  next.Beat(0.2);
  next.Next();
  EXPECT_EQ(Get("a").status().rescale_duration().seconds(), 7);
  clock_.Advance(absl::Seconds(5));
  next.Beat(0.3);
  next.Next();
  EXPECT_EQ(Get("a").status().rescale_duration().seconds(), 7);
}

TEST_F(ReplicasTest, AFirstStepIsNotLostIfItIsSeenBeforeTheProcesses) {
  Run();
  Heart heart(replicas_.get(), IdentityOf(rank0_), rank0_.token());
  heart.Beat(0.1);
  heart.Next();
  Advance(absl::Seconds(1));
  Allocate(job_, {"n1"});
  worker_->Exited(rank0_, 143);
  other_worker_->Exited(rank1_, 143);
  const v1::LaunchReplica launch = worker_->NextLaunch();
  clock_.Advance(absl::Seconds(3));
  Heart next(replicas_.get(), IdentityOf(launch), launch.token());
  next.Beat(0.2);
  next.Next();
  clock_.Advance(absl::Seconds(2));
  worker_->Running(launch);
  EXPECT_EQ(WaitForPhase("a", v1::JOB_PHASE_RUNNING).status().rescale_duration().seconds(), 3);
}

TEST_F(ReplicasTest, AJobThatWaitsHasNoEstimate) {
  Run();
  Heart heart(replicas_.get(), IdentityOf(rank0_), rank0_.token());
  heart.Beat(0.1);
  heart.Next();
  Advance(absl::Seconds(5));
  heart.Beat(0.2);
  heart.Next();
  Advance(absl::Seconds(1));
  ASSERT_TRUE(Get("a").status().has_estimated_completion_time());
  Allocate(job_, {});
  worker_->Exited(rank0_, 143);
  other_worker_->Exited(rank1_, 143);
  EXPECT_FALSE(WaitForPhase("a", v1::JOB_PHASE_PENDING).status().has_estimated_completion_time());
}

TEST_F(ReplicasTest, AJobThatHasEndedShowsItsLastProgress) {
  Run();
  Heart heart(replicas_.get(), IdentityOf(rank0_), rank0_.token());
  heart.Beat(1.0);
  heart.Next();
  worker_->Exited(rank0_, 0);
  other_worker_->Exited(rank1_, 0);
  // The clock stands still: nothing but the end itself stores progress.
  EXPECT_EQ(WaitForPhase("a", v1::JOB_PHASE_SUCCEEDED).status().progress().optimizer_steps(), 2000);
}

TEST_F(ReplicasTest, ProgressThatIsNoNumberEndsTheStream) {
  Heart heart(replicas_.get(), IdentityOf(rank0_), rank0_.token());
  heart.Beat(std::nan(""));
  EXPECT_EQ(heart.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace adaptdl::supervisor
