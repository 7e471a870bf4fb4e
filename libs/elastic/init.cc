#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "adaptdl/job.h"
#include "libs/base/mutex.h"
#include "libs/comm/gloo_communicator.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/elastic/control_loader.h"
#include "libs/elastic/control_plane.h"
#include "libs/elastic/environment.h"
#include "libs/elastic/freed_memory.h"
#include "libs/elastic/job_core.h"
#include "libs/elastic/signals.h"
#include "libs/elastic/standalone_control_plane.h"

namespace adaptdl {
namespace {

using elastic::ControlPlane;
using elastic::Environment;
using elastic::GroupMembership;
using elastic::JobCore;

constexpr char kLibraryVersion[] = "0.1.0";

// Destructors of a training program are many and slow, and some are not safe while threads run: none is run.
[[noreturn]] void ExitNow(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "adaptdl: %s\n", status.ToString().c_str());
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      ExitNow(kExitStopped);
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      ExitNow(kExitPeerLost);
    default:
      ExitNow(1);
  }
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status());
  return *std::move(value);
}

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Where a signal goes: to the control plane while the group forms, then to the job.
class StopSwitch {
 public:
  void OnSignal(const std::string& name) {
    MutexLock lock(&mutex_);
    signal_ = name;
    if (ending_) return;
    if (core_ != nullptr) {
      core_->RequestStop(name);
    } else if (connecting_) {
      // No step has been taken: there is nothing to save, and the peers may never come.
      ExitNow(kExitStopped);
    } else if (control_ != nullptr) {
      control_->Cancel();
    }
  }

  // The group has formed; its members connect to each other.
  void SetConnecting() {
    MutexLock lock(&mutex_);
    if (!signal_.empty()) ExitNow(kExitStopped);
    connecting_ = true;
  }

  void SetControl(ControlPlane* control) {
    MutexLock lock(&mutex_);
    control_ = control;
    if (!signal_.empty()) control_->Cancel();
  }

  void SetCore(JobCore* core) {
    MutexLock lock(&mutex_);
    core_ = core;
    if (!signal_.empty()) core_->RequestStop(signal_);
  }

  // The program has come to its end: signals mean nothing any more.
  void SetEnding() {
    MutexLock lock(&mutex_);
    ending_ = true;
  }

 private:
  Mutex mutex_;
  std::string signal_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool connecting_ ABSL_GUARDED_BY(mutex_) = false;
  ControlPlane* control_ ABSL_GUARDED_BY(mutex_) = nullptr;
  JobCore* core_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// What lives as long as the job and longer than its core.
struct Life {
  StopSwitch stop;
  std::unique_ptr<elastic::SignalWatcher> signals;
  std::unique_ptr<comm::TcpRendezvous> rendezvous;
};

std::unique_ptr<ControlPlane> MakeControlPlane(const Environment& environment) {
  if (!environment.supervised()) return std::make_unique<elastic::StandaloneControlPlane>(environment);
  elastic::GrpcControlPlaneOptions options;
  options.supervisor_address = environment.supervisor_address;
  options.job_namespace = environment.job_namespace;
  options.job = environment.job;
  options.replica_id = environment.replica_id;
  options.group = environment.group;
  options.token = environment.group_token;
  options.library_version = kLibraryVersion;
  return OrDie(elastic::LoadGrpcControlPlane(options, environment.control_library));
}

// Rank 0 of a group that needs one binds the rendezvous before it joins, and tells where.
std::unique_ptr<comm::TcpRendezvous> MaybeHostRendezvous(const Environment& environment) {
  if (environment.replica_rank != 0) return nullptr;
  if (!environment.supervised() && environment.num_replicas == 1) return nullptr;
  const std::string host = environment.replica_host.empty() ? "127.0.0.1" : environment.replica_host;
  return OrDie(comm::TcpRendezvous::Host(host, environment.supervised() ? 0 : environment.master_port));
}

std::unique_ptr<comm::Communicator> Connect(const Environment& environment, const GroupMembership& membership,
                                            std::unique_ptr<comm::TcpRendezvous>* rendezvous) {
  if (membership.world_size == 1) return std::move(comm::CreateInProcessGroup(1).front());
  if (*rendezvous == nullptr) *rendezvous = OrDie(comm::TcpRendezvous::Join(membership.master_address));
  return OrDie(comm::ConnectGloo(
      **rendezvous,
      {.rank = membership.rank,
       .size = membership.world_size,
       .group = absl::StrCat(membership.group),
       .token = environment.group_token,
       .host = environment.replica_host.empty() ? std::string("127.0.0.1") : environment.replica_host,
       .timeout = environment.collective_timeout}));
}

}  // namespace

std::unique_ptr<Job> Init() { return InitProcessGroup("gloo"); }

std::unique_ptr<Job> InitProcessGroup(const std::string& backend, const std::string& address, int world_size,
                                      int rank) {
  auto life = std::make_shared<Life>();
  life->signals = std::make_unique<elastic::SignalWatcher>(
      [stop = &life->stop](const std::string& name) { stop->OnSignal(name); });
  elastic::JobDependencies dependencies;
  dependencies.environment =
      OrDie(elastic::ReadEnvironment(elastic::GetFromProcess, {backend, address, world_size, rank}));
  const Environment& environment = dependencies.environment;
  if (environment.keep_freed_memory) elastic::KeepFreedMemory(elastic::GetFromProcess);
  life->rendezvous = MaybeHostRendezvous(environment);
  dependencies.control = MakeControlPlane(environment);
  life->stop.SetControl(dependencies.control.get());
  dependencies.membership =
      OrDie(dependencies.control->JoinGroup(life->rendezvous ? life->rendezvous->address() : ""));
  life->stop.SetConnecting();
  dependencies.communicator = Connect(environment, dependencies.membership, &life->rendezvous);
  dependencies.keep_alive = life;
  dependencies.on_end = [stop = &life->stop] { stop->SetEnding(); };
  dependencies.exit = ExitNow;
  dependencies.seconds = MonotonicSeconds;
  std::unique_ptr<JobCore> core = OrDie(JobCore::Create(std::move(dependencies)));
  life->stop.SetCore(core.get());
  return std::make_unique<Job>(std::move(core));
}

}  // namespace adaptdl
