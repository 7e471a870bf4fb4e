#include "libs/elastic/job/init.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "adaptdl/job.h"
#include "libs/base/mutex.h"
#include "libs/base/say.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/comm/nccl_communicator.h"
#include "libs/comm/staged_communicator.h"
#include "libs/comm/tcp_communicator.h"
#include "libs/elastic/control/control_loader.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/control/environment.h"
#include "libs/elastic/control/standalone_control_plane.h"
#include "libs/elastic/host/freed_memory.h"
#include "libs/elastic/host/process_host.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/job/replica_device.h"

namespace adaptdl {
namespace elastic {
namespace {

constexpr char kLibraryVersion[] = "0.1.0";

// Longest that the members of a group may take to connect once they should. A plan's way to all of them, over
// new heartbeat streams even, is shorter.
constexpr absl::Duration kConnectTimeout = absl::Seconds(30);

[[noreturn]] void Die(Host& host, const absl::Status& status) {
  host.Tell(status.ToString());
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      host.Exit(kExitStopped);
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      host.Exit(kExitPeerLost);
    default:
      host.Exit(1);
  }
}

template <typename T>
T OrDie(Host& host, absl::StatusOr<T> value) {
  if (!value.ok()) Die(host, value.status());
  return *std::move(value);
}

// Where a signal goes.
class StopSwitch {
 public:
  // Not owned.
  explicit StopSwitch(Host* host) : host_(host) {}

  void OnSignal(const std::string& name) {
    MutexLock lock(&mutex_);
    if (ending_) return;
    // Before the replicas have met no step has been taken: there is nothing to save, and they may never come.
    if (core_ == nullptr) host_->Exit(kExitStopped);
    core_->RequestStop(name);
  }

  void SetCore(JobCore* core) {
    MutexLock lock(&mutex_);
    core_ = core;
  }

  // The program has come to its end: signals mean nothing any more.
  void SetEnding() {
    MutexLock lock(&mutex_);
    ending_ = true;
  }

 private:
  Host* const host_;
  Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  JobCore* core_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

std::unique_ptr<ControlPlane> MakeControlPlane(Host& host, const Environment& environment) {
  if (!environment.supervised()) return std::make_unique<StandaloneControlPlane>(environment);
  GrpcControlPlaneOptions options;
  options.supervisor_address = environment.supervisor_address;
  options.supervisor_ca = environment.supervisor_ca;
  options.supervisor_ca_pem = environment.supervisor_ca_pem;
  options.supervisor_tls_name = environment.supervisor_tls_name;
  options.job_namespace = environment.job_namespace;
  options.job = environment.job;
  options.replica_id = environment.replica_id;
  options.group = environment.group;
  options.token = environment.group_token;
  options.identity_token_file = environment.identity_token_file;
  options.library_version = kLibraryVersion;
  options.traceparent = environment.traceparent;
  options.say = [](const Said& said) { PassOn(said); };
  return OrDie(host, LoadGrpcControlPlane(options, environment.control_library));
}

// How this process reaches its peers, in one group after the other. Thread-safe.
class Rendezvous {
 public:
  // `device`: what its groups exchange besides main memory.
  Rendezvous(Host& host, const Environment& environment, ReplicaDevice device)
      : environment_(environment), device_(std::move(device)) {
    const bool alone = !environment.supervised() && environment.num_replicas == 1;
    if (alone) return;
    // Under a supervisor any replica may be rank 0 of a later group.
    if (environment.supervised()) {
      tcp_ = OrDie(host, comm::TcpRendezvous::Host(HostName()));
    } else if (environment.replica_rank == 0) {
      tcp_ = OrDie(host, comm::TcpRendezvous::Host(HostName(), environment.master_port));
    }
  }

  std::string address() const { return tcp_ ? tcp_->address() : ""; }
  // NCCL takes its time.
  bool connects_ahead() const { return device_.nccl; }

  absl::StatusOr<std::unique_ptr<comm::Communicator>> Connect(const GroupMembership& group) {
    if (group.world_size == 1) return std::move(comm::CreateInProcessGroup(1).front());
    if (tcp_ == nullptr) {
      absl::StatusOr<std::unique_ptr<comm::TcpRendezvous>> joined =
          comm::TcpRendezvous::Join(group.master_address);
      if (!joined.ok()) return joined.status();
      tcp_ = *std::move(joined);
    }
    const comm::ConnectOptions options = OptionsFor(group);
    if (device_.nccl) return comm::ConnectNccl(*tcp_, options, *device_.device);
    absl::StatusOr<std::unique_ptr<comm::Communicator>> connected = comm::ConnectTcp(*tcp_, options);
    if (!connected.ok() || device_.device == nullptr) return connected;
    return comm::CreateStagedCommunicator(*std::move(connected), device_.device);
  }

  void RefuseBelow(int64_t group) {
    if (tcp_) tcp_->RefuseBelow(group);
  }

 private:
  comm::ConnectOptions OptionsFor(const GroupMembership& group) const {
    const absl::Duration timeout = environment_.collective_timeout;
    return {.rank = group.rank,
            .size = group.world_size,
            .group = group.group,
            .token = group.token.empty() ? environment_.group_token : group.token,
            .host = HostName(),
            .timeout = timeout,
            .connect_timeout = environment_.supervised() ? std::min(kConnectTimeout, timeout) : timeout,
            .address = group.rank == 0 ? "" : group.master_address};
  }

  std::string HostName() const {
    return environment_.replica_host.empty() ? "127.0.0.1" : environment_.replica_host;
  }

  const Environment environment_;
  const ReplicaDevice device_;
  // Set once, before other threads know of this object if there are plans.
  std::unique_ptr<comm::TcpRendezvous> tcp_;
};

// What lives as long as the job and longer than its core.
struct Life {
  explicit Life(std::shared_ptr<Host> host) : host(std::move(host)), stop(this->host.get()) {}

  const std::shared_ptr<Host> host;
  StopSwitch stop;
  std::unique_ptr<Host::SignalWatch> signals;
  std::unique_ptr<Rendezvous> rendezvous;
};

std::unique_ptr<JobCore> Join(const std::shared_ptr<Life>& life, const Environment& environment,
                              std::vector<CheckpointState*> expected) {
  JobDependencies dependencies;
  dependencies.environment = environment;
  dependencies.expected = std::move(expected);
  dependencies.control = MakeControlPlane(*life->host, environment);
  dependencies.transport.address = life->rendezvous->address();
  dependencies.transport.connect = [raw = life->rendezvous.get()](const GroupMembership& group) {
    return raw->Connect(group);
  };
  dependencies.transport.connects_ahead = life->rendezvous->connects_ahead();
  dependencies.transport.refuse_below = [raw = life->rendezvous.get()](int64_t group) {
    raw->RefuseBelow(group);
  };
  dependencies.plan_timeout = environment.plan_timeout;
  dependencies.keep_alive = life;
  dependencies.on_end = [stop = &life->stop] { stop->SetEnding(); };
  dependencies.host = life->host;
  std::unique_ptr<JobCore> core = OrDie(*life->host, JobCore::Create(std::move(dependencies)));
  life->stop.SetCore(core.get());
  return core;
}

}  // namespace

std::unique_ptr<Job> InitOn(std::shared_ptr<Host> host, const ProcessGroup& given) {
  auto life = std::make_shared<Life>(std::move(host));
  life->signals =
      life->host->WatchSignals([stop = &life->stop](const std::string& name) { stop->OnSignal(name); });
  const Environment environment = OrDie(*life->host, ReadEnvironment(GetFromProcess, given));
  SetSpeaker(environment.replica_rank);
  if (environment.keep_freed_memory) KeepFreedMemory(GetFromProcess);
  ReplicaDevice device = OrDie(*life->host, ChooseDevice(environment, given.backend, GpusOfProcess()));
  if (!device.report.empty()) Say(Severity::kInfo, device.report);
  life->rendezvous = std::make_unique<Rendezvous>(*life->host, environment, std::move(device));
  const Job::Place place = {environment.replica_rank, environment.num_replicas, environment.num_nodes,
                            environment.share_path};
  return std::make_unique<Job>(place, [life, environment](std::vector<CheckpointState*> expected) {
    return Join(life, environment, std::move(expected));
  });
}

}  // namespace elastic

std::unique_ptr<Job> Init() { return InitProcessGroup(""); }

std::unique_ptr<Job> InitProcessGroup(const std::string& backend, const std::string& address, int world_size,
                                      int rank) {
  return elastic::InitOn(elastic::ProcessHost(), {backend, address, world_size, rank});
}

}  // namespace adaptdl
