// What the supervisor's heartbeat and submission paths cost, over real gRPC on the loopback device.
//
//   cmake --build --preset release --target supervisor_bench
//   build/release/bench/supervisor_bench [--nodes 1000] [--replicas 5000] [--seconds 10] [--submits 1000]
//   [--state-dir DIR]
//
// The supervisor runs in a process of its own (forked before any thread is made), with SQLite in --state-dir;
// the clients share one process. Two parts:
//  1. Heartbeats: one stream per node and per replica; each sends its next heartbeat as soon as the last one
//  was
//     answered (replicas) or written (nodes), so the rate is the most that server and clients together can
//     do. What a cluster needs is (nodes + replicas) / period, which is printed beside it.
//  2. Submissions, one after the other and on 16 connections at once: latencies with SQLite's
//  synchronous=FULL.

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "adaptdl/v1/replica_service.grpc.pb.h"
#include "adaptdl/v1/scheduling_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/client_callback.h"
#include "libs/base/clock.h"
#include "libs/base/process/proc_stat.h"
#include "libs/base/random_id.h"
#include "libs/service/log.h"
#include "services/supervisor/store/sqlite_job_store.h"
#include "services/supervisor/supervisor.h"

namespace adaptdl::supervisor {
namespace {

struct Flags {
  int nodes = 1000;
  int replicas = 5000;
  int seconds = 10;
  int submits = 1000;
  std::string state_dir;
};

constexpr int kReplicasPerJob = 50;
// Streams are spread over this many connections, as over that many machines.
constexpr int kConnections = 32;
constexpr double kPeriodSeconds = 2;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "supervisor_bench: %s\n", what.c_str());
  std::exit(1);
}

void Check(const grpc::Status& status, const char* what) {
  if (!status.ok()) Die(absl::StrCat(what, ": ", status.error_message()));
}

void RaiseFileLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// The server's process: tells its port, and ends when the other end of the pipe does.
[[noreturn]] void Serve(const std::string& folder, int port_pipe) {
  log::Options logs;
  logs.level = "error";
  logs.service = "supervisor";
  log::Initialize(logs).IgnoreError();
  const RealClock clock;
  SqliteJobStoreOptions store_options;
  store_options.folder = folder;
  auto store = SqliteJobStore::Open(store_options);
  if (!store.ok()) Die(store.status().ToString());
  SupervisorOptions options;
  // All load comes from one client.
  options.admission.calls_per_second = 0;
  options.admission.streams = 0;
  options.cluster.max_jobs_per_namespace = 0;
  options.cluster.heartbeat_period = absl::Minutes(10);  // Played workers need not speak.
  auto supervisor = Supervisor::Create(options, *std::move(store), &clock);
  if (!supervisor.ok()) Die(supervisor.status().ToString());
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : (*supervisor)->services()) builder.RegisterService(service);
  auto server = builder.BuildAndStart();
  (*supervisor)->Start();
  if (server == nullptr || write(port_pipe, &port, sizeof(port)) != sizeof(port))
    Die("the server did not start");
  server->Wait();
  std::exit(0);
}

std::shared_ptr<grpc::Channel> Connect(int port, int index) {
  grpc::ChannelArguments arguments;
  arguments.SetInt("adaptdl.bench.connection", index);  // Different arguments: a connection of its own.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(),
                                   arguments);
}

// Heartbeats sent by nodes, and answered to replicas; whether streams go on by themselves.
std::atomic<int64_t> node_beats = 0;
std::atomic<int64_t> replica_beats = 0;
std::atomic<bool> nodes_continuous = false;
std::atomic<bool> replicas_continuous = false;

// A node's stream: registers, answers launches with "running", and sends heartbeats one after the other.
class Node final : public grpc::ClientBidiReactor<v1::ConnectRequest, v1::ConnectResponse> {
 public:
  Node(const std::shared_ptr<grpc::Channel>& channel, std::string id)
      : stub_(v1::NodeService::NewStub(channel)), id_(std::move(id)) {}

  void Register() {
    grpc::ClientContext context;
    v1::RegisterNodeRequest request;
    request.set_request_id(RandomHex(8));
    request.mutable_node()->set_node_id(id_);
    request.mutable_node()->set_worker_address("127.0.0.1:1");
    request.mutable_node()->set_replica_host("127.0.0.1");
    request.mutable_node()->mutable_capacity()->set_cpu_millis(64'000);
    v1::RegisterNodeResponse response;
    Check(stub_->RegisterNode(&context, request, &response), "RegisterNode");
    stub_->async()->Connect(&context_, this);
    out_.mutable_hello()->set_node_id(id_);
    out_.mutable_hello()->set_session_id(response.session_id());
    StartWrite(&out_);
    StartRead(&in_);
    StartCall();
  }

  // Launches that came, with their tokens.
  std::vector<v1::LaunchReplica> launches() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return launches_;
  }

  // Sends one heartbeat, unless one is on its way.
  void Kick() {
    if (idle_.exchange(false)) Beat();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (in_.has_launch()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      launches_.push_back(in_.launch());
    }
    StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return;
    ++node_beats;
    if (nodes_continuous) {
      Beat();
    } else {
      idle_ = true;
    }
  }
  void OnDone(const grpc::Status& /*status*/) override {}

 private:
  void Beat() {
    out_.mutable_heartbeat();
    StartWrite(&out_);
  }

  const std::unique_ptr<v1::NodeService::Stub> stub_;
  const std::string id_;
  grpc::ClientContext context_;
  v1::ConnectRequest out_;
  v1::ConnectResponse in_;
  // Whether no write is on its way; the first one is the hello.
  std::atomic<bool> idle_ = false;
  std::mutex mutex_;
  std::vector<v1::LaunchReplica> launches_;
};

// A replica's stream: a heartbeat, its answer, the next heartbeat.
class Replica final : public grpc::ClientBidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse> {
 public:
  Replica(const std::shared_ptr<grpc::Channel>& channel, const v1::LaunchReplica& launch)
      : stub_(v1::ReplicaService::NewStub(channel)), rank_(launch.rank()) {
    context_.AddMetadata("authorization", "Bearer " + launch.token());
    out_.mutable_identity()->set_namespace_(launch.namespace_());
    out_.mutable_identity()->set_job(launch.job());
    out_.mutable_identity()->set_replica_id(launch.replica_id());
    out_.mutable_identity()->set_group(launch.group());
  }
  void Start() {
    stub_->async()->Heartbeat(&context_, this);
    StartWrite(&out_);
    StartRead(&in_);
    StartCall();
  }
  // Sends one heartbeat, unless one is on its way.
  void Kick() {
    if (!idle_.exchange(false)) return;
    open_ = 2;
    if (rank_ == 0) out_.mutable_progress()->set_optimizer_steps(out_.progress().optimizer_steps() + 1);
    StartRead(&in_);
    StartWrite(&out_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    ++replica_beats;
    Next();
  }
  void OnWriteDone(bool ok) override {
    if (ok) Next();
  }
  void OnDone(const grpc::Status& status) override {
    if (!status.ok() && status.error_code() != grpc::StatusCode::UNAVAILABLE) {
      std::fprintf(stderr, "a replica's stream ended: %s\n", status.error_message().c_str());
    }
  }

 private:
  // The heartbeat was written and answered, in whatever order these were noticed.
  void Next() {
    if (--open_ > 0) return;
    idle_ = true;
    if (replicas_continuous) Kick();
  }

  const std::unique_ptr<v1::ReplicaService::Stub> stub_;
  const int rank_;
  grpc::ClientContext context_;
  v1::HeartbeatRequest out_;
  v1::HeartbeatResponse in_;
  std::atomic<int> open_ = 2;
  std::atomic<bool> idle_ = false;
};

absl::Duration TimedSubmit(v1::JobService::Stub* stub, v1::Job* result = nullptr, int replicas = 1) {
  grpc::ClientContext context;
  v1::SubmitJobRequest request;
  request.set_request_id(RandomHex(8));
  request.set_generate_name("bench-");
  request.mutable_job()->mutable_spec()->set_min_replicas(replicas);
  request.mutable_job()->mutable_spec()->mutable_template_()->add_command("train");
  v1::SubmitJobResponse response;
  const absl::Time begin = absl::Now();
  Check(stub->SubmitJob(&context, request, &response), "SubmitJob");
  const absl::Duration taken = absl::Now() - begin;
  if (result != nullptr) *result = response.job();
  return taken;
}

void PrintLatencies(const char* what, std::vector<absl::Duration> latencies, absl::Duration total) {
  std::sort(latencies.begin(), latencies.end());
  const auto at = [&](double part) {
    return absl::ToDoubleMilliseconds(latencies[static_cast<size_t>(part * (latencies.size() - 1))]);
  };
  std::fflush(stdout);
  std::printf("%s: %zu calls, %.0f per second, p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", what,
              latencies.size(), latencies.size() / absl::ToDoubleSeconds(total), at(0.5), at(0.99), at(1));
}

void BenchSubmits(int port, int count) {
  std::vector<absl::Duration> latencies;
  const auto stub = v1::JobService::NewStub(Connect(port, 1000));
  TimedSubmit(stub.get());  // Makes the connection.
  absl::Time begin = absl::Now();
  for (int i = 0; i < count; ++i) latencies.push_back(TimedSubmit(stub.get()));
  PrintLatencies("SubmitJob, one at a time", latencies, absl::Now() - begin);

  constexpr int kThreads = 16;
  std::vector<std::vector<absl::Duration>> each(kThreads);
  std::vector<std::thread> threads;
  begin = absl::Now();
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto own = v1::JobService::NewStub(Connect(port, 1001 + i));
      for (int k = 0; k < count / kThreads; ++k) each[i].push_back(TimedSubmit(own.get()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  latencies.clear();
  for (const auto& part : each) latencies.insert(latencies.end(), part.begin(), part.end());
  PrintLatencies("SubmitJob, 16 at a time", latencies, absl::Now() - begin);
}

// Submits jobs and gives each its replicas, spread over the nodes.
void Allocate(const std::shared_ptr<grpc::Channel>& channel, const Flags& flags) {
  const auto jobs = v1::JobService::NewStub(channel);
  const auto scheduling = v1::SchedulingService::NewStub(channel);
  v1::ApplyAllocationsRequest request;
  int node = 0;
  for (int left = flags.replicas; left > 0; left -= kReplicasPerJob) {
    v1::Job job;
    TimedSubmit(jobs.get(), &job);
    v1::JobAllocation* allocation = request.add_allocations();
    allocation->set_namespace_(job.namespace_());
    allocation->set_name(job.name());
    allocation->set_job_uid(job.uid());
    for (int i = 0; i < std::min(left, kReplicasPerJob); ++i) {
      allocation->add_node_ids(absl::StrCat("node-", node++ % flags.nodes));
    }
  }
  grpc::ClientContext watch;
  auto stream = scheduling->WatchCluster(&watch, {});
  v1::WatchClusterResponse snapshot;
  if (!stream->Read(&snapshot)) Die("no snapshot");
  watch.TryCancel();
  request.set_request_id(RandomHex(8));
  request.set_snapshot_version(snapshot.snapshot().version());
  grpc::ClientContext context;
  v1::ApplyAllocationsResponse response;
  const absl::Time begin = absl::Now();
  Check(scheduling->ApplyAllocations(&context, request, &response), "ApplyAllocations");
  std::printf("ApplyAllocations of %d replicas: %.0f ms\n", flags.replicas,
              absl::ToDoubleMilliseconds(absl::Now() - begin));
}

double CpuSeconds(pid_t pid) {
  const ProcStat stat = ReadProcStat(pid).value_or(ProcStat{});
  return static_cast<double>(stat.user_ticks + stat.system_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Counts for `seconds`, while `drive` runs every 10 ms.
void Measure(const char* what, pid_t server, int seconds, const std::function<void(double)>& drive) {
  const int64_t node_start = node_beats;
  const int64_t replica_start = replica_beats;
  const double cpu_start = CpuSeconds(server);
  const absl::Time begin = absl::Now();
  const auto elapsed = [&] { return absl::ToDoubleSeconds(absl::Now() - begin); };
  while (elapsed() < seconds) {
    drive(elapsed());
    absl::SleepFor(absl::Milliseconds(10));
  }
  const double taken = elapsed();
  const double node_rate = static_cast<double>(node_beats - node_start) / taken;
  const double replica_rate = static_cast<double>(replica_beats - replica_start) / taken;
  const double cpu = (CpuSeconds(server) - cpu_start) / taken;
  std::printf(
      "%s: %.0f of nodes + %.0f of replicas = %.0f heartbeats per second; server: %.2f cores, %.0f us each\n",
      what, node_rate, replica_rate, node_rate + replica_rate, cpu, 1e6 * cpu / (node_rate + replica_rate));
  std::fflush(stdout);
}

void BenchHeartbeats(int port, pid_t server, const Flags& flags) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < kConnections; ++i) channels.push_back(Connect(port, i));
  // Never destroyed: their streams stay open to the end of the process.
  auto& nodes = *new std::vector<std::unique_ptr<Node>>;
  auto& replicas = *new std::vector<std::unique_ptr<Replica>>;
  const absl::Time begin = absl::Now();
  for (int i = 0; i < flags.nodes; ++i) {
    nodes.push_back(std::make_unique<Node>(channels[i % kConnections], absl::StrCat("node-", i)));
    nodes.back()->Register();
  }
  std::printf("%d nodes registered in %.1f s\n", flags.nodes, absl::ToDoubleSeconds(absl::Now() - begin));
  Allocate(channels[0], flags);
  std::vector<v1::LaunchReplica> launches;
  while (static_cast<int>(launches.size()) < flags.replicas) {
    launches.clear();
    for (const auto& node : nodes) {
      for (v1::LaunchReplica& launch : node->launches()) launches.push_back(std::move(launch));
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  for (size_t i = 0; i < launches.size(); ++i) {
    replicas.push_back(std::make_unique<Replica>(channels[i % kConnections], launches[i]));
    replicas.back()->Start();
  }
  // All are connected.
  while (replica_beats < flags.replicas || node_beats < flags.nodes) absl::SleepFor(absl::Milliseconds(20));

  size_t kicked = 0;
  const size_t streams = nodes.size() + replicas.size();
  Measure("at the pace of a cluster", server, flags.seconds, [&](double elapsed) {
    for (; static_cast<double>(kicked) < elapsed / kPeriodSeconds * static_cast<double>(streams); ++kicked) {
      const size_t i = kicked % streams;
      if (i < nodes.size()) {
        nodes[i]->Kick();
      } else {
        replicas[i - nodes.size()]->Kick();
      }
    }
  });
  replicas_continuous = true;
  for (const auto& replica : replicas) replica->Kick();
  Measure("replicas at most", server, flags.seconds, [](double) {});
  replicas_continuous = false;
  absl::SleepFor(absl::Seconds(1));
  nodes_continuous = true;
  for (const auto& node : nodes) node->Kick();
  Measure("nodes at most", server, flags.seconds, [](double) {});
}

int Main(int argc, char** argv) {
  CLI::App app{"Measures the supervisor over gRPC"};
  Flags flags;
  app.add_option("--nodes", flags.nodes)->capture_default_str();
  app.add_option("--replicas", flags.replicas)->capture_default_str();
  app.add_option("--seconds", flags.seconds)->capture_default_str();
  app.add_option("--submits", flags.submits)->capture_default_str();
  app.add_option("--state-dir", flags.state_dir, "Folder on the disk to measure; default: a temporary one");
  CLI11_PARSE(app, argc, argv);
  RaiseFileLimit();
  const std::string folder = absl::StrCat(
      flags.state_dir.empty() ? std::filesystem::temp_directory_path().string() : flags.state_dir, "/bench-",
      getpid());
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) Die("pipe");
  const pid_t server = fork();
  if (server < 0) Die("fork");
  if (server == 0) Serve(folder, pipe_ends[1]);
  close(pipe_ends[1]);
  int port = 0;
  if (read(pipe_ends[0], &port, sizeof(port)) != sizeof(port)) Die("the server did not start");
  BenchSubmits(port, flags.submits);
  BenchHeartbeats(port, server, flags);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  std::filesystem::remove_all(folder);
  // The streams are still open; nobody needs their end.
  _exit(0);
}

}  // namespace
}  // namespace adaptdl::supervisor

int main(int argc, char** argv) { return adaptdl::supervisor::Main(argc, argv); }
