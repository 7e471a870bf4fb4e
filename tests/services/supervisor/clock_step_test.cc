// Somebody sets the wall clock of the supervisor's machine: leases, back-offs and time limits last as long as
// before.

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "services/supervisor/store/convert.h"
#include "services/supervisor/store/sqlite_job_store.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

// The parameter: by how much, in hours.
class ClockStepTest : public ClusterTest, public testing::WithParamInterface<int> {
 protected:
  std::unique_ptr<JobStore> MakeStore() override {
    SqliteJobStoreOptions options;
    options.folder = folder_.path();
    auto store = SqliteJobStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  void StepWall() {
    clock_.StepWall(absl::Hours(GetParam()));
    supervisor_->Step();
  }

  v1::NodeStatus StatusOf(const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListNodesResponse response;
    EXPECT_TRUE(nodes_->ListNodes(&context, v1::ListNodesRequest(), &response).ok());
    for (const v1::Node& node : response.nodes()) {
      if (node.node_id() == id) return node.status();
    }
    return {};
  }

  // On the only node; fails, and waits for its next attempt.
  v1::Job FailOnce(const std::string& name, FakeWorker* worker) {
    const v1::Job job = Submit(NewJob(name));
    Allocate(job, {"n1"});
    const v1::LaunchReplica launch = worker->NextLaunch();
    worker->Running(launch);
    worker->Exited(launch, 7);
    return WaitFor(name, [](const v1::Job& seen) { return seen.status().has_retry_time(); });
  }

  bool Acquire(const std::string& holder) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::AcquireLeaseRequest request;
    request.set_holder(holder);
    v1::AcquireLeaseResponse response;
    EXPECT_TRUE(scheduling_->AcquireLease(&context, request, &response).ok());
    return response.granted();
  }

  TemporaryFolder folder_;
};

TEST_P(ClockStepTest, NodesLiveAndDieByTheirHeartbeats) {
  const auto worker = AddWorker("n1");
  // Its first message was heard when it gets an order.
  Allocate(Submit(NewJob("a")), {"n1"});
  worker->NextLaunch();
  Advance(absl::Seconds(2));
  StepWall();
  EXPECT_EQ(StatusOf("n1").phase(), v1::NODE_PHASE_READY);
  Advance(absl::Seconds(4));
  EXPECT_EQ(StatusOf("n1").phase(), v1::NODE_PHASE_READY);
  // What people read is by the clock as it is now.
  EXPECT_EQ(ToTime(StatusOf("n1").last_heartbeat()), clock_.Now() - absl::Seconds(6));
  Advance(absl::Seconds(1));
  EXPECT_EQ(StatusOf("n1").phase(), v1::NODE_PHASE_LOST);
}

TEST_P(ClockStepTest, ABackOffLastsAsLongAsItWasToLast) {
  const auto worker = AddWorker("n1");
  EXPECT_EQ(FailOnce("a", worker.get()).status().reason(), "BackOff");
  StepWall();
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_PENDING);
  Advance(absl::Seconds(1));
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_STARTING);
}

TEST_P(ClockStepTest, ALaterSupervisorWaitsNoLongerThanAnyBackOff) {
  options_.cluster.policy.max_retry_backoff = absl::Seconds(3);
  Stop();
  Start();
  auto worker = AddWorker("n1");
  FailOnce("a", worker.get());
  worker = nullptr;
  Stop();
  clock_.StepWall(absl::Hours(GetParam()));
  Start();
  worker = AddWorker("n1");
  Advance(absl::Seconds(3));
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_STARTING);
}

TEST_P(ClockStepTest, RunningTimeCountsWhatHasPassed) {
  const auto worker = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1"});
  worker->Running(worker->NextLaunch());
  const v1::Job running = WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  Advance(absl::Seconds(2));
  StepWall();
  EXPECT_EQ(Get("a").status().running_time().seconds(), 2);
  // When it began does not change with the clock.
  EXPECT_EQ(Get("a").status().start_time().seconds(), running.status().start_time().seconds());
}

TEST_P(ClockStepTest, AnAllocatorKeepsItsLeaseAndLosesItInTime) {
  ASSERT_TRUE(Acquire("a"));
  Advance(absl::Seconds(2));
  StepWall();
  EXPECT_FALSE(Acquire("b"));
  Advance(absl::Seconds(1));
  EXPECT_TRUE(Acquire("b"));
}

INSTANTIATE_TEST_SUITE_P(Hours, ClockStepTest, testing::Values(1, -1),
                         [](const auto& info) { return info.param > 0 ? "Forward" : "Back"; });

}  // namespace
}  // namespace adaptdl::supervisor
