// A worker and its replicas: launched, stopped, found again, their logs and files read.

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "services/worker/shim/records.h"
#include "tests/services/worker/worker_fixture.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(WorkerTest, RegistersWhatTheNodeOffers) {
  const auto node = supervisor_.TakeRegistration();
  ASSERT_TRUE(node.has_value());
  EXPECT_EQ(node->node_id(), "node-a");
  EXPECT_EQ(node->worker_address(), std::string(absl::StripAsciiWhitespace(ReadFile(folder_ / "address"))));
  EXPECT_EQ(node->replica_host(), "127.0.0.1");
  EXPECT_EQ(node->capacity().cpu_millis(), 1500);
  EXPECT_EQ(node->capacity().gpus(), 2);
  EXPECT_GT(node->capacity().memory_bytes(), 0);
  EXPECT_EQ(node->gpu_type(), "Fake 9000");
  EXPECT_EQ(node->labels().at("zone"), "b");
  EXPECT_TRUE(node->preemptible());
  EXPECT_THAT(supervisor_.TakeHello()->replicas(), IsEmpty());
  EXPECT_TRUE(supervisor_.WaitForHeartbeats(3));
}

TEST_F(WorkerTest, SaysWhetherReplicasAreHeldToTheirLimits) {
  const auto node = supervisor_.TakeRegistration();
  ASSERT_TRUE(node.has_value());
  supervisor_.Launch(Shell("r", "true"));
  ASSERT_TRUE(WaitForExit("r").has_value());
  const auto spec = ProcessSpecFromLaunchFile(ReadFile(ReplicaFolder(Id("r")) + "/launch.json"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(node->limits_missing().empty(), !spec->cgroup.empty());
}

TEST_F(WorkerTest, RunsAReplicaAndReportsItsEndUntilAcknowledged) {
  supervisor_.Launch(Shell("r", Until("go") + "exit 7"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  Touch("go");
  const auto exit = WaitForExit("r");
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->replica().exit_code(), 7);
  EXPECT_EQ(exit->job_uid(), unique_);
  EXPECT_TRUE(supervisor_.WaitForReports(Id("r"), v1::REPLICA_STATE_EXITED, 3));
  supervisor_.Acknowledge(Id("r"));
  ASSERT_TRUE(WaitForFile(ReplicaFolder(Id("r")) + "/acknowledged"));
  KillWorker();
  supervisor_.ForgetHellos();
  StartWorker();
  EXPECT_THAT(supervisor_.TakeHello()->replicas(), IsEmpty());
}

TEST_F(WorkerTest, GivesReplicasACleanEnvironment) {
  supervisor_.Launch(Shell("r", "pwd; env"));
  ASSERT_TRUE(WaitForExit("r").has_value());
  const std::string log = LogOf("r");
  EXPECT_THAT(log, HasSubstr(" F " + Share() + "\n"));
  EXPECT_THAT(log, HasSubstr(absl::StrCat(" F ADAPTDL_SUPERVISOR_ADDRESS=", supervisor_.address(), "\n")));
  EXPECT_THAT(log, HasSubstr(" F ADAPTDL_JOB_ID=default/mnist\n"));
  EXPECT_THAT(log, HasSubstr(" F HOME=/root\n"));
  EXPECT_THAT(log, Not(HasSubstr("ADAPTDL_SERVER_")));
  EXPECT_THAT(log, Not(HasSubstr("SECRET=")));
}

TEST_F(WorkerTest, SaysWhenThereIsNoSuchCommand) {
  v1::LaunchReplica launch = Shell("r", "");
  launch.mutable_template_()->clear_command();
  launch.mutable_template_()->add_command("no-such-program");
  supervisor_.Launch(launch);
  const auto exit = WaitForExit("r");
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->replica().exit_code(), 127);
  EXPECT_THAT(exit->replica().message(), HasSubstr("'no-such-program' not found in PATH"));
  EXPECT_EQ(exit->replica().end_cause(), v1::END_CAUSE_IMAGE);
}

TEST_F(WorkerTest, StopsAReplica) {
  supervisor_.Launch(Shell("r", "trap 'exit 143' TERM; touch ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  ASSERT_TRUE(WaitForFile(Share() + "/ready"));
  supervisor_.StopReplica(Id("r"));
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 143);
}

TEST_F(WorkerTest, AKilledWorkersReplicasAreFoundByTheNextOne) {
  supervisor_.Launch(Shell("r", Until("go") + "exit 9"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  KillWorker();
  supervisor_.ForgetHellos();
  StartWorker();
  const auto hello = supervisor_.TakeHello();
  ASSERT_THAT(hello->replicas(), SizeIs(1));
  EXPECT_EQ(hello->replicas(0).replica().state(), v1::REPLICA_STATE_RUNNING);
  supervisor_.Launch(Shell("r", "exit 1"));  // repeated by a supervisor that does not know better
  Touch("go");
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 9);
}

TEST_F(WorkerTest, AReplicaThatEndsWithoutAWorkerIsReportedByTheNextOne) {
  supervisor_.Launch(Shell("r", Until("go") + "exit 9"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  KillWorker();
  Touch("go");
  ASSERT_TRUE(WaitForFile(ReplicaFolder(Id("r")) + "/exit.json"));
  StartWorker();
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 9);
}

TEST_F(WorkerTest, AStopReachesAReplicaOfAnEarlierWorker) {
  supervisor_.Launch(Shell("r", "trap 'exit 143' TERM; touch ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  ASSERT_TRUE(WaitForFile(Share() + "/ready"));
  KillWorker();
  StartWorker();
  supervisor_.TakeHello();
  supervisor_.TakeHello();
  supervisor_.StopReplica(Id("r"));
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 143);
}

TEST_F(WorkerTest, AShimThatIsKilledTakesItsReplicaWithItAndItIsLost) {
  supervisor_.Launch(Shell("r", "sleep 1000 & echo $!; sleep 1000"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  ASSERT_TRUE(WaitForChange(ReplicaFolder(Id("r")), [&] { return !LogOf("r").empty(); }));
  const std::string log = LogOf("r");
  const int grandchild = atoi(log.c_str() + log.rfind(' ') + 1);
  const std::string running = ReadFile(ReplicaFolder(Id("r")) + "/running.json");
  const int replica = atoi(running.c_str() + running.find("\"pid\":") + 6);
  int shim = 0;
  const std::string stat = ReadFile(absl::StrCat("/proc/", replica, "/stat"));
  ASSERT_EQ(sscanf(stat.c_str() + stat.rfind(')') + 1, " %*c %d", &shim), 1);
  ASSERT_EQ(kill(shim, SIGKILL), 0);
  const auto lost = supervisor_.WaitForState(Id("r"), v1::REPLICA_STATE_LOST);
  ASSERT_TRUE(lost.has_value());
  EXPECT_THAT(lost->replica().message(), HasSubstr("without leaving a record"));
  EXPECT_EQ(lost->replica().end_cause(), v1::END_CAUSE_NODE);
  EXPECT_TRUE(WaitForProcessEnd(replica));
  EXPECT_TRUE(WaitForProcessEnd(grandchild));
  EXPECT_TRUE(WaitForFile(ReplicaFolder(Id("r")) + "/exit.json"));
}

TEST_F(WorkerTest, ReplicasOutliveARestartOfTheSupervisor) {
  supervisor_.Launch(Shell("r", Until("go") + "exit 5"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  supervisor_.Stop();
  supervisor_.ForgetHellos();
  supervisor_.Start();
  ASSERT_THAT(supervisor_.TakeHello()->replicas(), SizeIs(1));
  Touch("go");
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 5);
}

TEST_F(WorkerTest, AnEndWhileTheSupervisorIsAwayIsInTheNextHello) {
  supervisor_.Launch(Shell("r", Until("go") + "exit 5"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  supervisor_.Stop();
  supervisor_.ForgetHellos();
  Touch("go");
  ASSERT_TRUE(WaitForFile(ReplicaFolder(Id("r")) + "/exit.json"));
  supervisor_.Start();
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 5);
}

TEST_F(WorkerTest, RegistersAgainWhenItsSessionWasEnded) {
  ASSERT_TRUE(supervisor_.TakeRegistration().has_value());
  const auto first = supervisor_.TakeHello();
  supervisor_.EndStream(grpc::Status(grpc::StatusCode::ABORTED, "superseded"));
  ASSERT_TRUE(supervisor_.TakeRegistration().has_value());
  const auto second = supervisor_.TakeHello();
  EXPECT_GT(second->session_id(), first->session_id());
}

TEST_F(WorkerTest, GivesDistinctGpusAndRemembersThemOverARestart) {
  supervisor_.Launch(Shell("a", "echo gpu=$CUDA_VISIBLE_DEVICES; " + Until("go"), 1));
  supervisor_.Launch(Shell("b", "echo gpu=$CUDA_VISIBLE_DEVICES; " + Until("stay"), 1));
  ASSERT_TRUE(WaitForRunning("a").has_value());
  ASSERT_TRUE(WaitForRunning("b").has_value());
  KillWorker();
  StartWorker();
  supervisor_.TakeHello();
  supervisor_.TakeHello();
  supervisor_.Launch(Shell("c", "true", 1));
  const auto lost = supervisor_.WaitForState(Id("c"), v1::REPLICA_STATE_LOST);
  ASSERT_TRUE(lost.has_value());
  EXPECT_THAT(lost->replica().message(), HasSubstr("0 are free"));
  Touch("go");
  ASSERT_TRUE(WaitForExit("a").has_value());
  supervisor_.Launch(Shell("d", "echo gpu=$CUDA_VISIBLE_DEVICES", 1));
  ASSERT_TRUE(WaitForExit("d").has_value());
  EXPECT_THAT(LogOf("a"), HasSubstr("gpu=0"));
  EXPECT_THAT(LogOf("b"), HasSubstr("gpu=1"));
  EXPECT_THAT(LogOf("d"), HasSubstr("gpu=0"));
  Touch("stay");
  ASSERT_TRUE(WaitForExit("b").has_value());
}

TEST_F(WorkerTest, StreamsALogWhileItIsWritten) {
  supervisor_.Launch(Shell("r", "echo one; echo two >&2; " + Until("go") + "echo three; exit 1"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  v1::StreamReplicaLogsRequest request;
  request.set_replica_id(Id("r"));
  request.set_follow(true);
  grpc::ClientContext context;
  const auto stream = logs_->StreamReplicaLogs(&context, request);
  std::vector<std::string> texts;
  v1::StreamReplicaLogsResponse response;
  while (stream->Read(&response)) {
    for (const v1::LogLine& line : response.lines()) {
      texts.push_back(line.text());
      EXPECT_EQ(line.source() == v1::LOG_SOURCE_STDERR, line.text() == "two");
      EXPECT_EQ(line.replica_id(), Id("r"));
      EXPECT_EQ(line.group(), 2);
      EXPECT_GT(line.time().seconds(), 1'700'000'000);
    }
    if (texts.size() == 2) Touch("go");
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(texts, testing::UnorderedElementsAre("one", "two", "three"));
  EXPECT_EQ(texts.back(), "three");

  request.set_follow(false);
  request.set_tail_lines(1);
  grpc::ClientContext tail_context;
  const auto tail = logs_->StreamReplicaLogs(&tail_context, request);
  ASSERT_TRUE(tail->Read(&response));
  ASSERT_THAT(response.lines(), SizeIs(1));
  EXPECT_EQ(response.lines(0).text(), "three");
  EXPECT_FALSE(tail->Read(&response));
  EXPECT_TRUE(tail->Finish().ok());
}

TEST_F(WorkerTest, SearchesALogWhileItIsWritten) {
  supervisor_.Launch(Shell(
      "r", "for i in 1 2 3 4; do echo loss $i; echo other; done; " + Until("go") + "echo loss 5; echo end"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  ASSERT_TRUE(
      WaitForChange(ReplicaFolder(Id("r")), [&] { return testing::Value(LogOf("r"), HasSubstr("loss 4")); }));
  v1::StreamReplicaLogsRequest request;
  request.set_replica_id(Id("r"));
  request.set_pattern("^loss [2-9]$");
  const auto read = [&](const v1::StreamReplicaLogsRequest& wanted, const std::string& go_after = "") {
    grpc::ClientContext context;
    const auto stream = logs_->StreamReplicaLogs(&context, wanted);
    std::vector<std::string> texts;
    v1::StreamReplicaLogsResponse response;
    while (stream->Read(&response)) {
      for (const v1::LogLine& line : response.lines()) texts.push_back(line.text());
      if (texts.back() == go_after) Touch("go");
    }
    EXPECT_TRUE(stream->Finish().ok());
    return texts;
  };
  EXPECT_THAT(read(request), testing::ElementsAre("loss 2", "loss 3", "loss 4"));
  request.set_tail_lines(2);
  EXPECT_THAT(read(request), testing::ElementsAre("loss 3", "loss 4"));
  request.set_follow(true);
  EXPECT_THAT(read(request, "loss 4"), testing::ElementsAre("loss 3", "loss 4", "loss 5"));
  request.mutable_since()->set_seconds(4'000'000'000);
  EXPECT_THAT(read(request), testing::IsEmpty());
  request.set_pattern("(");
  grpc::ClientContext context;
  const auto refused = logs_->StreamReplicaLogs(&context, request);
  EXPECT_EQ(refused->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(WorkerTest, LogsOfUnknownReplicasAreNotFound) {
  const auto code_of = [&](const std::string& id) {
    v1::StreamReplicaLogsRequest request;
    request.set_replica_id(id);
    grpc::ClientContext context;
    const auto stream = logs_->StreamReplicaLogs(&context, request);
    v1::StreamReplicaLogsResponse response;
    while (stream->Read(&response)) {
    }
    return stream->Finish().error_code();
  };
  EXPECT_EQ(code_of("nobody"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(code_of("../../etc"), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(WorkerTest, ACancelledFollowerAndAnEndingWorkerDoNotHang) {
  supervisor_.Launch(Shell("r", "echo one; " + Until("go")));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  v1::StreamReplicaLogsRequest request;
  request.set_replica_id(Id("r"));
  request.set_follow(true);
  v1::StreamReplicaLogsResponse response;
  grpc::ClientContext cancelled, followed;
  const auto first = logs_->StreamReplicaLogs(&cancelled, request);
  ASSERT_TRUE(first->Read(&response));
  cancelled.TryCancel();
  EXPECT_EQ(first->Finish().error_code(), grpc::StatusCode::CANCELLED);
  const auto second = logs_->StreamReplicaLogs(&followed, request);
  ASSERT_TRUE(second->Read(&response));
  EXPECT_EQ(EndWorker(SIGTERM), 0);
  EXPECT_FALSE(second->Read(&response));
  EXPECT_EQ(second->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(WorkerTest, SendsFilesOfAJobAndRefusesOthers) {
  supervisor_.Launch(Shell("r", "mkdir out; echo result > out/model; ln -s /etc/passwd leak"));
  ASSERT_TRUE(WaitForExit("r").has_value());
  const auto read = [&](const std::string& path, grpc::Status* status) {
    v1::ReadJobFilesRequest request;
    request.set_namespace_("default");
    request.set_job("mnist");
    request.set_job_uid(unique_);
    request.set_folder(v1::JOB_FOLDER_SHARE);
    request.set_path(path);
    grpc::ClientContext context;
    const auto stream = logs_->ReadJobFiles(&context, request);
    std::vector<std::string> files;
    v1::ReadJobFilesResponse response;
    while (stream->Read(&response)) {
      files.push_back(absl::StrCat(response.chunk().path(), ":", response.chunk().data()));
    }
    *status = stream->Finish();
    return files;
  };
  grpc::Status status;
  EXPECT_THAT(read("", &status), ElementsAre("out:", "out/model:result\n"));
  EXPECT_TRUE(status.ok());
  for (const std::string path : {"leak", "../checkpoint", "/etc/passwd"}) {
    EXPECT_THAT(read(path, &status), IsEmpty());
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << path;
  }
}

TEST_F(WorkerTest, DeletesAJobsFiles) {
  supervisor_.Launch(Shell("r", "echo data > file"));
  ASSERT_TRUE(WaitForExit("r").has_value());
  v1::ConnectResponse command;
  command.mutable_delete_job_files()->set_namespace_("default");
  command.mutable_delete_job_files()->set_job("mnist");
  command.mutable_delete_job_files()->set_job_uid(unique_);
  supervisor_.Send(command);
  const std::string storage = folder_ / "storage";
  EXPECT_TRUE(WaitForChange(storage, [&] { return std::filesystem::is_empty(storage); }));
  EXPECT_FALSE(std::filesystem::exists(ReplicaFolder(Id("r"))));
  EXPECT_TRUE(supervisor_.TakeHello()->confirms_deletions());
  EXPECT_TRUE(supervisor_.WaitForDeletion(unique_));
  // Asked again, as after a reconnection, it says so again.
  const std::string other = RandomHex(6);
  command.mutable_delete_job_files()->set_job_uid(other);
  supervisor_.Send(command);
  EXPECT_TRUE(supervisor_.WaitForDeletion(other));
}

TEST_F(WorkerTest, TwoWorkersDoNotShareAStateFolder) {
  EXPECT_THAT(ErrorOfAnotherWorker(), HasSubstr("another worker uses --state-dir"));
}

class KeepingWorkerTest : public WorkerTest {
 protected:
  KeepingWorkerTest() { orphan_timeout_ = "300ms"; }
};

TEST_F(KeepingWorkerTest, LeavesReplicasToTheNextWorkerOrTheyAreStopped) {
  supervisor_.Launch(
      Shell("r", "trap 'echo saved; exit 143' TERM; touch ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  ASSERT_TRUE(WaitForFile(Share() + "/ready"));
  EXPECT_EQ(EndWorker(SIGTERM), 0);
  ASSERT_TRUE(WaitForFile(ReplicaFolder(Id("r")) + "/exit.json"));
  EXPECT_THAT(LogOf("r"), HasSubstr("saved"));
  StartWorker();
  const auto exit = WaitForExit("r");
  EXPECT_EQ(exit->replica().exit_code(), 143);
  EXPECT_THAT(exit->replica().message(), HasSubstr("no worker came back"));
  EXPECT_EQ(exit->replica().end_cause(), v1::END_CAUSE_NODE);
}

class DrainingWorkerTest : public WorkerTest {
 protected:
  DrainingWorkerTest() { on_terminate_ = "drain"; }

  void RunOne() {
    supervisor_.AcknowledgeAll();
    supervisor_.Launch(Shell("r", "trap 'echo told; exit 143' TERM; touch ready; " + Until("go") + "exit 0"));
    ASSERT_TRUE(WaitForRunning("r").has_value());
    ASSERT_TRUE(WaitForFile(Share() + "/ready"));
  }
};

TEST_F(DrainingWorkerTest, GivesNoticeAndEndsWhenTheSupervisorHasMovedItsReplicas) {
  RunOne();
  kill(worker_, SIGTERM);
  ASSERT_TRUE(supervisor_.WaitForNotice());
  // As a replica does that has left its group.
  Touch("go");
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 0);
  EXPECT_EQ(EndWorker(0), 0);
  EXPECT_THAT(LogOf("r"), Not(HasSubstr("told")));
  EXPECT_TRUE(std::filesystem::exists(ReplicaFolder(Id("r")) + "/acknowledged"));
}

class HastyWorkerTest : public DrainingWorkerTest {
 protected:
  HastyWorkerTest() { terminate_timeout_ = "4s"; }
};

TEST_F(HastyWorkerTest, StopsWhatNobodyHasMoved) {
  RunOne();
  EXPECT_EQ(EndWorker(SIGTERM), 0);
  const auto exit = WaitForExit("r");
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->replica().exit_code(), 143);
  EXPECT_EQ(exit->replica().end_cause(), v1::END_CAUSE_PREEMPTION);
  const std::string order = absl::StrJoin(supervisor_.Order(), " ");
  EXPECT_THAT(order, HasSubstr("notice EXITED"));
  EXPECT_TRUE(std::filesystem::exists(ReplicaFolder(Id("r")) + "/acknowledged"));
}

}  // namespace
}  // namespace adaptdl::worker
