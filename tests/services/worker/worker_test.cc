// The real adaptdl-worker and adaptdl-shim, with a supervisor that the test plays.

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "adaptdl/v1/log_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "libs/rpc/channel.h"
#include "services/worker/replica_accounts.h"
#include "tests/services/worker/fake_supervisor.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

class WorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    supervisor_.Start();
    StartWorker();
  }

  ~WorkerTest() override {
    KillWorker();
    // No process of the test may outlive it, wherever it failed. Shims end when their replica does.
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(ReplicaFolder(""), error)) {
      if (std::filesystem::exists(entry.path() / "exit.json")) continue;
      const std::string running = ReadFile((entry.path() / "running.json").string());
      const size_t pid = running.find("\"pid\":");
      if (pid != std::string::npos) kill(atoi(running.c_str() + pid + 6), SIGKILL);
      WaitForFile((entry.path() / "exit.json").string());
    }
  }

  void StartWorker() {
    const std::string address_file = folder_ / "address";
    std::filesystem::remove(address_file);
    std::vector<std::string> arguments = {ADAPTDL_BINARY_DIR "/bin/adaptdl-worker",
                                          "--listen=127.0.0.1:0",
                                          "--metrics-listen=127.0.0.1:0",
                                          "--insecure",
                                          "--address-file=" + address_file,
                                          "--supervisor=" + supervisor_.address(),
                                          "--node-id=node-a",
                                          "--state-dir=" + folder_ / "state",
                                          "--storage-dir=" + folder_ / "storage",
                                          "--gpus=2",
                                          "--gpu-type=Fake 9000",
                                          "--cpus=1.5",
                                          "--label=zone=b",
                                          "--preemptible",
                                          "--on-terminate=" + on_terminate_,
                                          "--replica-user=" + replica_user_,
                                          "--replica-processes=" + replica_processes_,
                                          "--orphan-timeout=" + orphan_timeout_};
    std::vector<std::string> environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root", "SECRET=s",
                                            "ADAPTDL_SERVER_MAX_LOG_BYTES=1Gi"};
    for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
      if (getenv(name) != nullptr) environment.push_back(absl::StrCat(name, "=", getenv(name)));
    }
    std::vector<char*> argv, env;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    for (std::string& variable : environment) env.push_back(variable.data());
    argv.push_back(nullptr);
    env.push_back(nullptr);
    ASSERT_EQ(posix_spawn(&worker_, argv[0], nullptr, nullptr, argv.data(), env.data()), 0);
    ASSERT_TRUE(WaitForFile(address_file));
    channel_ =
        rpc::CreateChannel(std::string(absl::StripAsciiWhitespace(ReadFile(address_file))), rpc::Plaintext());
    logs_ = v1::LogService::NewStub(channel_);
  }

  // Sends the signal and waits for the worker's end.
  int EndWorker(int signal) {
    kill(worker_, signal);
    int status = -1;
    waitpid(worker_, &status, 0);
    worker_ = -1;
    return status;
  }
  void KillWorker() {
    if (worker_ > 0) EndWorker(SIGKILL);
  }

  // Ids are unique on the machine: lost replicas are searched for by id.
  std::string Id(const std::string& name) const { return absl::StrCat(name, "-", unique_); }

  v1::LaunchReplica Shell(const std::string& name, const std::string& script, int gpus = 0) {
    v1::LaunchReplica launch;
    launch.set_namespace_("default");
    launch.set_job("mnist");
    launch.set_job_uid(unique_);
    launch.set_replica_id(Id(name));
    launch.set_group(2);
    launch.set_num_replicas(1);
    launch.set_num_nodes(1);
    launch.set_token("secret");
    for (const std::string& part : {std::string("sh"), std::string("-c"), script}) {
      launch.mutable_template_()->add_command(part);
    }
    launch.mutable_template_()->mutable_resources()->set_gpus(gpus);
    return launch;
  }

  // Runs until the file of that name is there (its folder is the share folder).
  static std::string Until(const std::string& file) {
    return absl::StrCat("while [ ! -e ", file, " ]; do sleep 0.02; done; ");
  }
  void Touch(const std::string& file) { WriteFile(Share() + "/" + file, ""); }

  std::string Share() const { return folder_ / absl::StrCat("storage/default/mnist-", unique_, "/share"); }
  std::string ReplicaFolder(const std::string& id) const { return folder_ / ("state/replicas/" + id); }
  std::string LogOf(const std::string& name) const {
    return ReadFile(ReplicaFolder(Id(name)) + "/replica.log");
  }

  std::optional<v1::ReplicaReport> WaitForRunning(const std::string& name) {
    return supervisor_.WaitForState(Id(name), v1::REPLICA_STATE_RUNNING);
  }
  std::optional<v1::ReplicaReport> WaitForExit(const std::string& name) {
    return supervisor_.WaitForState(Id(name), v1::REPLICA_STATE_EXITED);
  }

  TempFolder folder_;
  const std::string unique_ = RandomHex(6);
  std::string on_terminate_ = "keep";
  std::string replica_user_ = "self";
  std::string replica_processes_ = "1000";
  std::string orphan_timeout_ = "60s";
  FakeSupervisor supervisor_;
  pid_t worker_ = -1;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::LogService::Stub> logs_;
};

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
  EXPECT_TRUE(WaitForProcessEnd(replica));
  EXPECT_TRUE(WaitForProcessEnd(grandchild));
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
}

TEST_F(WorkerTest, TwoWorkersDoNotShareAStateFolder) {
  const int status = system(absl::StrCat(ADAPTDL_BINARY_DIR "/bin/adaptdl-worker --listen=127.0.0.1:0 "
                                                            "--insecure --metrics-listen \"\" --state-dir=",
                                         folder_ / "state", " 2>", folder_ / "err")
                                .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(ReadFile(folder_ / "err"), HasSubstr("another worker uses --state-dir"));
}

// Two jobs on one node that is allowed to give each a user of its own.
class SeparateUsersTest : public WorkerTest {
 protected:
  SeparateUsersTest() {
    replica_user_ = "per-job";
    chmod(folder_.path().c_str(), 0711);
  }
  void SetUp() override {
    if (!CanChangeUsers()) GTEST_SKIP() << "NOT TESTED: only root can run jobs as different users";
    WorkerTest::SetUp();
  }

  v1::LaunchReplica OfJob(const std::string& job, const std::string& name, const std::string& script) {
    v1::LaunchReplica launch = Shell(name, script);
    launch.set_job(job);
    return launch;
  }
  std::string ShareOf(const std::string& job) const {
    return folder_ / absl::StrCat("storage/default/", job, "-", unique_, "/share");
  }
  static uid_t OwnerOf(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return info.st_uid;
  }
  int PidOf(const std::string& name) const {
    const std::string running = ReadFile(ReplicaFolder(Id(name)) + "/running.json");
    return atoi(running.c_str() + running.find("\"pid\":") + 6);
  }
};

TEST_F(SeparateUsersTest, AJobReachesNothingOfAnother) {
  v1::LaunchReplica victim =
      OfJob("victim", "v", "echo precious > file; echo secret words; touch ready; " + Until("go"));
  victim.set_token("token-of-the-victim");
  supervisor_.Launch(victim);
  ASSERT_TRUE(WaitForRunning("v").has_value());
  ASSERT_TRUE(WaitForFile(ShareOf("victim") + "/ready"));
  const std::string folder = ReplicaFolder(Id("v"));
  const int pid = PidOf("v");
  // Each line that gets through says so.
  const std::vector<std::string> attempts = {
      absl::StrCat("cat ", ShareOf("victim"), "/file"),
      absl::StrCat("ls ", ShareOf("victim")),
      absl::StrCat("ls ", folder_ / "storage/default"),
      absl::StrCat("touch ", ShareOf("victim"), "/mine"),
      absl::StrCat("ln ", ShareOf("victim"), "/file stolen"),
      absl::StrCat("rm -r ", folder_ / "storage/default/victim-", unique_),
      absl::StrCat("cat ", folder, "/launch.json"),
      absl::StrCat("cat ", folder, "/replica.log"),
      absl::StrCat("ls ", folder),
      absl::StrCat("ls ", folder_ / "state/replicas"),
      absl::StrCat("cat /proc/", pid, "/environ"),
      absl::StrCat("ls /proc/", pid, "/fd/"),
      absl::StrCat("head -c 1 /proc/", pid, "/mem"),
      absl::StrCat("cat /proc/", worker_, "/environ"),
      absl::StrCat("kill -TERM ", pid),
      absl::StrCat("kill -KILL ", worker_),
      "kill -KILL $PPID"};
  std::string script;
  for (size_t i = 0; i < attempts.size(); ++i) {
    absl::StrAppend(&script, attempts[i], " && echo GOT THROUGH: ", i, "\n");
  }
  supervisor_.Launch(OfJob("thief", "t", script + "echo tried all"));
  ASSERT_TRUE(WaitForExit("t").has_value());
  EXPECT_THAT(LogOf("t"), HasSubstr("tried all"));
  EXPECT_THAT(LogOf("t"), Not(HasSubstr("GOT THROUGH"))) << LogOf("t");
  EXPECT_THAT(LogOf("t"), Not(HasSubstr("precious")));
  EXPECT_THAT(LogOf("t"), Not(HasSubstr("token-of-the-victim")));
  WriteFile(ShareOf("victim") + "/go", "");
  EXPECT_EQ(WaitForExit("v")->replica().exit_code(), 0);
}

TEST_F(SeparateUsersTest, AReplicaHasNoRightsAndNothingOfTheWorkers) {
  supervisor_.Launch(
      OfJob("a", "r",
            "id -u; id -g; id -G; grep -E 'NoNewPrivs|CapEff|CapPrm' /proc/self/status; ulimit -c; umask; "
            "ls /proc/self/fd | tr '\\n' ' '; echo; env; pwd; echo mine > $HOME/file"));
  ASSERT_TRUE(WaitForExit("r").has_value());
  const std::string log = LogOf("r");
  const uid_t uid = OwnerOf(ShareOf("a"));
  EXPECT_GE(uid, 200'000u);
  EXPECT_LE(uid, 265'535u);
  for (const std::string& line :
       {absl::StrCat(" F ", uid, "\n"), std::string("NoNewPrivs:\t1\n"),
        std::string("CapEff:\t0000000000000000\n"), std::string("CapPrm:\t0000000000000000\n"),
        std::string(" F 0\n"), std::string(" F 0077\n"),
        // 3 is the folder that ls reads.
        std::string(" F 0 1 2 3 \n"), absl::StrCat("HOME=", ShareOf("a"), "\n"),
        absl::StrCat("USER=adaptdl-", uid, "\n"), absl::StrCat(" F ", ShareOf("a"), "\n")}) {
    EXPECT_THAT(log, HasSubstr(line));
  }
  EXPECT_EQ(OwnerOf(ShareOf("a") + "/file"), uid);
  EXPECT_EQ(OwnerOf(ShareOf("a") + "/.."), 0u);
}

TEST_F(SeparateUsersTest, AJobKeepsItsUserAndFilesOverARestartOfTheWorker) {
  supervisor_.Launch(OfJob("a", "r1", "echo 1 > file"));
  ASSERT_TRUE(WaitForExit("r1").has_value());
  const uid_t uid = OwnerOf(ShareOf("a"));
  KillWorker();
  StartWorker();
  supervisor_.Launch(OfJob("a", "r2", "cat file && echo 2 > file && id -u"));
  ASSERT_TRUE(WaitForExit("r2").has_value());
  EXPECT_THAT(LogOf("r2"), HasSubstr(absl::StrCat(" F ", uid, "\n")));
  supervisor_.Launch(OfJob("b", "r3", "true"));
  ASSERT_TRUE(WaitForExit("r3").has_value());
  EXPECT_NE(OwnerOf(ShareOf("b")), uid);
}

TEST_F(SeparateUsersTest, FilesOfJobsThatRanAsRootBecomeTheirs) {
  std::filesystem::create_directories(ShareOf("a") + "/deep");
  WriteFile(ShareOf("a") + "/deep/file", "old");
  WriteFile(folder_ / "elsewhere", "");
  std::filesystem::create_symlink(folder_ / "elsewhere", ShareOf("a") + "/link");
  supervisor_.Launch(OfJob("a", "r", "cat deep/file && echo new > deep/file"));
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 0);
  EXPECT_EQ(OwnerOf(folder_ / "elsewhere"), 0u);
  EXPECT_EQ(ReadFile(ShareOf("a") + "/deep/file"), "new\n");
}

TEST_F(SeparateUsersTest, ADeletedJobsUserIsFreeAgain) {
  supervisor_.Launch(OfJob("a", "r", "true"));
  ASSERT_TRUE(WaitForExit("r").has_value());
  const std::string claim = folder_ / absl::StrCat("storage/.users/", OwnerOf(ShareOf("a")));
  EXPECT_EQ(std::filesystem::read_symlink(claim), absl::StrCat("default/a-", unique_));
  v1::ConnectResponse command;
  command.mutable_delete_job_files()->set_namespace_("default");
  command.mutable_delete_job_files()->set_job("a");
  command.mutable_delete_job_files()->set_job_uid(unique_);
  supervisor_.Send(command);
  const std::string claims = folder_ / "storage/.users";
  EXPECT_TRUE(WaitForChange(claims, [&] { return std::filesystem::is_empty(claims); }));
}

TEST_F(SeparateUsersTest, AProgramOrFolderThatIsClosedToTheJobIsItsOwnMistake) {
  v1::LaunchReplica launch = OfJob("a", "r", "true");
  launch.mutable_template_()->set_working_directory(folder_ / "state/replicas");
  supervisor_.Launch(launch);
  const auto exit = WaitForExit("r");
  EXPECT_EQ(exit->replica().exit_code(), 126);
  EXPECT_THAT(exit->replica().message(), HasSubstr("Permission denied"));
}

TEST_F(SeparateUsersTest, AForkBombIsBounded) {
  KillWorker();
  replica_processes_ = "20";
  StartWorker();
  supervisor_.Launch(
      OfJob("a", "r", "i=0; while [ $i -lt 40 ]; do sleep 1000 & i=$((i+1)); done; echo no bound"));
  ASSERT_TRUE(WaitForExit("r").has_value());
  EXPECT_THAT(LogOf("r"), Not(HasSubstr("no bound")));
}

class ClosedStorageTest : public WorkerTest {
 protected:
  // The folder of a test is for its owner only.
  void SetUp() override {
    if (!CanChangeUsers()) GTEST_SKIP() << "NOT TESTED: only root can run jobs as different users";
  }
};

TEST_F(ClosedStorageTest, StorageThatJobsCannotReachIsSaidAtTheStart) {
  const int status = system(absl::StrCat(ADAPTDL_BINARY_DIR "/bin/adaptdl-worker --listen=127.0.0.1:0 "
                                                            "--insecure --metrics-listen \"\" --state-dir=",
                                         folder_ / "state", " 2>", folder_ / "err")
                                .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(ReadFile(folder_ / "err"), HasSubstr("chmod o+x"));
  EXPECT_THAT(ReadFile(folder_ / "err"), HasSubstr("--replica-user=self"));
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
}

class DrainingWorkerTest : public WorkerTest {
 protected:
  DrainingWorkerTest() { on_terminate_ = "drain"; }
};

TEST_F(DrainingWorkerTest, GivesNoticeStopsItsReplicasAndEndsWhenTheSupervisorKnows) {
  supervisor_.AcknowledgeAll();
  supervisor_.Launch(Shell("r", "trap 'exit 143' TERM; touch ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  ASSERT_TRUE(WaitForFile(Share() + "/ready"));
  EXPECT_EQ(EndWorker(SIGTERM), 0);
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 143);
  const std::string order = absl::StrJoin(supervisor_.Order(), " ");
  EXPECT_THAT(order, HasSubstr("notice EXITED"));
  EXPECT_TRUE(std::filesystem::exists(ReplicaFolder(Id("r")) + "/acknowledged"));
}

}  // namespace
}  // namespace adaptdl::worker
