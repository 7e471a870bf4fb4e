// Nodes: leases, sessions, drains and preemptions.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

class NodesTest : public ClusterTest {
 protected:
  v1::Node GetNode(const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListNodesResponse response;
    EXPECT_TRUE(nodes_->ListNodes(&context, {}, &response).ok());
    for (const v1::Node& node : response.nodes()) {
      if (node.node_id() == id) return node;
    }
    return {};
  }
  grpc::Status Drain(const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::DrainNodeRequest request;
    request.set_request_id(RandomHex(8));
    request.set_node_id(id);
    v1::DrainNodeResponse response;
    return nodes_->DrainNode(&context, request, &response);
  }
  grpc::Status Remove(const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::RemoveNodeRequest request;
    request.set_request_id(RandomHex(8));
    request.set_node_id(id);
    v1::RemoveNodeResponse response;
    return nodes_->RemoveNode(&context, request, &response);
  }
  // Sends a heartbeat and waits until it has been taken in: the report of a ghost behind it is answered.
  static void Beat(FakeWorker* worker, const std::optional<v1::MachineUse>& use = std::nullopt) {
    worker->Heartbeat(use);
    v1::ReplicaReport ghost;
    ghost.mutable_replica()->set_replica_id("ghost");
    ghost.mutable_replica()->set_state(v1::REPLICA_STATE_EXITED);
    worker->Report(ghost);
    while (!worker->Next().has_acknowledge()) {
    }
  }
};

TEST_F(NodesTest, SilentForThreePeriodsIsLostAndTheJobGoesOnElsewhere) {
  const auto n1 = AddWorker("n1");
  const auto n2 = AddWorker("n2");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1", "n2"});
  const v1::LaunchReplica rank0 = n1->NextLaunch();
  const v1::LaunchReplica rank1 = n2->NextLaunch();
  n1->Running(rank0);
  n2->Running(rank1);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  // n1 speaks, n2 does not.
  for (int second = 0; second < 6; ++second) {
    Advance(absl::Seconds(1));
    EXPECT_EQ(GetNode("n2").status().phase(), v1::NODE_PHASE_READY);
    Beat(n1.get());
  }
  Advance(absl::Seconds(1));
  EXPECT_EQ(GetNode("n1").status().phase(), v1::NODE_PHASE_READY);
  EXPECT_EQ(GetNode("n2").status().phase(), v1::NODE_PHASE_LOST);
  EXPECT_EQ(n2->End().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(n1->NextStop().replica_id(), rank0.replica_id());
  EXPECT_TRUE(HasEvent("a", "NodeLost"));
  EXPECT_EQ(Snapshot().nodes_size(), 1) << "the allocator sees no lost nodes";
  n1->Exited(rank0, 75);
  // It waits for another allocation, since the old one names a node that is gone.
  const v1::Job waiting = WaitForPhase("a", v1::JOB_PHASE_PENDING);
  EXPECT_EQ(waiting.status().failures(), 0);
  Allocate(job, {"n1"});
  EXPECT_EQ(n1->NextLaunch().group(), 2);
}

TEST_F(NodesTest, TellsHowMuchOfAMachineIsInUseAsItWasSaidLast) {
  const auto n1 = AddWorker("n1");
  EXPECT_FALSE(GetNode("n1").status().has_use());
  v1::MachineUse use;
  use.set_cpus(3.5);
  use.set_memory_bytes(1);
  use.set_memory_total_bytes(2);
  use.add_gpus()->set_uuid("GPU-a");
  use.mutable_gpus(0)->set_power_watts(70);
  Beat(n1.get(), use);
  EXPECT_EQ(GetNode("n1").status().use().SerializeAsString(), use.SerializeAsString());
  Beat(n1.get());
  EXPECT_EQ(GetNode("n1").status().use().gpus(0).power_watts(), 70);
  v1::MachineUse nonsense = use;
  nonsense.mutable_gpus(0)->set_utilization(2);
  Beat(n1.get(), nonsense);
  EXPECT_EQ(GetNode("n1").status().use().gpus(0).utilization(), 0) << "and the node lives on";
  EXPECT_EQ(GetNode("n1").status().phase(), v1::NODE_PHASE_READY);
}

TEST_F(NodesTest, LostNodeComesBackAndItsOldReplicasAreStopped) {
  const auto n1 = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1"});
  const v1::LaunchReplica old = n1->NextLaunch();
  n1->Running(old);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  Advance(absl::Seconds(7));
  EXPECT_EQ(GetNode("n1").status().phase(), v1::NODE_PHASE_LOST);
  EXPECT_EQ(n1->End().error_code(), grpc::StatusCode::ABORTED);
  // The old session is over for good.
  n1->Connect();
  EXPECT_EQ(n1->End().error_code(), grpc::StatusCode::ABORTED);
  ASSERT_TRUE(n1->Register().ok());
  n1->Connect({FakeWorker::ReportOf(old, v1::REPLICA_STATE_RUNNING)});
  bool stopped = false;
  bool launched = false;
  while (!stopped || !launched) {
    const v1::ConnectResponse command = n1->Next();
    ASSERT_NE(command.command_case(), v1::ConnectResponse::COMMAND_NOT_SET);
    stopped = stopped || (command.has_stop() && command.stop().replica_id() == old.replica_id());
    launched = launched || (command.has_launch() && command.launch().group() == 2);
  }
}

TEST_F(NodesTest, PauseOfTheSupervisorItselfCostsNoNode) {
  const auto n1 = AddWorker("n1");
  supervisor_->Step();
  clock_.Advance(absl::Minutes(5));
  supervisor_->Step();
  EXPECT_EQ(GetNode("n1").status().phase(), v1::NODE_PHASE_READY);
  Advance(absl::Seconds(7));
  EXPECT_EQ(GetNode("n1").status().phase(), v1::NODE_PHASE_LOST);
}

TEST_F(NodesTest, NewerRegistrationEndsTheOlderSession) {
  const auto older = AddWorker("n1");
  Beat(older.get());
  const auto newer = AddWorker("n1");
  EXPECT_GT(newer->session(), older->session());
  EXPECT_EQ(older->End().error_code(), grpc::StatusCode::ABORTED);
  older->Connect();
  EXPECT_EQ(older->End().error_code(), grpc::StatusCode::ABORTED);
  Beat(newer.get());
}

TEST_F(NodesTest, ReconnectedWorkerIsToldWhatDiffers) {
  const auto n1 = AddWorker("n1");
  const v1::Job a = Submit(NewJob("a"));
  const v1::Job b = Submit(NewJob("b"));
  Allocate(a, {"n1"});
  const v1::LaunchReplica of_a = n1->NextLaunch();
  n1->Running(of_a);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  n1->Disconnect();
  // Said while nobody listened.
  Allocate(b, {"n1"});
  EXPECT_TRUE(Cancel("a").ok());
  v1::ReplicaReport stranger = FakeWorker::ReportOf(of_a, v1::REPLICA_STATE_RUNNING);
  stranger.mutable_replica()->set_replica_id("stranger");
  n1->Connect({FakeWorker::ReportOf(of_a, v1::REPLICA_STATE_RUNNING), stranger});
  std::string launched;
  std::set<std::string> stopped;
  while (launched.empty() || stopped.size() < 2) {
    const v1::ConnectResponse command = n1->Next();
    ASSERT_NE(command.command_case(), v1::ConnectResponse::COMMAND_NOT_SET);
    if (command.has_launch()) launched = command.launch().job();
    if (command.has_stop()) stopped.insert(command.stop().replica_id());
  }
  EXPECT_EQ(launched, "b");
  EXPECT_THAT(stopped, testing::ElementsAre(of_a.replica_id(), "stranger"));
}

TEST_F(NodesTest, EndOfAReplicaIsAcknowledgedUntilTheWorkerHasHeard) {
  const auto n1 = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1"});
  const v1::LaunchReplica launch = n1->NextLaunch();
  for (int i = 0; i < 2; ++i) {
    n1->Exited(launch, 0);
    EXPECT_EQ(n1->Next().acknowledge().replica_id(), launch.replica_id());
  }
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_SUCCEEDED);
}

TEST_F(NodesTest, DrainedNodesTakeNothingNewAndAreRemovedWhenEmpty) {
  const auto n1 = AddWorker("n1");
  AddWorker("n2");
  const v1::Job a = Submit(NewJob("a"));
  Allocate(a, {"n1"});
  const v1::LaunchReplica launch = n1->NextLaunch();
  n1->Running(launch);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  const grpc::Status refused = Remove("n1");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), ::testing::HasSubstr("is ready and runs replicas; drain it"));
  EXPECT_TRUE(Drain("n1").ok());
  EXPECT_TRUE(Drain("n1").ok());
  EXPECT_EQ(Drain("nowhere").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING) << "the allocator moves it, not the drain";
  const v1::Job b = Submit(NewJob("b"));
  EXPECT_EQ(Apply({AllocationOf(b, {"n1"})}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Remove("n1").error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  // An administrator's drain outlives the worker.
  ASSERT_TRUE(n1->Register().ok());
  EXPECT_EQ(GetNode("n1").status().phase(), v1::NODE_PHASE_DRAINING);
  n1->Disconnect();
  n1->Connect({FakeWorker::ReportOf(launch, v1::REPLICA_STATE_RUNNING)});
  Allocate(a, {"n2"});
  EXPECT_EQ(n1->NextStop().replica_id(), launch.replica_id());
  n1->Exited(launch, 143);
  WaitFor("a", [](const v1::Job& job) { return job.status().group() == 2; });
  EXPECT_TRUE(Remove("n1").ok());
  EXPECT_EQ(GetNode("n1").node_id(), "");
}

// Defect 26, second half: what ends with its node is not the job's fault.
TEST_F(NodesTest, Defect26PreemptionIsNotTheJobsFault) {
  const auto n1 = AddWorker("n1");
  v1::Job spec = NewJob("a");
  spec.mutable_spec()->set_max_restarts(0);
  const v1::Job job = Submit(spec);
  Allocate(job, {"n1"});
  const v1::LaunchReplica launch = n1->NextLaunch();
  n1->Running(launch);
  v1::ConnectRequest notice;
  notice.mutable_preemption_notice()->set_reason("spot reclaim");
  notice.mutable_preemption_notice()->mutable_deadline()->set_seconds(2'000'000'000);
  n1->Send(notice);
  n1->Send(notice);
  // The machine stops the process before the allocator has decided.
  n1->Exited(launch, 143);
  const v1::Job after = WaitForPhase("a", v1::JOB_PHASE_PENDING);
  EXPECT_EQ(after.status().failures(), 0);
  EXPECT_TRUE(HasEvent("a", "NodePreempted"));
  const v1::Node node = GetNode("n1");
  EXPECT_EQ(node.status().phase(), v1::NODE_PHASE_DRAINING);
  EXPECT_EQ(node.status().preemption_time().seconds(), 2'000'000'000);
  // It is gone: an empty node that was to leave is forgotten when it falls silent.
  Advance(absl::Seconds(7));
  EXPECT_EQ(GetNode("n1").node_id(), "");
}

TEST_F(NodesTest, ALaunchThatCrossesANoticeIsNotTheJobsFault) {
  const auto n1 = AddWorker("n1");
  v1::Job spec = NewJob("a");
  spec.mutable_spec()->set_max_restarts(0);
  const v1::Job job = Submit(spec);
  Allocate(job, {"n1"});
  const v1::LaunchReplica launch = n1->NextLaunch();
  // The notice may be lost with its stream, or come later: what the node says of the replica is enough.
  v1::ReplicaReport report = FakeWorker::ReportOf(launch, v1::REPLICA_STATE_LOST);
  report.mutable_replica()->set_message("the node goes away");
  report.mutable_replica()->set_end_cause(v1::END_CAUSE_PREEMPTION);
  n1->Report(report);
  const v1::Job after = WaitFor("a", [](const v1::Job& seen) { return seen.status().group() > 1; });
  EXPECT_EQ(after.status().failures(), 0);
}

TEST_F(NodesTest, AStorageThatFailsForAWhileEndsNoJob) {
  const auto n1 = AddWorker("n1");
  v1::Job spec = NewJob("a");
  spec.mutable_spec()->set_max_restarts(0);
  const v1::Job job = Submit(spec);
  Allocate(job, {"n1"});
  for (const int seconds : {1, 2, 4, 8}) {
    v1::ReplicaReport report = FakeWorker::ReportOf(n1->NextLaunch(), v1::REPLICA_STATE_LOST);
    report.mutable_replica()->set_message("make the folder: I/O error");
    report.mutable_replica()->set_end_cause(v1::END_CAUSE_STORAGE);
    n1->Report(report);
    const v1::Job waits = WaitFor("a", [](const v1::Job& seen) { return seen.status().has_retry_time(); });
    EXPECT_EQ(waits.status().phase(), v1::JOB_PHASE_PENDING);
    EXPECT_EQ(waits.status().failures(), 0);
    for (int i = 0; i < seconds; ++i) {
      Beat(n1.get());
      Advance(absl::Seconds(1));
    }
  }
  EXPECT_TRUE(HasEvent("a", "InfrastructureFault"));
  n1->Running(n1->NextLaunch());
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
}

TEST_F(NodesTest, AProgramThatIsMissingIsTheJobsFaultUnlessItHasRun) {
  const auto n1 = AddWorker("n1");
  const auto missing = [&](const v1::LaunchReplica& launch) {
    v1::ReplicaReport report = FakeWorker::ReportOf(launch, v1::REPLICA_STATE_EXITED, 127);
    report.mutable_replica()->set_end_cause(v1::END_CAUSE_IMAGE);
    n1->Report(report);
  };
  v1::Job spec = NewJob("never");
  spec.mutable_spec()->set_max_restarts(0);
  Allocate(Submit(spec), {"n1"});
  missing(n1->NextLaunch());
  WaitForPhase("never", v1::JOB_PHASE_FAILED);
  spec.set_name("before");
  Allocate(Submit(spec), {"n1"});
  const v1::LaunchReplica first = n1->NextLaunch();
  n1->Running(first);
  WaitForPhase("before", v1::JOB_PHASE_RUNNING);
  v1::ReplicaReport lost = FakeWorker::ReportOf(first, v1::REPLICA_STATE_LOST);
  lost.mutable_replica()->set_end_cause(v1::END_CAUSE_PREEMPTION);
  n1->Report(lost);
  missing(n1->NextLaunch());
  const v1::Job job = WaitFor("before", [](const v1::Job& seen) { return seen.status().has_retry_time(); });
  EXPECT_EQ(job.status().phase(), v1::JOB_PHASE_PENDING);
  EXPECT_EQ(job.status().failures(), 0);
}

TEST_F(NodesTest, ANodeThatGoesIsNotReadyInBetween) {
  const auto n1 = AddWorker("n1");
  n1->leaving = v1::PreemptionNotice();
  n1->leaving->set_reason("spot reclaim");
  ASSERT_TRUE(n1->Register().ok());
  EXPECT_EQ(GetNode("n1").status().phase(), v1::NODE_PHASE_DRAINING);
  EXPECT_EQ(GetNode("n1").status().message(), "goes away: spot reclaim");
}

TEST_F(NodesTest, PreemptedNodeThatRegistersAgainIsReady) {
  const auto n1 = AddWorker("n1");
  v1::ConnectRequest notice;
  notice.mutable_preemption_notice()->set_reason("worker is shutting down");
  n1->Send(notice);
  Beat(n1.get());
  EXPECT_EQ(GetNode("n1").status().phase(), v1::NODE_PHASE_DRAINING);
  ASSERT_TRUE(n1->Register().ok());
  EXPECT_EQ(GetNode("n1").status().phase(), v1::NODE_PHASE_READY);
}

TEST_F(NodesTest, ListShowsWhatIsInUse) {
  const auto n1 = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1", "n1"});
  const v1::Node node = GetNode("n1");
  EXPECT_EQ(node.status().replicas(), 2);
  EXPECT_EQ(node.status().allocated().cpu_millis(), 2000);
  EXPECT_TRUE(node.status().has_last_heartbeat());
}

// A node of which a GPU has failed, and the job that has all that it offered.
class ShrunkNodeTest : public NodesTest {
 protected:
  void SetUp() override {
    NodesTest::SetUp();
    node_ = AddWorker("n1");
    Register(2, {});
    v1::Job job = NewJob("a");
    job.mutable_spec()->set_preemptible(false);
    job.mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(1);
    job_ = Submit(job);
    Allocate(job_, {"n1", "n1"});
    running_ = {node_->NextLaunch(), node_->NextLaunch()};
    for (const v1::LaunchReplica& launch : running_) node_->Running(launch);
    WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  }
  // As a worker does when its offer has changed.
  void Register(int gpus, const std::vector<std::string>& problems) {
    node_->node()->mutable_capacity()->set_gpus(gpus);
    node_->node()->mutable_problems()->Assign(problems.begin(), problems.end());
    ASSERT_TRUE(node_->Register().ok());
    std::vector<v1::ReplicaReport> inventory;
    for (const v1::LaunchReplica& launch : running_) {
      inventory.push_back(node_->ReportOf(launch, v1::REPLICA_STATE_RUNNING));
    }
    node_->Disconnect();
    node_->Connect(inventory);
    node_->AwaitHeard();
  }

  int64_t CountProblems() {
    const std::vector<v1::Event> events = Events("a");
    return std::count_if(events.begin(), events.end(),
                         [](const v1::Event& event) { return event.reason() == "NodeProblem"; });
  }

  std::unique_ptr<FakeWorker> node_;
  v1::Job job_;
  std::vector<v1::LaunchReplica> running_;
};

TEST_F(ShrunkNodeTest, SaysWhatIsWrongAndItsReplicasStay) {
  Register(1, {"GPU-a: lost"});
  const v1::Node node = GetNode("n1");
  EXPECT_EQ(node.status().phase(), v1::NODE_PHASE_READY);
  EXPECT_EQ(node.capacity().gpus(), 1);
  ASSERT_EQ(node.problems_size(), 1);
  EXPECT_EQ(node.problems(0), "GPU-a: lost");
  EXPECT_EQ(node.status().replicas(), 2);
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(CountProblems(), 1);
  // The same again is no news; that it is over shows.
  Register(1, {"GPU-a: lost"});
  EXPECT_EQ(CountProblems(), 1);
  Register(2, {});
  EXPECT_EQ(GetNode("n1").problems_size(), 0);
}

TEST_F(ShrunkNodeTest, WhatItHoldsTooMuchOfStandsInNobodysWay) {
  Register(1, {"GPU-a: lost"});
  const v1::Job other = Submit(NewJob("b"));  // without GPUs
  EXPECT_TRUE(Apply({AllocationOf(job_, {"n1", "n1"}), AllocationOf(other, {"n1"})}).ok());
  v1::Job third = NewJob("c");
  third.mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(1);
  third = Submit(third);
  EXPECT_EQ(Apply({AllocationOf(third, {"n1"})}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ShrunkNodeTest, RefusesProblemsWithoutBounds) {
  node_->node()->add_problems(std::string(1001, 'x'));
  EXPECT_EQ(node_->Register().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  node_->node()->clear_problems();
  node_->node()->set_limits_missing(std::string(1001, 'x'));
  EXPECT_EQ(node_->Register().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// Jobs that fail on one of two nodes.
class QuarantineTest : public NodesTest {
 protected:
  QuarantineTest() { options_.cluster.heartbeat_period = absl::Hours(100); }

  void SetUp() override {
    NodesTest::SetUp();
    n1_ = AddWorker("n1");
    n2_ = AddWorker("n2");
  }
  // A replica of the job runs on the node and exits.
  void Run(const std::string& name, const std::string& node, int exit_code, bool is_new = true) {
    v1::Job job = NewJob(name);
    job.mutable_spec()->set_max_restarts(100);
    job = is_new ? Submit(job) : Get(name);
    Advance(absl::Minutes(1));  // longer than any back-off
    Allocate(job, {node});
    FakeWorker& worker = node == "n1" ? *n1_ : *n2_;
    const v1::LaunchReplica launch = worker.NextLaunch();
    worker.Running(launch);
    worker.Exited(launch, exit_code);
    const int failures = job.status().failures() + (exit_code != 0);
    const v1::Job ended = WaitFor(name, [&](const v1::Job& seen) {
      return exit_code == 0 ? seen.status().phase() == v1::JOB_PHASE_SUCCEEDED
                            : seen.status().failures() == failures;
    });
    // It is not to come back by itself.
    if (exit_code != 0) Allocate(ended, {});
  }
  v1::NodePhase PhaseOf(const std::string& node) { return GetNode(node).status().phase(); }

  std::unique_ptr<FakeWorker> n1_;
  std::unique_ptr<FakeWorker> n2_;
};

TEST_F(QuarantineTest, SeveralJobsFailingOnANodeQuarantineItForATime) {
  Run("a", "n1", 1);
  Run("b", "n1", 1);
  EXPECT_EQ(PhaseOf("n1"), v1::NODE_PHASE_READY);
  Run("c", "n1", 1);
  v1::NodeStatus status = GetNode("n1").status();
  EXPECT_EQ(status.phase(), v1::NODE_PHASE_QUARANTINED);
  EXPECT_EQ(status.quarantine_end_time().seconds(), absl::ToUnixSeconds(clock_.Now() + absl::Minutes(5)));
  EXPECT_NE(status.message().find("3 jobs"), std::string::npos) << status.message();
  for (const char* job : {"a", "b", "c"}) EXPECT_TRUE(HasEvent(job, "NodeQuarantined"));
  // Nothing new comes there, neither by the allocator nor by registering again.
  const v1::Job d = Submit(NewJob("d"));
  EXPECT_EQ(Apply({AllocationOf(d, {"n1"})}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(n1_->Register().ok());
  EXPECT_EQ(PhaseOf("n1"), v1::NODE_PHASE_QUARANTINED);
  n1_->Disconnect();
  n1_->Connect();
  n1_->AwaitHeard();
  Advance(absl::Minutes(5));
  status = GetNode("n1").status();
  EXPECT_EQ(status.phase(), v1::NODE_PHASE_READY);
  EXPECT_FALSE(status.has_quarantine_end_time());
  EXPECT_EQ(status.message(), "");
  // The next time lasts twice as long.
  for (const char* job : {"e", "f", "g"}) Run(job, "n1", 1);
  EXPECT_EQ(GetNode("n1").status().quarantine_end_time().seconds(),
            absl::ToUnixSeconds(clock_.Now() + absl::Minutes(10)));
}

TEST_F(QuarantineTest, ReplicasThatRunThereStay) {
  const v1::Job good = Submit(NewJob("good"));
  Allocate(good, {"n1"});
  const v1::LaunchReplica launch = n1_->NextLaunch();
  n1_->Running(launch);
  WaitForPhase("good", v1::JOB_PHASE_RUNNING);
  for (const char* job : {"a", "b", "c"}) Run(job, "n1", 1);
  EXPECT_EQ(PhaseOf("n1"), v1::NODE_PHASE_QUARANTINED);
  Advance(absl::Seconds(10));
  EXPECT_EQ(Get("good").status().phase(), v1::JOB_PHASE_RUNNING);
  // The allocator leaves such a job where it is.
  EXPECT_TRUE(Apply({AllocationOf(good, {"n1"})}).ok());
  n1_->Exited(launch, 0);
  EXPECT_EQ(WaitForPhase("good", v1::JOB_PHASE_SUCCEEDED).status().restarts(), 0);
}

TEST_F(QuarantineTest, ASingleJobNeverQuarantinesANode) {
  Run("a", "n1", 1);
  for (int i = 0; i < 6; ++i) Run("a", "n1", 1, /*is_new=*/false);
  EXPECT_EQ(PhaseOf("n1"), v1::NODE_PHASE_READY);
}

TEST_F(QuarantineTest, ASuccessClearsTheNode) {
  Run("a", "n1", 1);
  Run("b", "n1", 1);
  Run("c", "n1", 0);
  Run("d", "n1", 1);
  EXPECT_EQ(PhaseOf("n1"), v1::NODE_PHASE_READY);
}

TEST_F(QuarantineTest, JobsThatFailEverywhereSayNothingOfNodes) {
  for (const char* job : {"a", "b", "c"}) {
    Run(job, "n2", 1);
    Run(job, "n1", 1, /*is_new=*/false);
    EXPECT_EQ(PhaseOf("n1"), v1::NODE_PHASE_READY) << job;
  }
}

TEST_F(QuarantineTest, TheLastReadyNodeIsKept) {
  ASSERT_TRUE(Drain("n2").ok());
  for (const char* job : {"a", "b", "c", "d"}) Run(job, "n1", 1);
  EXPECT_EQ(PhaseOf("n1"), v1::NODE_PHASE_READY);
}

TEST_F(QuarantineTest, AnAdministratorEndsItByRemovingTheNode) {
  for (const char* job : {"a", "b", "c"}) Run(job, "n1", 1);
  ASSERT_EQ(PhaseOf("n1"), v1::NODE_PHASE_QUARANTINED);
  ASSERT_TRUE(Remove("n1").ok());
  EXPECT_EQ(n1_->End().error_code(), grpc::StatusCode::ABORTED);
  ASSERT_TRUE(n1_->Register().ok());
  EXPECT_EQ(PhaseOf("n1"), v1::NODE_PHASE_READY);
}

TEST_F(QuarantineTest, CanBeSwitchedOff) {
  Stop();
  options_.cluster.quarantine.jobs = 0;
  Start();
  n1_ = AddWorker("n1");
  n2_ = AddWorker("n2");
  for (const char* job : {"a", "b", "c", "d"}) Run(job, "n1", 1);
  EXPECT_EQ(PhaseOf("n1"), v1::NODE_PHASE_READY);
}

}  // namespace
}  // namespace adaptdl::supervisor
