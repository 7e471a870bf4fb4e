#include "services/worker/worker.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/aws/credential_chain.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/process/environment.h"
#include "libs/base/utf8.h"
#include "libs/base/version.h"
#include "libs/http/pauses.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/endpoints.h"
#include "libs/service/client_security.h"
#include "libs/service/log.h"
#include "services/worker/complete_options.h"
#include "services/worker/gpu_monitor.h"
#include "services/worker/gpus.h"
#include "services/worker/housekeeper.h"
#include "services/worker/leaving.h"
#include "services/worker/log_service.h"
#include "services/worker/machine.h"
#include "services/worker/machine_use.h"
#include "services/worker/notices/instance_metadata.h"
#include "services/worker/notices/notice_watcher.h"
#include "services/worker/nvml.h"
#include "services/worker/port_reserve.h"
#include "services/worker/process_shims.h"
#include "services/worker/replica_accounts.h"
#include "services/worker/replica_manager.h"
#include "services/worker/shim/cgroup.h"
#include "services/worker/supervisor_link.h"
#include "services/worker/work_lanes.h"
#include "services/worker/worker_metrics.h"

namespace adaptdl::worker {
namespace {

constexpr int kMaxGpus = 1024;
// Replicas whose disk or start may hang before others wait for them.
constexpr int kMaxLanes = 64;
// For the last calls to the driver, at the end.
constexpr absl::Duration kGpuPatience = absl::Seconds(1);
// Of a text about the node, in bytes.
constexpr size_t kMostWhy = 1000;

// How long a start waits for the metadata service, and between two attempts.
constexpr absl::Duration kMetadataPatience = absl::Seconds(5);
constexpr absl::Duration kMetadataPause = absl::Milliseconds(200);

// None where the driver is not installed, or a number of GPUs is declared.
absl::StatusOr<std::shared_ptr<Nvml>> OpenNvml(const WorkerOptions& options) {
  if (options.gpus != "auto") return nullptr;
  absl::StatusOr<std::unique_ptr<Nvml>> nvml = Nvml::Open(options.nvml_library);
  if (nvml.ok()) return *std::move(nvml);
  if (!absl::IsNotFound(nvml.status())) {
    log::Warning("no GPUs are offered", {{"reason", std::string(nvml.status().message())}});
  } else if (options.nvml_library != kNvmlLibrary) {
    return absl::InvalidArgumentError(
        absl::StrCat("--nvml-library \"", options.nvml_library, "\": ", nvml.status().message()));
  }
  return nullptr;
}

absl::StatusOr<GpuInventory> Gpus(const WorkerOptions& options, const Nvml* nvml) {
  int count = 0;
  if (options.gpus != "auto") {
    if (absl::SimpleAtoi(options.gpus, &count) && count >= 0 && count <= kMaxGpus) {
      return DeclareGpus(count, options.gpu_type);
    }
    return absl::InvalidArgumentError(absl::StrCat("--gpus \"", options.gpus,
                                                   "\" is not valid: give \"auto\" or a "
                                                   "number from 0 to ",
                                                   kMaxGpus));
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets any
  const char* const visible = getenv("CUDA_VISIBLE_DEVICES");
  GpuInventory gpus = SelectGpus(nvml == nullptr ? FoundGpus() : nvml->found(), visible, options.gpu_type);
  for (const std::string& warning : gpus.warnings) log::Warning("GPUs left out", {{"reason", warning}});
  for (const std::string& problem : gpus.problems) log::Warning("GPU not found", {{"reason", problem}});
  for (const GpuDevice& device : gpus.devices) {
    log::Info("GPU offered", {{"device", device.uuid}, {"type", device.type}});
  }
  return gpus;
}

std::vector<std::string> NamesOf(const GpuInventory& gpus) {
  std::vector<std::string> names;
  for (const GpuDevice& device : gpus.devices) names.push_back(device.uuid);
  return names;
}

// What replicas must be told of the supervisor's name: nothing where it is the usual one.
std::string ReplicasServerName(const WorkerOptions& options) {
  const bool usual = options.server.security.insecure || options.tls_server_name == rpc::kSupervisorName;
  return usual ? "" : options.tls_server_name;
}

// The node's cloud, and what it said of the machine at the start, as far as it did.
struct Metadata {
  std::unique_ptr<InstanceMetadata> service;
  InstanceIdentity identity;
};

// Whoever names the cloud can rely on it, and waits a little for a machine that has only just begun; nobody else waits
// for an answer that may never come.
absl::StatusOr<Metadata> OpenMetadata(const WorkerOptions& options) {
  static const RealClock clock;
  const absl::StatusOr<Cloud> cloud = ParseCloud(options.instance_metadata);
  if (!cloud.ok()) return cloud.status();
  Metadata metadata{MakeInstanceMetadata(*cloud, options.instance_metadata_url, &clock), {}};
  if (metadata.service == nullptr) return metadata;
  log::Info("asks the metadata service of its cloud", {{"cloud", std::string(CloudName(*cloud))}});
  if (options.instance_metadata == "auto") return metadata;
  const absl::Time deadline = clock.Steady() + kMetadataPatience;
  absl::StatusOr<InstanceIdentity> identity = metadata.service->Identify({});
  while (!identity.ok() && clock.Steady() < deadline) {
    clock.SleepFor(kMetadataPause);
    identity = metadata.service->Identify({});
  }
  if (identity.ok()) {
    metadata.identity = *std::move(identity);
  } else {
    log::Warning("the cloud does not say what this machine is; asking on",
                 {{"error", identity.status().ToString()}});
  }
  return metadata;
}

// The descriptor that keeps other workers off the state folder.
absl::StatusOr<int> LockStateFolder(const std::string& state_dir) {
  const std::string path = absl::StrCat(state_dir, "/worker.lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return absl::FailedPreconditionError(
      absl::StrCat("another worker uses --state-dir ", state_dir, ": end it, or give another folder"));
}

void SayWhatSeparatesJobs(const ReplicaAccounts& accounts) {
  if (accounts.per_job()) {
    log::Info("each job runs as a user of its own");
  } else if (!accounts.own()) {
    log::Info("all jobs run as one user, other than the worker's");
  } else if (geteuid() == 0) {
    log::Warning("replicas run as root: each job can read and change everything on this node");
  } else {
    log::Info("replicas run as the worker's own user, which separates no job from another");
  }
}

class WorkerImpl final : public Worker, public LinkHandler {
 public:
  WorkerImpl(WorkerOptions options, Metadata metadata, std::shared_ptr<const Nvml> nvml, GpuInventory gpus,
             int lock_fd)
      : options_(std::move(options)),
        metadata_(std::move(metadata)),
        nvml_(std::move(nvml)),
        gpus_(std::move(gpus)),
        lock_fd_(lock_fd) {}

  ~WorkerImpl() override {
    notices_.reset();  // no more notices
    if (replicas_ != nullptr) replicas_->SetSink(nullptr);
    if (replicas_ != nullptr) replicas_->SetOfferSink(nullptr);
    if (link_ != nullptr) link_->Shutdown();  // no more commands
    housekeeper_.reset();
    if (object_storage_ != nullptr) object_storage_->Shutdown();  // nobody waits for an upload
    // Nobody can wait for threads that hang in the driver.
    if (gpu_monitor_ != nullptr && !gpu_monitor_->AwaitIdle(kGpuPatience)) (void)gpu_lanes_.release();
    link_.reset();
    server_.reset();
    log_service_.reset();
    if (code_source_ != nullptr) code_source_->Shutdown();
    lanes_.Finish();
    shims_.reset();           // calls the manager, so it goes first
    object_storage_.reset();  // as do its uploads
    replicas_.reset();
    close(lock_fd_);
  }

  absl::Status Start() {
    absl::StatusOr<std::optional<NodeEnrolmentParts>> joined =
        JoinCluster({.options = options_.enrolment,
                     .folder = IdentityFolder(options_.state_dir),
                     .node_id = options_.node_id,
                     .clock = &clock_},
                    options_.supervisor, options_.tls_server_name, &options_.server.security);
    if (!joined.ok()) return joined.status();
    absl::StatusOr<std::shared_ptr<tracing::Tracer>> tracer =
        service::MakeTracer(options_.server.tracing, "adaptdl-worker");
    if (!tracer.ok()) return tracer.status();
    options_.server.tracer = *std::move(tracer);
    if (absl::Status status = StartReplicas(); !status.ok()) return status;
    log_service_ = std::make_unique<LogServiceImpl>(replicas_.get(), options_.storage_dir);
    absl::StatusOr<std::unique_ptr<service::Server>> server =
        service::Server::Start(options_.server, {log_service_.get()});
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    metrics_registry_ = server_->metrics();
    metrics_ = std::make_unique<WorkerMetrics>(metrics_registry_.get());
    ports_ = std::make_unique<PortReserve>(
        PortReserve::Options{.first = options_.first_port, .last = options_.last_port});
    SupervisorLink::Options link_options;
    link_options.node = MakeNode();
    absl::StatusOr<std::unique_ptr<rpc::Endpoints>> supervisors = Supervisors();
    if (!supervisors.ok()) return supervisors.status();
    link_ = std::make_unique<SupervisorLink>(link_options, *std::move(supervisors), this);
    replicas_->SetSink([link = link_.get()](const v1::ReplicaReport& report) { link->Report(report); });
    replicas_->SetOfferSink(
        [link = link_.get()](const GpuOffer& offer) { link->Offer(offer.count, offer.problems); });
    WatchGpus();
    housekeeper_ = std::make_unique<Housekeeper>(
        Housekeeper::Options{.max_ended_replicas = options_.keep_ended_replicas,
                             .max_log_bytes = options_.max_log_bytes,
                             .max_job_log_bytes = options_.max_job_log_bytes},
        replicas_.get(), metrics_.get(), [link = link_.get()] { return link->connected(); },
        [link = link_.get()](const std::string& job_uid) { link->ConfirmDeletion(job_uid); },
        [this] {
          if (gpu_monitor_ != nullptr) gpu_monitor_->Step();
          metrics_->UpdateMachine(machine_.Look());
        });
    WatchNotices();
    link_->Start();
    if (joined->has_value()) identity_ = std::make_unique<IdentityKeeper>(**std::move(joined));
    return absl::OkStatus();
  }

  std::string address() const override { return server_->address(); }

  void Wait() override {
    server_->OnDrain([this] {
      // There will be no next worker on a node that goes away.
      if (options_.on_terminate == OnTerminate::kDrain || leaving_->announced()) {
        leaving_->Drain(options_.terminate_timeout);
      }
      log_service_->EndStreams();
    });
    server_->WaitForTermination();
    link_->Shutdown();
    replicas_->SetSink(nullptr);
  }

  void Shutdown() override { server_->Shutdown(); }

 private:
  absl::StatusOr<std::unique_ptr<rpc::Endpoints>> Supervisors() const {
    absl::StatusOr<std::vector<std::string>> addresses =
        rpc::ParseEndpoints("--supervisor", options_.supervisor);
    if (!addresses.ok()) return addresses.status();
    return std::make_unique<rpc::Endpoints>(
        *std::move(addresses), security::ClientSide(options_.server.security, options_.tls_server_name));
  }

  void WatchGpus() {
    if (nvml_ == nullptr || gpus_.devices.empty()) return;
    std::set<std::string> watched;
    for (const GpuDevice& device : gpus_.devices) watched.insert(device.gpu);
    gpu_lanes_ = std::make_unique<ThreadLanes>(static_cast<int>(watched.size()));
    gpu_monitor_ = std::make_unique<GpuMonitor>(
        GpuMonitor::Options{.period = options_.gpu_check_period},
        std::vector<std::string>(watched.begin(), watched.end()),
        [nvml = nvml_](const std::string& gpu) { return nvml->Sample(gpu); }, &clock_, gpu_lanes_.get(),
        [this](const std::map<std::string, std::string>& problems) { WithdrawGpus(problems); });
  }

  // Those of the node's GPUs that answer, by number.
  std::vector<GpuOnMachine> GpusInUse() const {
    if (gpu_monitor_ == nullptr) return {};
    const std::map<std::string, GpuFigures> figures = gpu_monitor_->Figures();
    std::map<int, GpuOnMachine> found;
    for (const GpuDevice& device : gpus_.devices) {
      const auto known = figures.find(device.gpu);
      if (known != figures.end()) found[device.index] = {device.index, device.gpu, known->second};
    }
    std::vector<GpuOnMachine> gpus;
    for (auto& [index, gpu] : found) gpus.push_back(std::move(gpu));
    return gpus;
  }

  // `problems`: by GPU. With a GPU go all of its slices.
  void WithdrawGpus(const std::map<std::string, std::string>& problems) {
    std::set<std::string> devices;
    for (const GpuDevice& device : gpus_.devices) {
      if (problems.contains(device.gpu)) devices.insert(device.uuid);
    }
    std::vector<std::string> texts = gpus_.problems;
    for (const auto& [gpu, problem] : problems) texts.push_back(absl::StrCat(gpu, ": ", problem));
    replicas_->SetUnfitGpus(std::move(devices), std::move(texts));
  }

  absl::Status OpenObjectStorage() {
    auto storage =
        ObjectStorage::Create(options_.object_storage, aws::VariablesOf(OwnEnvironment()), &clock_);
    if (!storage.ok()) return storage.status();
    object_storage_ = *std::move(storage);
    return absl::OkStatus();
  }

  absl::Status StartReplicas() {
    absl::StatusOr<std::unique_ptr<rpc::Endpoints>> supervisors = Supervisors();
    if (!supervisors.ok()) return supervisors.status();
    code_source_ = std::make_unique<RemoteCodeSource>(*std::move(supervisors));
    absl::StatusOr<std::unique_ptr<ProcessShims>> shims =
        ProcessShims::Create({.shim_program = options_.shim_program,
                              .orphan_timeout = options_.orphan_timeout,
                              .log_file_bytes = options_.log_file_bytes,
                              .log_files = options_.log_files},
                             &clock_);
    if (!shims.ok()) return shims.status();
    shims_ = *std::move(shims);
    if (absl::Status status = OpenObjectStorage(); !status.ok()) return status;
    absl::StatusOr<JobStorage> storage = JobStorage::Create(options_.storage_dir, options_.accounts);
    if (!storage.ok()) return storage.status();
    SayWhatSeparatesJobs(storage->accounts());
    absl::StatusOr<std::string> cgroups = TakeCgroups();
    if (!cgroups.ok()) {
      log::Info("no limits on memory and processes of replicas by control groups",
                {{"reason", std::string(cgroups.status().message())}});
      limits_missing_ = std::string(cgroups.status().message());
    }
    absl::StatusOr<std::unique_ptr<ReplicaManager>> replicas = ReplicaManager::Create(
        {.state_dir = options_.state_dir,
         .node = {.node_id = options_.node_id,
                  .replica_host = options_.advertise_host,
                  .supervisor_address = options_.supervisor,
                  .supervisor_ca = options_.server.security.tls.ca,
                  .supervisor_tls_name = ReplicasServerName(options_),
                  .data_folder = options_.object_storage.data_folder,
                  .inherited_environment = InheritedEnvironment(environ, options_.pass_env),
                  .max_processes = options_.max_processes,
                  .cgroup_base = cgroups.value_or(""),
                  .netperf_program =
                      access(options_.netperf_program.c_str(), X_OK) == 0 ? options_.netperf_program : ""},
         .devices = NamesOf(gpus_),
         .other_device_names = gpus_.other_names,
         .python = options_.python,
         .code = options_.code,
         .code_source = code_source_.get(),
         .job_store = object_storage_->jobs(),
         .data_cache = object_storage_->data(),
         .tracer = options_.server.tracer},
        *std::move(storage), &clock_, shims_.get(), &lanes_);
    if (!replicas.ok()) return replicas.status();
    replicas_ = *std::move(replicas);
    return absl::OkStatus();
  }

  v1::Node MakeNode() const {
    const std::string address = server_->address();
    v1::Node node;
    node.set_node_id(options_.node_id);
    node.set_worker_address(absl::StrCat(options_.advertise_host, address.substr(address.rfind(':'))));
    node.set_replica_host(options_.advertise_host);
    v1::Resources& capacity = *node.mutable_capacity();
    capacity.set_cpu_millis(options_.cpus > 0 ? std::llround(options_.cpus * 1000) : MachineCpuMillis());
    capacity.set_memory_bytes(options_.memory_bytes > 0 ? options_.memory_bytes : MachineMemoryBytes());
    capacity.set_gpus(static_cast<int>(gpus_.devices.size()));
    node.set_gpu_type(gpus_.type);
    node.mutable_problems()->Assign(gpus_.problems.begin(), gpus_.problems.end());
    node.set_limits_missing(ToUtf8(limits_missing_, kMostWhy));
    for (const auto& [key, value] : options_.labels) (*node.mutable_labels())[key] = value;
    node.mutable_taints()->Add(options_.taints.begin(), options_.taints.end());
    node.set_preemptible(options_.preemptible);
    node.set_version(Version());
    node.set_instance_id(options_.enrolment.instance_id);
    return node;
  }

  void WatchNotices() {
    leaving_ = std::make_unique<Leaving>(replicas_.get(), link_.get(), &clock_);
    if (metadata_.service == nullptr) return;
    notices_ = std::make_unique<NoticeWatcher>(
        NoticeWatcher::Options{.identify = options_.enrolment.instance_id.empty()},
        std::move(metadata_.service), &pauses_, leaving_.get());
    notices_->Start();
  }

  std::vector<v1::ReplicaReport> Inventory() override { return replicas_->Inventory(); }
  std::vector<v1::ReplicaReport> Unacknowledged() override {
    replicas_->GiveUpOnStorage();
    return replicas_->Unacknowledged();
  }
  std::vector<int> FreePorts() override { return ports_->Ports(); }
  std::optional<v1::MachineUse> Use() override {
    const std::optional<MachineFigures> figures = machine_.Look();
    return figures.has_value() ? std::optional<v1::MachineUse>(figures->ToProto()) : std::nullopt;
  }

  void OnCommand(const v1::ConnectResponse& command) override {
    switch (command.command_case()) {
      case v1::ConnectResponse::kLaunch:
        GivePort(command.launch());
        replicas_->Launch(command.launch());
        break;
      case v1::ConnectResponse::kStop:
        replicas_->Stop(command.stop());
        break;
      case v1::ConnectResponse::kAcknowledge:
        replicas_->Acknowledge(command.acknowledge().replica_id());
        break;
      case v1::ConnectResponse::kDeleteJobFiles:
        housekeeper_->DeleteJob(command.delete_job_files());
        break;
      case v1::ConnectResponse::kHeartbeatAck:
        break;  // The link's own.
      case v1::ConnectResponse::COMMAND_NOT_SET:
        log::Warning("the supervisor sent a command that this worker does not know");
        break;
    }
  }

  // The port that the replica is to listen on is its own from now on.
  void GivePort(const v1::LaunchReplica& launch) {
    if (launch.rank() == 0 && ports_->Release(launch.adaptdl_http().master_port()))
      link_->AnnounceFreePorts();
  }

  WorkerOptions options_;  // Complete since Start().
  Metadata metadata_;
  // Null: nothing is watched.
  const std::shared_ptr<const Nvml> nvml_;
  const GpuInventory gpus_;
  // Why there are no control groups. Empty: there are.
  std::string limits_missing_;
  const int lock_fd_;
  const RealClock clock_;
  const RealPauses pauses_;
  ThreadLanes lanes_{kMaxLanes};
  std::unique_ptr<RemoteCodeSource> code_source_;
  std::unique_ptr<ObjectStorage> object_storage_;
  std::unique_ptr<ProcessShims> shims_;
  std::unique_ptr<ReplicaManager> replicas_;
  std::unique_ptr<ThreadLanes> gpu_lanes_;
  std::unique_ptr<GpuMonitor> gpu_monitor_;
  MachineWatch machine_{{}, &clock_, [this] { return GpusInUse(); }};
  std::unique_ptr<LogServiceImpl> log_service_;
  std::unique_ptr<service::Server> server_;
  std::shared_ptr<prometheus::Registry> metrics_registry_;
  std::unique_ptr<WorkerMetrics> metrics_;
  std::unique_ptr<PortReserve> ports_;
  std::unique_ptr<SupervisorLink> link_;
  std::unique_ptr<Housekeeper> housekeeper_;
  std::unique_ptr<Leaving> leaving_;
  // Null: the node is none of a cloud, or nobody is to ask.
  std::unique_ptr<NoticeWatcher> notices_;
  // Null: the certificate comes from elsewhere.
  std::unique_ptr<IdentityKeeper> identity_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options) {
  absl::StatusOr<Metadata> metadata = OpenMetadata(options);
  if (!metadata.ok()) return metadata.status();
  if (absl::Status status = CompleteOptions(metadata->identity, &options); !status.ok()) return status;
  if (options.enrolment.instance_id.empty()) options.enrolment.instance_id = metadata->identity.instance_id;
  absl::Status status = CheckEnrolment(options.enrolment, options.server.security);
  if (!status.ok()) return status;
  absl::StatusOr<std::shared_ptr<Nvml>> nvml = OpenNvml(options);
  if (!nvml.ok()) return nvml.status();
  absl::StatusOr<GpuInventory> gpus = Gpus(options, nvml->get());
  if (!gpus.ok()) return gpus.status();
  const absl::StatusOr<int> lock_fd = LockStateFolder(options.state_dir);
  if (!lock_fd.ok()) return lock_fd.status();
  auto worker = std::make_unique<WorkerImpl>(std::move(options), *std::move(metadata), *std::move(nvml),
                                             *std::move(gpus), *lock_fd);
  status = worker->Start();
  if (!status.ok()) return status;
  return worker;
}

}  // namespace adaptdl::worker
