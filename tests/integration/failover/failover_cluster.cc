#include "tests/integration/failover/failover_cluster.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <regex>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace adaptdl::integration {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kCallTimeout = absl::Seconds(20);
// Of attempts that are repeated until one succeeds.
constexpr absl::Duration kAttempt = absl::Milliseconds(300);

}  // namespace

FailoverCluster::FailoverCluster() {
  std::string pattern = (fs::temp_directory_path() / "adaptdl-test-XXXXXX").string();
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  fs::create_directories(records());
  for (int i = 0; i < 2; ++i) {
    ports_[i] = FreePort();
    const auto channel = rpc::CreateChannel(absl::StrCat("127.0.0.1:", ports_[i]), rpc::Plaintext());
    jobs_[i] = v1::JobService::NewStub(channel);
    nodes_[i] = v1::NodeService::NewStub(channel);
  }
}

FailoverCluster::~FailoverCluster() {
  autoscaler_.Kill();
  for (Process& process : workers_) process.Kill();
  for (Process& process : allocators_) process.Kill();
  for (Process& process : supervisors_) process.Kill();
  while (KillProcessesMatching(folder_) > 0) poll(nullptr, 0, 50);
  if (testing::Test::HasFailure()) {
    std::cerr << "state and logs of the failed test: " << folder_ << "\n";
    return;
  }
  std::error_code error;
  fs::remove_all(folder_, error);
}

std::string FailoverCluster::Binary(const std::string& name) const {
  return absl::StrCat(ADAPTDL_BINARY_DIR, "/bin/", name);
}

std::string FailoverCluster::Supervisors() const {
  return absl::StrCat("127.0.0.1:", ports_[0], ",127.0.0.1:", ports_[1]);
}

void FailoverCluster::StartSupervisor(int index, const std::vector<std::string>& environment) {
  supervisors_[index] = Launch(
      absl::StrCat("supervisor-", index), environment,
      {Binary("adaptdl-supervisor"), "--insecure", "--listen", absl::StrCat("127.0.0.1:", ports_[index]),
       "--metrics-listen", "127.0.0.1:0", "--state-dir", folder_ + "/state"});
}

void FailoverCluster::StartAllocator(int index, const std::vector<std::string>& environment) {
  const std::string name = absl::StrCat("allocator-", index);
  allocators_[index] = Launch(name, environment,
                              {Binary("adaptdl-allocator"), "--insecure", "--listen", "127.0.0.1:0",
                               "--metrics-listen", "127.0.0.1:0", "--supervisor", Supervisors(),
                               "--address-file", absl::StrCat(folder_, "/", name, ".address")});
}

void FailoverCluster::StartWorker(int index, const std::vector<std::string>& environment) {
  const std::string name = absl::StrCat("node-", index);
  workers_[index] = Launch(name, environment,
                           {Binary("adaptdl-worker"),
                            "--insecure",
                            "--listen",
                            "127.0.0.1:0",
                            "--metrics-listen",
                            "127.0.0.1:0",
                            "--supervisor",
                            Supervisors(),
                            "--node-id",
                            name,
                            "--state-dir",
                            absl::StrCat(folder_, "/", name),
                            "--storage-dir",
                            folder_ + "/storage",
                            "--cpus",
                            "16",
                            "--replica-user",
                            "self",
                            "--gpus",
                            "0"});
}

void FailoverCluster::StartAutoscaler(const std::vector<std::string>& environment) {
  std::string allocator;
  EXPECT_TRUE(Await([&] {
    allocator =
        std::string(absl::StripAsciiWhitespace(ReadWholeFile(folder_ + "/allocator-0.address").value_or("")));
    return !allocator.empty();
  }));
  std::vector<std::string> settings = environment;
  settings.push_back("ADAPTDL_SERVER_REPLICA_USER=self");  // of the worker that it starts, as of the others
  autoscaler_ = Launch("autoscaler", settings,
                       {Binary("adaptdl-autoscaler"),
                        "--insecure",
                        "--listen",
                        "127.0.0.1:0",
                        "--metrics-listen",
                        "127.0.0.1:0",
                        "--supervisor",
                        Supervisors(),
                        "--allocator",
                        allocator,
                        "--min-nodes",
                        "1",
                        "--max-nodes",
                        "1",
                        "--poll-period",
                        "300ms",
                        "--state-dir",
                        folder_ + "/autoscaler",
                        "--storage-dir",
                        folder_ + "/storage"});
}

Process FailoverCluster::Launch(const std::string& name, const std::vector<std::string>& environment,
                                const std::vector<std::string>& program) const {
  std::vector<std::string> command = {"/usr/bin/env"};
  command.insert(command.end(), environment.begin(), environment.end());
  command.insert(command.end(), program.begin(), program.end());
  return Process::Start(command, absl::StrCat(folder_, "/", name, ".log"));
}

absl::Status FailoverCluster::Start() {
  return Start([](const std::string& /*program*/) { return std::vector<std::string>(); });
}

absl::Status FailoverCluster::Start(
    const std::function<std::vector<std::string>(const std::string& program)>& environment) {
  StartSupervisor(0, environment("supervisor-0"));
  if (!AwaitLog("supervisor-0", "serving")) return absl::UnavailableError("the supervisor does not serve");
  StartSupervisor(1, environment("supervisor-1"));
  if (!AwaitLog("supervisor-1", "standing by"))
    return absl::UnavailableError("the second one does not stand by");
  for (int i = 0; i < 2; ++i) {
    StartAllocator(i, environment(absl::StrCat("allocator-", i)));
    StartWorker(i, environment(absl::StrCat("node-", i)));
  }
  if (!Await([this] { return ReadyNodes(0) == 2; }))
    return absl::UnavailableError("the workers are not there");
  return absl::OkStatus();
}

bool FailoverCluster::Await(const std::function<bool()>& done, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!done()) {
    if (absl::Now() > deadline) return false;
    poll(nullptr, 0, 10);
  }
  return true;
}

std::string FailoverCluster::Log(const std::string& program) const {
  return ReadWholeFile(absl::StrCat(folder_, "/", program, ".log")).value_or("");
}

bool FailoverCluster::AwaitLog(const std::string& program, const std::string& text,
                               absl::Duration timeout) const {
  return Await([&] { return absl::StrContains(Log(program), text); }, timeout);
}

v1::Job FailoverCluster::MakeJob(const std::string& name, const std::vector<std::string>& command) {
  v1::Job job;
  job.set_name(name);
  job.mutable_spec()->set_max_replicas(1);
  v1::ReplicaTemplate* replica = job.mutable_spec()->mutable_template_();
  for (const std::string& word : command) replica->add_command(word);
  replica->mutable_resources()->set_cpu_millis(1000);
  return job;
}

v1::Job FailoverCluster::MakeStepJob(const std::string& name) const {
  return MakeJob(name, {absl::StrCat(ADAPTDL_BINARY_DIR, "/tests/step_job"), records()});
}

bool FailoverCluster::Submit(const std::vector<int>& supervisors, const v1::Job& job,
                             absl::Duration timeout) {
  v1::SubmitJobRequest request;
  request.set_request_id(RandomHex(16));
  *request.mutable_job() = job;
  return Await(
      [&] {
        for (const int supervisor : supervisors) {
          v1::SubmitJobResponse response;
          grpc::ClientContext context;
          rpc::SetTimeout(&context, kAttempt);
          context.set_wait_for_ready(true);
          if (jobs_[supervisor]->SubmitJob(&context, request, &response).ok()) return true;
        }
        return false;
      },
      timeout);
}

absl::StatusOr<v1::Job> FailoverCluster::GetJob(int supervisor, const std::string& name) {
  v1::GetJobRequest request;
  request.set_name(name);
  v1::GetJobResponse response;
  grpc::ClientContext context;
  rpc::SetTimeout(&context, kCallTimeout);
  const grpc::Status status = jobs_[supervisor]->GetJob(&context, request, &response);
  if (!status.ok()) return rpc::FromGrpcStatus(status);
  return response.job();
}

std::vector<v1::Event> FailoverCluster::Events(int supervisor, const std::string& name) {
  v1::ListEventsRequest request;
  request.set_name(name);
  request.set_page_size(1000);
  v1::ListEventsResponse response;
  grpc::ClientContext context;
  rpc::SetTimeout(&context, kCallTimeout);
  const grpc::Status status = jobs_[supervisor]->ListEvents(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return {response.events().begin(), response.events().end()};
}

std::vector<v1::Node> FailoverCluster::Nodes(int supervisor) {
  grpc::ClientContext context;
  rpc::SetTimeout(&context, kCallTimeout);
  v1::ListNodesResponse response;
  if (!nodes_[supervisor]->ListNodes(&context, v1::ListNodesRequest(), &response).ok()) return {};
  return {response.nodes().begin(), response.nodes().end()};
}

int FailoverCluster::ReadyNodes(int supervisor) {
  const std::vector<v1::Node> nodes = Nodes(supervisor);
  return static_cast<int>(std::count_if(nodes.begin(), nodes.end(), [](const v1::Node& node) {
    return node.status().phase() == v1::NODE_PHASE_READY;
  }));
}

std::map<int64_t, std::string> FailoverCluster::Records(const std::string& job) const {
  std::map<int64_t, std::string> records_by_process;
  for (const fs::directory_entry& entry : fs::directory_iterator(records())) {
    const std::pair<std::string, std::string> name = absl::StrSplit(entry.path().filename().string(), '.');
    int64_t pid = 0;
    if (name.first != job || !absl::SimpleAtoi(name.second, &pid)) continue;
    records_by_process[pid] = ReadWholeFile(entry.path().string()).value_or("");
  }
  return records_by_process;
}

int FailoverCluster::Launches() const {
  int launches = 0;
  for (int i = 0; i < 2; ++i) {
    std::error_code error;
    for (fs::directory_iterator entry(absl::StrCat(folder_, "/node-", i, "/replicas"), error), end;
         !error && entry != end; entry.increment(error)) {
      ++launches;
    }
  }
  return launches;
}

std::vector<int64_t> FailoverCluster::Terms(int supervisor) const {
  const std::string log = Log(absl::StrCat("supervisor-", supervisor));
  static const std::regex pattern("leading.*term\\W+(\\d+)");
  std::vector<int64_t> terms;
  for (std::sregex_iterator it(log.begin(), log.end(), pattern), end; it != end; ++it) {
    terms.push_back(std::stoll((*it)[1].str()));
  }
  return terms;
}

}  // namespace adaptdl::integration
