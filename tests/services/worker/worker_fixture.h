// The real adaptdl-worker and adaptdl-shim, with a supervisor that the test plays.

#ifndef ADAPTDL_TESTS_SERVICES_WORKER_WORKER_FIXTURE_H_
#define ADAPTDL_TESTS_SERVICES_WORKER_WORKER_FIXTURE_H_

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "adaptdl/v1/log_service.grpc.pb.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "libs/rpc/channel.h"
#include "tests/services/worker/fake_supervisor.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {

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
    std::vector<std::string> arguments = {std::string(ADAPTDL_BINARY_DIR) + "/bin/adaptdl-worker",
                                          "--listen=127.0.0.1:0",
                                          "--metrics-listen=127.0.0.1:0",
                                          "--insecure",
                                          "--address-file=" + address_file,
                                          "--supervisor=" + supervisor_.address(),
                                          "--node-id=node-a",
                                          "--state-dir=" + folder_ / "state",
                                          "--storage-dir=" + folder_ / "storage",
                                          "--cpus=1.5",
                                          "--label=zone=b",
                                          "--preemptible",
                                          "--on-terminate=" + on_terminate_,
                                          "--terminate-timeout=" + terminate_timeout_,
                                          "--replica-user=" + replica_user_,
                                          "--replica-processes=" + replica_processes_,
                                          "--orphan-timeout=" + orphan_timeout_};
    arguments.insert(arguments.end(), gpu_flags_.begin(), gpu_flags_.end());
    std::vector<std::string> environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root", "SECRET=s",
                                            "ADAPTDL_SERVER_MAX_LOG_BYTES=1Gi"};
    for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
      if (getenv(name) != nullptr) environment.push_back(absl::StrCat(name, "=", getenv(name)));
    }
    environment.insert(environment.end(), environment_.begin(), environment_.end());
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

  // What one that is started on the same --state-dir says; it is to fail.
  std::string ErrorOfAnotherWorker() {
    const int status = system(absl::StrCat(ADAPTDL_BINARY_DIR "/bin/adaptdl-worker --listen=127.0.0.1:0 "
                                                              "--insecure --metrics-listen \"\" --state-dir=",
                                           folder_ / "state", " 2>", folder_ / "err")
                                  .c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1);
    return ReadFile(folder_ / "err");
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
  std::string terminate_timeout_ = "2m";
  std::string replica_user_ = "self";
  std::string replica_processes_ = "1000";
  std::string orphan_timeout_ = "60s";
  std::vector<std::string> gpu_flags_ = {"--gpus=2", "--gpu-type=Fake 9000"};
  // More variables of the worker's.
  std::vector<std::string> environment_;
  FakeSupervisor supervisor_;
  pid_t worker_ = -1;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::LogService::Stub> logs_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_TESTS_SERVICES_WORKER_WORKER_FIXTURE_H_
