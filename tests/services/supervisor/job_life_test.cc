// Jobs from submission to their end, over real gRPC with played workers.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JobLifeTest : public ClusterTest {};

TEST_F(JobLifeTest, RunsRescalesAndSucceeds) {
  const auto n1 = AddWorker("n1");
  const auto n2 = AddWorker("n2");
  const v1::Job job = Submit(NewJob("mnist"));
  EXPECT_EQ(job.status().phase(), v1::JOB_PHASE_PENDING);

  Allocate(job, {"n1"});
  const v1::LaunchReplica first = n1->NextLaunch();
  EXPECT_EQ(first.replica_id(), "mnist-" + job.uid().substr(0, 8) + "-1-0");
  EXPECT_EQ(first.num_replicas(), 1);
  EXPECT_EQ(first.token().size(), 64u);
  n1->Running(first);
  WaitForPhase("mnist", v1::JOB_PHASE_RUNNING);

  Allocate(job, {"n1", "n2"});
  EXPECT_EQ(n1->NextStop().replica_id(), first.replica_id());
  n1->Exited(first, 143);
  const v1::LaunchReplica rank0 = n1->NextLaunch();
  const v1::LaunchReplica rank1 = n2->NextLaunch();
  EXPECT_EQ(rank0.group(), 2);
  EXPECT_EQ(rank1.rank(), 1);
  EXPECT_EQ(rank1.num_nodes(), 2);
  EXPECT_EQ(rank1.num_restarts(), 1);
  EXPECT_NE(rank1.token(), first.token());
  n1->Running(rank0);
  n2->Running(rank1);
  WaitForPhase("mnist", v1::JOB_PHASE_RUNNING);
  n1->Exited(rank0, 0);
  n2->Exited(rank1, 0);
  const v1::Job done = WaitForPhase("mnist", v1::JOB_PHASE_SUCCEEDED);
  EXPECT_EQ(done.status().failures(), 0);
  EXPECT_EQ(done.status().restarts(), 1);
  EXPECT_TRUE(done.status().has_completion_time());
}

// Whoever draws a job's history reads it from the events alone.
TEST_F(JobLifeTest, EventsTellEveryChangeOfTheNumberOfReplicas) {
  const auto n1 = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1", "n1"});
  const v1::LaunchReplica rank0 = n1->NextLaunch();
  const v1::LaunchReplica rank1 = n1->NextLaunch();
  n1->Running(rank0);
  n1->Running(rank1);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  Allocate(job, {"n1"});
  n1->Exited(rank0, 143);
  n1->Exited(rank1, 143);
  const v1::LaunchReplica again = n1->NextLaunch();
  n1->Running(again);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  n1->Exited(again, 0);
  WaitForPhase("a", v1::JOB_PHASE_SUCCEEDED);
  std::vector<std::string> reasons;
  std::vector<int> replicas;
  for (const v1::Event& event : Events("a")) {
    reasons.push_back(event.reason());
    replicas.push_back(event.replicas());
  }
  EXPECT_THAT(reasons,
              ElementsAre("Submitted", "Allocated", "ReplicasChanged", "GroupStarted", "Rescaling",
                          "ReplicasChanged", "GroupStopped", "Allocated", "GroupStarted", "Succeeded"));
  EXPECT_THAT(replicas, ElementsAre(0, 0, 1, 2, 2, 1, 0, 0, 1, 0));
}

// Defect 25 of the reference, end to end: one of two replicas is gone, the other must not run on for ever.
TEST_F(JobLifeTest, Defect25LossOfOneReplicaRestartsTheJob) {
  const auto n1 = AddWorker("n1");
  const auto n2 = AddWorker("n2");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1", "n2"});
  const v1::LaunchReplica rank0 = n1->NextLaunch();
  const v1::LaunchReplica rank1 = n2->NextLaunch();
  n1->Running(rank0);
  n2->Running(rank1);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  // The worker of n2 lost it, and says so by not naming it.
  n2->Disconnect();
  n2->Connect();
  EXPECT_EQ(n1->NextStop().replica_id(), rank0.replica_id());
  n1->Exited(rank0, 143);
  EXPECT_EQ(n1->NextLaunch().group(), 2);
  EXPECT_EQ(n2->NextLaunch().group(), 2);
  EXPECT_EQ(Get("a").status().failures(), 0);
  EXPECT_TRUE(HasEvent("a", "ReplicaLost"));
}

TEST_F(JobLifeTest, Defect25AllReplicasExitingWith143Restart) {
  const auto n1 = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1"});
  const v1::LaunchReplica launch = n1->NextLaunch();
  n1->Running(launch);
  n1->Exited(launch, 143);
  const v1::Job after = WaitForPhase("a", v1::JOB_PHASE_PENDING);
  EXPECT_EQ(after.status().failures(), 1);
  Advance(absl::Seconds(1));
  EXPECT_EQ(n1->NextLaunch().group(), 2);
}

// Defect 26: no retry, no back-off, no limit.
TEST_F(JobLifeTest, Defect26CrashesAreRetriedWithBackOffUpToTheLimit) {
  const auto n1 = AddWorker("n1");
  v1::Job spec = NewJob("a");
  spec.mutable_spec()->set_max_restarts(2);
  const v1::Job job = Submit(spec);
  Allocate(job, {"n1"});
  for (int failure = 1; failure <= 3; ++failure) {
    const v1::LaunchReplica launch = n1->NextLaunch();
    EXPECT_EQ(launch.group(), failure);
    n1->Running(launch);
    n1->Exited(launch, 7);
    if (failure == 3) break;
    const v1::Job waiting = WaitFor("a", [&](const v1::Job& seen) { return seen.status().has_retry_time(); });
    EXPECT_EQ(waiting.status().reason(), "BackOff");
    n1->Heartbeat();
    Advance(absl::Seconds(failure));
  }
  const v1::Job failed = WaitForPhase("a", v1::JOB_PHASE_FAILED);
  EXPECT_EQ(failed.status().reason(), "MaxRestartsExceeded");
  EXPECT_THAT(failed.status().message(), HasSubstr("code 7"));
}

TEST_F(JobLifeTest, CommandThatDoesNotExistFailsWithItsMessage) {
  const auto n1 = AddWorker("n1");
  v1::Job spec = NewJob("a");
  spec.mutable_spec()->set_max_restarts(0);
  const v1::Job job = Submit(spec);
  Allocate(job, {"n1"});
  v1::ReplicaReport report = FakeWorker::ReportOf(n1->NextLaunch(), v1::REPLICA_STATE_LOST);
  report.mutable_replica()->set_message("command not found: trane");
  n1->Report(report);
  const v1::Job failed = WaitForPhase("a", v1::JOB_PHASE_FAILED);
  EXPECT_THAT(failed.status().message(), HasSubstr("command not found: trane"));
}

TEST_F(JobLifeTest, CancelledJobsStopAndPendingOnesEndAtOnce) {
  const auto n1 = AddWorker("n1");
  const v1::Job running = Submit(NewJob("running"));
  Submit(NewJob("pending"));
  EXPECT_TRUE(Cancel("pending").ok());
  EXPECT_EQ(Get("pending").status().phase(), v1::JOB_PHASE_CANCELLED);
  EXPECT_EQ(Cancel("pending").error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Cancel("unknown").error_code(), grpc::StatusCode::NOT_FOUND);

  Allocate(running, {"n1"});
  const v1::LaunchReplica launch = n1->NextLaunch();
  n1->Running(launch);
  WaitForPhase("running", v1::JOB_PHASE_RUNNING);
  EXPECT_TRUE(Cancel("running").ok());
  EXPECT_TRUE(Cancel("running").ok());
  EXPECT_EQ(n1->NextStop().replica_id(), launch.replica_id());
  n1->Exited(launch, 143);
  WaitForPhase("running", v1::JOB_PHASE_CANCELLED);
}

TEST_F(JobLifeTest, NonPreemptibleJobsKeepWhatTheyHave) {
  const auto n1 = AddWorker("n1");
  v1::Job spec = NewJob("a");
  spec.mutable_spec()->set_preemptible(false);
  const v1::Job job = Submit(spec);
  Allocate(job, {"n1"});
  n1->Running(n1->NextLaunch());
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(Apply({AllocationOf(job, {})}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
}

// Another job's replicas must be gone before their cores are used again.
TEST_F(JobLifeTest, LaunchWaitsForTheRoomThatWasGivenToIt) {
  const auto n1 = AddWorker("n1", 1000);
  const v1::Job a = Submit(NewJob("a"));
  const v1::Job b = Submit(NewJob("b"));
  Allocate(a, {"n1"});
  const v1::LaunchReplica launch = n1->NextLaunch();
  n1->Running(launch);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  EXPECT_TRUE(Apply({AllocationOf(a, {}), AllocationOf(b, {"n1"})}).ok());
  EXPECT_EQ(Get("b").status().reason(), "WaitingForRoom");
  EXPECT_EQ(n1->NextStop().replica_id(), launch.replica_id());
  n1->Exited(launch, 143);
  EXPECT_EQ(n1->NextLaunch().job(), "b");
}

TEST_F(JobLifeTest, NewWordsOfADecisionAreShownWithoutAWrite) {
  const auto n1 = AddWorker("n1");
  const v1::Job running = Submit(NewJob("running"));
  const v1::Job waiting = Submit(NewJob("waiting"));
  v1::JobAllocation decision = AllocationOf(running, {"n1"});
  decision.set_reason("first");
  decision.add_explanation("One.");
  ASSERT_TRUE(Apply({decision}).ok());
  n1->Running(n1->NextLaunch());
  const v1::Job before = WaitForPhase("running", v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(before.status().allocation_reason(), "first");
  EXPECT_THAT(before.status().allocation_explanation(), ElementsAre("One."));

  const int64_t version = Snapshot().version();
  const int commits = memory_->commits();
  decision.set_reason("second");
  decision.add_explanation("Two.");
  v1::JobAllocation wait = AllocationOf(waiting, {});
  wait.set_reason("waits for room");
  ASSERT_TRUE(Apply({decision, wait}).ok());
  EXPECT_EQ(memory_->commits(), commits);
  EXPECT_EQ(Get("running").status().allocation_reason(), "second");
  EXPECT_THAT(Get("running").status().allocation_explanation(), ElementsAre("One.", "Two."));
  EXPECT_EQ(Get("waiting").status().message(), "waits for room");
  const v1::ClusterSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.version(), version);
  EXPECT_EQ(snapshot.jobs(0).status().allocation_reason(), "second");
}

TEST_F(JobLifeTest, WordsOfADecisionAreBounded) {
  const auto n1 = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  v1::JobAllocation decision = AllocationOf(job, {"n1"});
  // Two bytes each: the limit falls within a character.
  for (int i = 0; i < 501; ++i) decision.mutable_reason()->append("\u00fc");
  decision.set_reason("x" + decision.reason());
  for (int i = 0; i < 9; ++i) decision.add_explanation(std::string(301, 'x'));
  ASSERT_TRUE(Apply({decision}).ok());
  const v1::JobStatus status = Get("a").status();
  EXPECT_EQ(status.allocation_reason(), decision.reason().substr(0, 999));
  ASSERT_EQ(status.allocation_explanation_size(), 8);
  EXPECT_EQ(status.allocation_explanation(7), std::string(300, 'x'));
}

TEST_F(JobLifeTest, OnlyAllowedSizesAreTaken) {
  const auto n1 = AddWorker("n1");
  v1::Job spec = NewJob("a");
  for (const int count : {1, 2, 4}) spec.mutable_spec()->add_allowed_replicas(count);
  spec.mutable_spec()->set_priority(7);
  const v1::Job job = Submit(spec);
  const v1::JobSpec seen = Snapshot().jobs(0).spec();
  EXPECT_THAT(seen.allowed_replicas(), ElementsAre(1, 2, 4));
  EXPECT_EQ(seen.priority(), 7);
  const grpc::Status refused = Apply({AllocationOf(job, {"n1", "n1", "n1"})});
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("allowed_replicas, 1, 2, 4"));
  EXPECT_TRUE(Apply({AllocationOf(job, {"n1", "n1"})}).ok());
}

// Defect 31 and 32: allocations are checked against what there is, and unschedulable jobs say so.
TEST_F(JobLifeTest, Defect31AllocationsAreCheckedAndUnschedulableJobsSaySo) {
  const auto n1 = AddWorker("n1", 2000);
  const v1::Job a = Submit(NewJob("a"));
  const v1::Job b = Submit(NewJob("b"));
  const int64_t version = Snapshot().version();
  EXPECT_EQ(Apply({AllocationOf(a, {"n1", "n1"}), AllocationOf(b, {"n1"})}).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Apply({AllocationOf(a, {"nowhere"})}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Apply({AllocationOf(a, std::vector<std::string>(9, "n1"))}).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  v1::Job stranger = a;
  stranger.set_uid("other");
  EXPECT_EQ(Apply({AllocationOf(stranger, {"n1"})}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Snapshot().version(), version) << "a refused call left something behind";

  EXPECT_TRUE(Apply({AllocationOf(a, {"n1", "n1"})}, version).ok());
  // What was decided on an older snapshot is taken as far as it holds.
  EXPECT_TRUE(Apply({AllocationOf(b, {})}, version).ok());
  EXPECT_EQ(Apply({AllocationOf(b, {"n1"})}, version).error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(Apply({AllocationOf(b, {"nowhere"})}, version).error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(Apply({AllocationOf(b, {})}, Snapshot().version() + 1).error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(Apply({AllocationOf(b, {"n1"})}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  // A job that no longer fits keeps being known, whatever it had before.
  v1::JobAllocation none = AllocationOf(b, {});
  none.set_unschedulable(true);
  none.set_reason("asks for 3 GPUs, no node has more than 0");
  EXPECT_TRUE(Apply({none}).ok());
  const v1::Job unschedulable =
      WaitFor("b", [](const v1::Job& job) { return job.status().reason() == "Unschedulable"; });
  EXPECT_EQ(unschedulable.status().message(), none.reason());
  EXPECT_TRUE(HasEvent("b", "Unschedulable"));
  v1::JobAllocation back = AllocationOf(a, {});
  back.set_unschedulable(true);
  EXPECT_TRUE(Apply({back}).ok());
  EXPECT_EQ(Snapshot().jobs_size(), 2);
}

}  // namespace
}  // namespace adaptdl::supervisor
