// A supervisor that is restarted on its store finds everything again, and no training process ends for it.

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

class RestartTest : public ClusterTest {
 protected:
  std::unique_ptr<JobStore> MakeStore() override {
    SqliteJobStoreOptions options;
    options.folder = folder_.path();
    auto store = SqliteJobStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  void Restart() {
    Stop();
    Start();
  }

  TemporaryFolder folder_;
};

TEST_F(RestartTest, RunningReplicasAreReattached) {
  auto worker = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1", "n1"});
  const v1::LaunchReplica rank0 = worker->NextLaunch();
  const v1::LaunchReplica rank1 = worker->NextLaunch();
  worker->Running(rank0);
  worker->Running(rank1);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  const int64_t session = worker->session();
  worker->Disconnect();
  const int64_t version = Snapshot().version();
  clock_.Advance(absl::Minutes(1));
  Restart();

  const v1::Job after = Get("a");
  EXPECT_EQ(after.uid(), job.uid());
  EXPECT_EQ(after.status().phase(), v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(after.status().replicas_size(), 2);
  EXPECT_GT(Snapshot().version(), version) << "an allocator's old decision must not fit by chance";
  // Nodes have a fresh lease; the worker goes on with the session that it has.
  Advance(absl::Seconds(5));
  grpc::ClientContext context;
  SetDeadline(&context);
  auto stream = nodes_->Connect(&context);
  v1::ConnectRequest hello;
  hello.mutable_hello()->set_node_id("n1");
  hello.mutable_hello()->set_session_id(session);
  *hello.mutable_hello()->add_replicas() = FakeWorker::ReportOf(rank0, v1::REPLICA_STATE_RUNNING);
  *hello.mutable_hello()->add_replicas() = FakeWorker::ReportOf(rank1, v1::REPLICA_STATE_RUNNING);
  stream->Write(hello);
  // The secrets are the same.
  v1::Hints hints;
  hints.set_init_batch_size(8);
  EXPECT_TRUE(ReportHints(IdentityOf(rank0), rank0.token(), hints).ok());
  v1::ConnectRequest ended;
  *ended.mutable_replica_report() = FakeWorker::ReportOf(rank0, v1::REPLICA_STATE_EXITED, 0);
  stream->Write(ended);
  v1::ConnectResponse command;
  ASSERT_TRUE(stream->Read(&command));
  EXPECT_EQ(command.acknowledge().replica_id(), rank0.replica_id()) << "nothing was stopped in between";
  *ended.mutable_replica_report() = FakeWorker::ReportOf(rank1, v1::REPLICA_STATE_EXITED, 0);
  stream->Write(ended);
  WaitForPhase("a", v1::JOB_PHASE_SUCCEEDED);
  EXPECT_EQ(Get("a").status().restarts(), 0);
}

// Its end and the next group's launch are one change.
TEST_F(RestartTest, TheEndOfAGroupsLastReplicaIsStored) {
  auto worker = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1"});
  const v1::LaunchReplica first = worker->NextLaunch();
  worker->Running(first);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  Allocate(job, {"n1", "n1"});
  EXPECT_EQ(worker->NextStop().replica_id(), first.replica_id());
  worker->Exited(first, 143);
  EXPECT_EQ(worker->NextLaunch().group(), 2);
  EXPECT_EQ(worker->NextLaunch().group(), 2);
  worker = nullptr;
  Stop();

  const auto store = MakeStore();
  ASSERT_NE(store, nullptr);
  const auto replicas = store->ListReplicas(job.uid());
  ASSERT_TRUE(replicas.ok()) << replicas.status();
  ASSERT_EQ(replicas->size(), 3u);
  const v1::Replica& ended = replicas->front().replica;
  EXPECT_EQ(ended.replica_id(), first.replica_id());
  EXPECT_EQ(ended.state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(ended.exit_code(), 143);
  const auto contents = store->Load(absl::Now());
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->replicas.size(), 2u) << "only the new group's are living";
}

TEST_F(RestartTest, LaunchThatWasNotDeliveredIsRepeated) {
  auto worker = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1"});
  const v1::LaunchReplica launch = worker->NextLaunch();
  worker = nullptr;
  Restart();
  auto again = std::make_unique<FakeWorker>(channel_, "n1");
  ASSERT_TRUE(again->Register().ok());
  again->Connect();
  const v1::LaunchReplica repeated = again->NextLaunch();
  EXPECT_EQ(repeated.replica_id(), launch.replica_id());
  EXPECT_EQ(repeated.token(), launch.token());
}

TEST_F(RestartTest, StopThatWasNotDeliveredIsRepeated) {
  auto worker = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1"});
  const v1::LaunchReplica launch = worker->NextLaunch();
  worker->Running(launch);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  worker = nullptr;
  EXPECT_TRUE(Cancel("a").ok());
  Restart();
  auto again = std::make_unique<FakeWorker>(channel_, "n1");
  ASSERT_TRUE(again->Register().ok());
  again->Connect({FakeWorker::ReportOf(launch, v1::REPLICA_STATE_RUNNING)});
  EXPECT_EQ(again->NextStop().replica_id(), launch.replica_id());
  again->Exited(launch, 143);
  WaitForPhase("a", v1::JOB_PHASE_CANCELLED);
}

TEST_F(RestartTest, NodeThatDoesNotComeBackIsLost) {
  auto worker = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1"});
  worker->Running(worker->NextLaunch());
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  worker = nullptr;
  Restart();
  Advance(absl::Seconds(6));
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
  Advance(absl::Seconds(2));
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_PENDING);
  EXPECT_EQ(Get("a").status().failures(), 0);
}

TEST_F(RestartTest, RendezvousGoesOn) {
  auto worker = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1", "n1"});
  const v1::LaunchReplica rank0 = worker->NextLaunch();
  const v1::LaunchReplica rank1 = worker->NextLaunch();
  const auto join = [&](const v1::LaunchReplica& launch, const std::string& address) {
    grpc::ClientContext context;
    Authenticate(&context, launch.token());
    v1::JoinGroupRequest request;
    *request.mutable_identity() = IdentityOf(launch);
    request.set_address(address);
    auto stream = replicas_->JoinGroup(&context, request);
    v1::JoinGroupResponse response;
    EXPECT_TRUE(stream->Read(&response));
    context.TryCancel();
    return response;
  };
  EXPECT_TRUE(join(rank0, "h:1").has_forming());
  worker = nullptr;
  Restart();
  const v1::JoinGroupResponse formed = join(rank1, "");
  ASSERT_TRUE(formed.has_formed());
  EXPECT_EQ(formed.formed().master_address(), "h:1");
}

TEST_F(RestartTest, RescalesAreTimedAcrossTheRestart) {
  auto worker = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1", "n1"});
  const v1::LaunchReplica rank0 = worker->NextLaunch();
  const v1::LaunchReplica rank1 = worker->NextLaunch();
  worker->Running(rank0);
  worker->Running(rank1);
  EXPECT_FALSE(WaitForPhase("a", v1::JOB_PHASE_RUNNING).status().has_rescale_duration());
  Allocate(job, {"n1"});
  worker = nullptr;
  clock_.Advance(absl::Seconds(10));
  Restart();
  auto again = std::make_unique<FakeWorker>(channel_, "n1");
  ASSERT_TRUE(again->Register().ok());
  again->Connect({FakeWorker::ReportOf(rank0, v1::REPLICA_STATE_EXITED, 143),
                  FakeWorker::ReportOf(rank1, v1::REPLICA_STATE_EXITED, 143)});
  const v1::LaunchReplica next = again->NextLaunch();
  clock_.Advance(absl::Seconds(3));
  again->Running(next);
  const v1::Job running = WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(running.status().rescale_duration().seconds(), 13);
}

TEST_F(RestartTest, WordsAreStoredWithTheNextChange) {
  auto worker = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1"});
  v1::JobAllocation decision = AllocationOf(job, {"n1"});
  decision.set_reason("newer words");
  decision.add_explanation("More.");
  ASSERT_TRUE(Apply({decision}).ok());
  worker->Running(worker->NextLaunch());
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  worker = nullptr;
  Restart();
  EXPECT_EQ(Get("a").status().allocation_reason(), "newer words");
  EXPECT_EQ(Get("a").status().allocation_explanation_size(), 1);
}

TEST_F(RestartTest, RequestsAreStillKnown) {
  v1::Job first;
  ASSERT_TRUE(TrySubmit(NewJob("a"), &first, "the-id").ok());
  Restart();
  v1::Job second;
  ASSERT_TRUE(TrySubmit(NewJob("a"), &second, "the-id").ok());
  EXPECT_EQ(first.uid(), second.uid());
  EXPECT_EQ(Events("a").size(), 1u);
}

}  // namespace
}  // namespace adaptdl::supervisor
