#include "tests/integration/test_cluster.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "libs/certificates/certificates.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"
#include "libs/service/security/token_file.h"

namespace adaptdl::integration {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);
constexpr absl::Duration kCallTimeout = absl::Seconds(20);

// The least wait between two looks at something that tells no news by itself.
void Pause() { poll(nullptr, 0, 50); }

std::string MakeFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "adaptdl-test-XXXXXX").string();
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  return pattern;
}

void AddAll(const std::vector<std::string>& more, std::vector<std::string>* command) {
  command->insert(command->end(), more.begin(), more.end());
}

}  // namespace

bool Finished(const v1::Job& job) {
  const v1::JobPhase phase = job.status().phase();
  return phase == v1::JOB_PHASE_SUCCEEDED || phase == v1::JOB_PHASE_FAILED ||
         phase == v1::JOB_PHASE_CANCELLED;
}

JobPredicate RunningWith(int replicas) {
  return [replicas](const v1::Job& job) {
    return job.status().phase() == v1::JOB_PHASE_RUNNING && job.status().allocation_size() == replicas;
  };
}

JobPredicate RunningAfterGroup(int64_t group) {
  return [group](const v1::Job& job) {
    return job.status().phase() == v1::JOB_PHASE_RUNNING && job.status().group() > group;
  };
}

JobPredicate StepsReached(int64_t steps) {
  return [steps](const v1::Job& job) {
    return job.status().phase() == v1::JOB_PHASE_RUNNING &&
           job.status().progress().optimizer_steps() >= steps;
  };
}

TestCluster::TestCluster(TestClusterOptions options) : options_(std::move(options)), folder_(MakeFolder()) {
  // Also of workers that the autoscaler starts.
  setenv("ADAPTDL_SERVER_REPLICA_USER", options_.separate_users ? "per-job" : "self", /*overwrite=*/1);
  // Jobs of other users than the test's have to come to their folders.
  if (options_.separate_users) chmod(folder_.c_str(), 0711);
}

TestCluster::~TestCluster() {
  for (auto& [index, worker] : workers_) worker.Kill();
  autoscaler_.Kill();
  allocator_.Kill();
  for (auto& [index, supervisor] : supervisors_) supervisor.Kill();
  // Shims, and workers of the autoscaler, name their state folder in their command line.
  while (KillProcessesMatching(folder_) > 0) Pause();
  if (testing::Test::HasFailure()) {
    std::cerr << "state and logs of the failed test: " << folder_ << "\n";
    return;
  }
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

std::string TestCluster::Binary(const std::string& name) const {
  return absl::StrCat(ADAPTDL_BINARY_DIR, "/bin/", name);
}

std::vector<pid_t> TestCluster::Trainers(const std::string& program) const {
  std::vector<pid_t> trainers = FindProcesses(program);
  const std::vector<pid_t> of_cluster = FindProcesses(folder_);
  std::erase_if(trainers, [&](pid_t pid) {
    const auto environment = ReadWholeFile(absl::StrCat("/proc/", pid, "/environ"));
    const bool elsewhere = !environment.ok() || environment->find(storage()) == std::string::npos;
    return elsewhere || std::find(of_cluster.begin(), of_cluster.end(), pid) != of_cluster.end();
  });
  return trainers;
}

std::string TestCluster::SupervisorName(int index) {
  return index == 0 ? "supervisor" : absl::StrCat("supervisor-", index);
}

std::string TestCluster::SecurityFile(const std::string& file) const {
  return absl::StrCat(folder_, "/security/", file);
}

absl::Status TestCluster::MakeCredentials() {
  if (!options_.tls || !token_.empty()) return absl::OkStatus();
  const auto made = certificates::MakeCertificates({.folder = absl::StrCat(folder_, "/security"),
                                                    .identities = certificates::AllServices(),
                                                    .node_authority = options_.node_authority,
                                                    .now = absl::Now()});
  if (!made.ok()) return made.status();
  const RealClock clock;
  absl::StatusOr<std::string> token =
      security::CreateToken(SecurityFile("tokens.json"),
                            {.name = "admin", .role = security::Role::kAdmin, .namespaces = {}}, clock);
  if (!token.ok()) return token.status();
  token_ = *std::move(token);
  return WriteFileAtomically(SecurityFile("admin.token"), token_, 0600);
}

std::vector<std::string> TestCluster::CommandFlags() const {
  if (!options_.tls) return {"--supervisor", supervisor_address(), "--insecure"};
  return {"--supervisor",         supervisor_address(), "--ca",
          SecurityFile("ca.pem"), "--token-file",       SecurityFile("admin.token")};
}

std::vector<std::string> TestCluster::ServiceFlags(const std::string& service) const {
  if (!options_.tls) return {"--insecure"};
  const std::string folder = SecurityFile(service);
  return {"--tls-cert", folder + "/cert.pem", "--tls-key",    folder + "/key.pem",
          "--tls-ca",   folder + "/ca.pem",   "--token-file", SecurityFile("tokens.json")};
}

rpc::ClientSecurity TestCluster::Security(const std::string& service) const {
  if (!options_.tls) return rpc::Plaintext();
  rpc::ClientSecurity security;
  security.tls.ca = SecurityFile("ca.pem");
  security.token = token_;
  security.server_name = certificates::Identity{.service = service}.DnsName();
  return security;
}

rpc::ClientSecurity TestCluster::AllocatorSecurity() const {
  rpc::ClientSecurity security = Security("supervisor");
  if (security.insecure) return security;
  security.tls.certificate = SecurityFile("allocator/cert.pem");
  security.tls.key = SecurityFile("allocator/key.pem");
  security.token = "";
  return security;
}

absl::Status TestCluster::Start() {
  if (absl::Status status = StartSupervisor(); !status.ok()) return status;
  if (options_.allocator) {
    if (absl::Status status = StartAllocator(); !status.ok()) return status;
  }
  if (options_.autoscaler) {
    if (absl::Status status = StartAutoscaler(); !status.ok()) return status;
  } else {
    for (int i = 0; i < options_.workers; ++i) StartWorker(i);
  }
  return WaitForNodes(options_.workers, kStartTimeout);
}

absl::StatusOr<std::string> TestCluster::WaitForAddress(const std::string& program, Process& process) {
  const std::string path = absl::StrCat(folder_, "/", program, ".address");
  const absl::Time deadline = absl::Now() + kStartTimeout;
  while (absl::Now() < deadline) {
    if (auto address = ReadWholeFile(path); address.ok()) {
      return std::string(absl::StripAsciiWhitespace(*address));
    }
    if (process.Wait(absl::Milliseconds(20)) != -1) {
      return absl::UnavailableError(absl::StrCat(program, " ended at its start, see ", folder_));
    }
  }
  return absl::DeadlineExceededError(absl::StrCat(program, " gave no address, see ", folder_));
}

absl::Status TestCluster::StartSupervisor() {
  if (absl::Status status = LaunchSupervisor(0); !status.ok()) return status;
  return AwaitSupervisor(0);
}

absl::Status TestCluster::AwaitSupervisor(int index) {
  const auto address = WaitForAddress(SupervisorName(index), supervisors_[index]);
  if (!address.ok()) return address.status();
  supervisor_addresses_[index] = *address;
  if (stubs_.empty()) {
    for (const std::string& one : supervisor_addresses_) {
      const auto channel = rpc::CreateChannel(one, Security("supervisor"));
      // The test allocates where there is no allocator: nobody else may.
      const auto allocators = rpc::CreateChannel(one, AllocatorSecurity());
      stubs_.push_back({v1::JobService::NewStub(channel), v1::NodeService::NewStub(channel),
                        v1::SchedulingService::NewStub(allocators)});
    }
  }
  asked_ = index;
  // A connection to the one before is noticed to be dead by the first call.
  return WaitForNodes(0, kStartTimeout);
}

absl::Status TestCluster::LaunchSupervisor(int index) {
  if (absl::Status status = MakeCredentials(); !status.ok()) return status;
  const std::string name = SupervisorName(index);
  std::filesystem::remove(absl::StrCat(folder_, "/", name, ".address"));
  // Pods are told where they are before they are there.
  if (supervisor_addresses_.empty()) {
    for (int i = 0; i < options_.supervisors; ++i) {
      const int port = options_.kubernetes.empty() ? 0 : FreePort();
      supervisor_addresses_.push_back(absl::StrCat(options_.control_host, ":", port));
    }
  }
  std::vector<std::string> command = {Binary("adaptdl-supervisor"),
                                      "--listen",
                                      supervisor_addresses_[index],
                                      "--metrics-listen",
                                      "127.0.0.1:0",
                                      "--state-dir",
                                      absl::StrCat(folder_, "/", name),
                                      "--heartbeat-period",
                                      "500ms",
                                      "--replica-heartbeat-period",
                                      absl::FormatDuration(options_.replica_heartbeat_period),
                                      "--retry-backoff",
                                      "200ms",
                                      "--max-retry-backoff",
                                      absl::FormatDuration(options_.max_retry_backoff),
                                      "--address-file",
                                      absl::StrCat(folder_, "/", name, ".address")};
  if (!options_.kubernetes.empty()) AddAll(KubernetesFlags(), &command);
  if (options_.adaptdl_http) command.insert(command.end(), {"--adaptdl-http", "127.0.0.1:0"});
  AddAll(ServiceFlags("supervisor"), &command);
  if (options_.node_authority) {
    AddAll({"--node-authority-cert", SecurityFile("node-authority/cert.pem"), "--node-authority-key",
            SecurityFile("node-authority/key.pem")},
           &command);
  }
  AddAll(options_.supervisor_flags, &command);
  supervisors_[index] = Process::Start(command, absl::StrCat(folder_, "/", name, ".log"));
  return absl::OkStatus();
}

std::vector<std::string> TestCluster::KubernetesFlags() const {
  const std::string kubeconfig = folder_ + "/kubeconfig";
  const std::string key = folder_ + "/group-key";
  std::ofstream(kubeconfig) << "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
                            << "clusters: [{name: test, cluster: {server: \"" << options_.kubernetes
                            << "\"}}]\n"
                            << "users: [{name: test, user: {}}]\n"
                            << "contexts: [{name: test, context: {cluster: test, user: test}}]\n";
  std::ofstream(key) << GroupKey();
  std::vector<std::string> flags = {"--backend",
                                    "kubernetes",
                                    "--kubeconfig",
                                    kubeconfig,
                                    "--own-namespace",
                                    "default",
                                    "--election-duration",
                                    absl::FormatDuration(options_.election_duration),
                                    "--group-key-file",
                                    key,
                                    "--replica-supervisor-address",
                                    supervisor_address(),
                                    "--keep-pods",
                                    options_.keep_pods,
                                    "--default-resources",
                                    R"({"requests": {"cpu": "1"}})"};
  if (options_.tls) AddAll({"--replica-ca", SecurityFile("ca.pem")}, &flags);
  return flags;
}

absl::Status TestCluster::StartAllocator() {
  std::filesystem::remove(folder_ + "/allocator.address");
  std::vector<std::string> command = {
      Binary("adaptdl-allocator"),
      "--listen",
      allocator_address_.empty() ? std::string("127.0.0.1:0") : allocator_address_,
      "--metrics-listen",
      "127.0.0.1:0",
      "--supervisor",
      supervisor_address(),
      "--interval",
      absl::FormatDuration(options_.allocator_interval),
      "--address-file",
      folder_ + "/allocator.address"};
  AddAll(options_.allocator_flags, &command);
  AddAll(ServiceFlags("allocator"), &command);
  allocator_ = Process::Start(command, folder_ + "/allocator.log");
  auto address = WaitForAddress("allocator", allocator_);
  if (address.ok()) allocator_address_ = *address;
  return address.status();
}

absl::Status TestCluster::StartAutoscaler() {
  std::filesystem::remove(folder_ + "/autoscaler.address");
  std::vector<std::string> command = {
      Binary("adaptdl-autoscaler"),
      "--listen",
      autoscaler_address_.empty() ? std::string("127.0.0.1:0") : autoscaler_address_,
      "--metrics-listen",
      "127.0.0.1:0",
      "--supervisor",
      supervisor_address(),
      "--allocator",
      allocator_address_,
      "--poll-period",
      "300ms",
      "--address-file",
      folder_ + "/autoscaler.address"};
  AddAll(ServiceFlags("autoscaler"), &command);
  AddAll(options_.autoscaler_flags, &command);
  const bool local = options_.kubernetes.empty();
  if (local) {
    const std::string workers = absl::StrCat(options_.workers);
    AddAll({"--state-dir", folder_ + "/autoscaler", "--storage-dir", storage()}, &command);
    if (options_.pool_file.empty()) {
      AddAll({"--min-nodes", workers, "--max-nodes", workers}, &command);
    } else {
      AddAll({"--pools", options_.pool_file}, &command);
    }
  } else {
    AddAll({"--provider", "kubernetes", "--kubeconfig", folder_ + "/kubeconfig"}, &command);
  }
  if (options_.tls && local) {
    AddAll({"--worker-tls-cert", SecurityFile("worker/cert.pem"), "--worker-tls-key",
            SecurityFile("worker/key.pem")},
           &command);
  }
  autoscaler_ = Process::Start(command, folder_ + "/autoscaler.log");
  auto address = WaitForAddress("autoscaler", autoscaler_);
  if (address.ok()) autoscaler_address_ = *address;
  return address.status();
}

void TestCluster::StartWorker(int index) {
  const std::string node = absl::StrCat("node-", index);
  const TestClusterOptions::Place place =
      options_.place_of_worker ? options_.place_of_worker(index) : TestClusterOptions::Place();
  std::vector<std::string> command = {
      Binary("adaptdl-worker"),
      "--listen",
      absl::StrCat(place.host, ":0"),
      "--metrics-listen",
      "127.0.0.1:0",
      "--supervisor",
      supervisor_address(),
      "--node-id",
      node,
      "--state-dir",
      absl::StrCat(folder_, "/", node),
      "--storage-dir",
      options_.shared_storage ? storage() : absl::StrCat(storage(), "-", node),
      "--cpus",
      absl::StrCat(options_.cpus),
      "--gpus",
      options_.gpus,
      "--orphan-timeout",
      absl::FormatDuration(options_.orphan_timeout)};
  if (options_.drain_on_terminate) {
    AddAll({"--on-terminate=drain", "--terminate-timeout", absl::FormatDuration(options_.terminate_timeout)},
           &command);
  }
  if (options_.worker_flags) AddAll(options_.worker_flags(index), &command);
  AddAll(ServiceFlags("worker"), &command);
  if (!worker_environment_.empty()) {
    std::vector<std::string> environment = {"/usr/bin/env"};
    AddAll(worker_environment_, &environment);
    command.insert(command.begin(), environment.begin(), environment.end());
  }
  workers_[index] = Process::Start(command, absl::StrCat(folder_, "/", node, ".log"), place.network);
}

v1::Job TestCluster::CommandJob(const std::string& name, const std::vector<std::string>& command) const {
  v1::Job job;
  job.set_name(name);
  for (const std::string& word : command) job.mutable_spec()->mutable_template_()->add_command(word);
  return job;
}

v1::Job TestCluster::MnistJob(const std::string& name, const std::vector<std::string>& arguments) const {
  v1::Job job = CommandJob(name, {Binary("adaptdl-mnist")});
  for (const std::string& argument : arguments) job.mutable_spec()->mutable_template_()->add_args(argument);
  return job;
}

absl::StatusOr<v1::Job> TestCluster::Submit(const v1::Job& job) {
  v1::SubmitJobRequest request;
  request.set_request_id(RandomHex(16));
  *request.mutable_job() = job;
  v1::SubmitJobResponse response;
  grpc::ClientContext context;
  rpc::SetTimeout(&context, kCallTimeout);
  const grpc::Status status = jobs().SubmitJob(&context, request, &response);
  if (!status.ok()) return rpc::FromGrpcStatus(status);
  return response.job();
}

absl::StatusOr<v1::Job> TestCluster::GetJob(const std::string& name) {
  v1::GetJobRequest request;
  request.set_name(name);
  v1::GetJobResponse response;
  grpc::ClientContext context;
  rpc::SetTimeout(&context, kCallTimeout);
  const grpc::Status status = jobs().GetJob(&context, request, &response);
  if (!status.ok()) return rpc::FromGrpcStatus(status);
  return response.job();
}

absl::StatusOr<v1::Job> TestCluster::WaitForJob(const std::string& name, const JobPredicate& predicate,
                                                absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  v1::Job last;
  while (absl::Now() < deadline) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(deadline));
    v1::WatchJobsRequest request;
    request.set_name(name);
    const auto stream = jobs().WatchJobs(&context, request);
    v1::WatchJobsResponse response;
    while (stream->Read(&response)) {
      if (!response.has_job()) continue;
      last = response.job();
      if (predicate(last)) {
        context.TryCancel();
        return last;
      }
      if (Finished(last)) return absl::FailedPreconditionError("the job ended: " + last.ShortDebugString());
    }
    const grpc::Status status = stream->Finish();
    // An object of Kubernetes becomes a job a moment after it is there.
    const bool may_come = !options_.kubernetes.empty();
    if (status.error_code() == grpc::StatusCode::NOT_FOUND && !may_come) return rpc::FromGrpcStatus(status);
    Pause();  // The supervisor is away, or the stream was cut: look again.
  }
  return absl::DeadlineExceededError(
      absl::StrCat("not within ", absl::FormatDuration(timeout), ": ", last.ShortDebugString()));
}

absl::Status TestCluster::WaitForNodes(int ready_nodes, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  int ready = 0;
  while (absl::Now() < deadline) {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, kCallTimeout);
    v1::ListNodesRequest request;
    request.set_page_size(1000);
    v1::ListNodesResponse response;
    if (nodes().ListNodes(&context, request, &response).ok()) {
      ready = static_cast<int>(
          std::count_if(response.nodes().begin(), response.nodes().end(),
                        [](const v1::Node& node) { return node.status().phase() == v1::NODE_PHASE_READY; }));
      if (ready >= ready_nodes) return absl::OkStatus();
    }
    Pause();
  }
  return absl::DeadlineExceededError(absl::StrCat(ready, " of ", ready_nodes, " nodes are ready"));
}

absl::StatusOr<v1::Node> TestCluster::WaitForNode(const std::string& node_id,
                                                  const std::function<bool(const v1::Node&)>& predicate,
                                                  absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  v1::Node last;
  while (absl::Now() < deadline) {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, kCallTimeout);
    v1::ListNodesResponse response;
    nodes().ListNodes(&context, v1::ListNodesRequest(), &response);
    for (const v1::Node& node : response.nodes()) {
      if (node.node_id() == node_id) last = node;
    }
    if (last.node_id() == node_id && predicate(last)) return last;
    Pause();
  }
  return absl::DeadlineExceededError(absl::StrCat("node ", node_id, " is ", last.ShortDebugString()));
}

absl::StatusOr<v1::ClusterSnapshot> TestCluster::Snapshot() {
  grpc::ClientContext context;
  rpc::SetTimeout(&context, kCallTimeout);
  const auto stream = scheduling().WatchCluster(&context, v1::WatchClusterRequest());
  v1::WatchClusterResponse response;
  if (!stream->Read(&response)) return rpc::FromGrpcStatus(stream->Finish());
  context.TryCancel();
  return response.snapshot();
}

absl::Status TestCluster::Allocate(const std::string& name, const std::vector<std::string>& node_ids) {
  absl::Status last;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto snapshot = Snapshot();
    if (absl::IsUnavailable(snapshot.status())) {  // The supervisor was started again.
      last = snapshot.status();
      Pause();
      continue;
    }
    if (!snapshot.ok()) return snapshot.status();
    v1::ApplyAllocationsRequest request;
    request.set_request_id(RandomHex(16));
    request.set_snapshot_version(snapshot->version());
    for (const v1::Job& job : snapshot->jobs()) {
      if (job.name() != name) continue;
      v1::JobAllocation* allocation = request.add_allocations();
      allocation->set_namespace_(job.namespace_());
      allocation->set_name(name);
      allocation->set_job_uid(job.uid());
      allocation->set_reason("the test says so");
      for (const std::string& node : node_ids) allocation->add_node_ids(node);
    }
    if (request.allocations().empty()) return absl::NotFoundError(absl::StrCat("no unfinished job ", name));
    grpc::ClientContext context;
    rpc::SetTimeout(&context, kCallTimeout);
    v1::ApplyAllocationsResponse response;
    last = rpc::FromGrpcStatus(scheduling().ApplyAllocations(&context, request, &response));
    if (!absl::IsAborted(last)) return last;
  }
  return last;
}

std::string TestCluster::Logs(const std::string& name) {
  v1::StreamLogsRequest request;
  request.set_name(name);
  grpc::ClientContext context;
  rpc::SetTimeout(&context, kCallTimeout);
  const auto stream = jobs().StreamLogs(&context, request);
  v1::StreamLogsResponse response;
  std::string text;
  while (stream->Read(&response)) {
    for (const v1::LogLine& line : response.lines()) {
      absl::StrAppend(&text, line.text(), line.partial() ? "" : "\n");
    }
    if (!response.warning().empty()) absl::StrAppend(&text, "[", response.warning(), "]\n");
  }
  return text;
}

bool TestCluster::WaitForLog(const std::string& name, const std::string& text, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (Logs(name).find(text) == std::string::npos) {
    if (absl::Now() >= deadline) return false;
    Pause();
  }
  return true;
}

std::vector<v1::Event> TestCluster::Events(const std::string& name) {
  v1::ListEventsRequest request;
  request.set_name(name);
  request.set_page_size(1000);
  grpc::ClientContext context;
  rpc::SetTimeout(&context, kCallTimeout);
  v1::ListEventsResponse response;
  const grpc::Status status = jobs().ListEvents(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return {response.events().begin(), response.events().end()};
}

std::vector<std::string> TestCluster::EventReasons(const std::string& name) {
  std::vector<std::string> reasons;
  for (const v1::Event& event : Events(name)) reasons.push_back(event.reason());
  return reasons;
}

double LastTestAccuracy(const std::string& log) {
  static const std::regex pattern("test accuracy: ([0-9.]+) %");
  double accuracy = -1;
  for (std::sregex_iterator it(log.begin(), log.end(), pattern), end; it != end; ++it) {
    accuracy = std::stod((*it)[1].str());
  }
  return accuracy;
}

}  // namespace adaptdl::integration
