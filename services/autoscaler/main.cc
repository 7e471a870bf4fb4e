// adaptdl-autoscaler: keeps a pool of nodes as large as the allocator would make good use of.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"
#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "libs/base/process/environment.h"
#include "libs/base/program_folder.h"
#include "libs/kube/access/access.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/session.h"
#include "libs/rpc/endpoints.h"
#include "libs/rpc/security.h"
#include "libs/service/client_security.h"
#include "libs/service/flags.h"
#include "libs/service/log.h"
#include "libs/service/main.h"
#include "libs/service/server.h"
#include "services/autoscaler/autoscaler.h"
#include "services/autoscaler/autoscaler_service.h"
#include "services/autoscaler/cluster_client.h"
#include "services/autoscaler/kubernetes_flags.h"
#include "services/autoscaler/providers/kubernetes/placeholder_provider.h"
#include "services/autoscaler/providers/process/process_provider.h"

namespace adaptdl::autoscaler {
namespace {

// Deadline of each call to the supervisor and the allocator.
constexpr absl::Duration kRpcTimeout = absl::Seconds(5);

struct Flags {
  service::ServerOptions server;
  AutoscalerOptions autoscaler;
  ProcessProviderOptions process;
  KubernetesFlags kubernetes;
  std::optional<int> min_nodes;
  std::optional<int> max_nodes;
  std::string allocator = "127.0.0.1:7101";
  std::string provider = "process";
  std::string target = "band";
  std::string deadline;
};

// A DNS label with room for "-<k>": it begins the ids of the nodes.
std::string CheckPoolName(const std::string& name) {
  const bool characters =
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  if (!name.empty() && name.size() <= 50 && characters && name.front() != '-' && name.back() != '-')
    return "";
  return absl::StrCat("\"", name,
                      "\" is no name for a pool: use a-z, 0-9 and - (inside), at most 50 characters");
}

// Flags that belong to one kind of target.
void AddTargetFlags(CLI::App& app, Flags* flags) {
  CapacityTarget& target = flags->autoscaler.limits.target;
  app.add_option("--target", flags->target,
                 "Size to aim at: band (of utility), budget (per hour) or deadline (of the jobs' work)")
      ->check(CLI::IsMember({"band", "budget", "deadline"}))
      ->capture_default_str();
  app.add_option("--utility-low", target.utility_low, "Least utility of the band, above 0")
      ->capture_default_str();
  app.add_option("--utility-high", target.utility_high, "Largest utility of the band, at most 1")
      ->capture_default_str();
  app.add_option("--budget-per-hour", target.budget_per_hour, "Most that the pool's nodes may cost per hour");
  app.add_option("--node-price-per-hour", target.node_price_per_hour,
                 "Price of a node per hour, in the currency of the budget");
  app.add_option("--deadline", flags->deadline,
                 "When the jobs that say how much work they have left are to be done, for example "
                 "2030-12-24T18:00:00+01:00");
}

absl::Status ReadTarget(Flags* flags) {
  CapacityTarget& target = flags->autoscaler.limits.target;
  target.mode = flags->target == "budget"     ? TargetMode::kBudget
                : flags->target == "deadline" ? TargetMode::kDeadline
                                              : TargetMode::kBand;
  if (target.budget_per_hour != 0 && target.mode != TargetMode::kBudget)
    return absl::InvalidArgumentError("--budget-per-hour needs --target budget");
  if (!flags->deadline.empty() && target.mode != TargetMode::kDeadline)
    return absl::InvalidArgumentError("--deadline needs --target deadline");
  std::string error;
  if (target.mode == TargetMode::kDeadline &&
      !absl::ParseTime(absl::RFC3339_full, flags->deadline, &target.deadline, &error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--target deadline needs a --deadline such as 2030-12-24T18:00:00+01:00, not \"",
                     flags->deadline, "\""));
  }
  return CheckTarget(target, flags->autoscaler.limits.min_nodes);
}

void SetDefaults(Flags* flags) {
  flags->server.name = "autoscaler";
  flags->server.listen = "127.0.0.1:7102";
  flags->server.metrics_listen = "127.0.0.1:7202";
  flags->autoscaler.limits = {.pool = "local", .cooldown = absl::Seconds(60)};
  flags->process.supervisor = "127.0.0.1:7100";
  flags->process.state_dir = "adaptdl-state/autoscaler";
  flags->process.worker_binary = BesideProgram("adaptdl-worker");
}

void AddFlags(CLI::App& app, Flags* flags) {
  PoolLimits& limits = flags->autoscaler.limits;
  ProcessProviderOptions& process = flags->process;
  app.add_option("--supervisor", process.supervisor,
                 "host:port of the supervisor, or of several, separated by commas")
      ->capture_default_str();
  app.add_option("--allocator", flags->allocator,
                 "host:port of the allocator, or of several, separated by commas")
      ->capture_default_str();
  service::AddServerNameFlag(app, &process.tls_server_name);
  app.add_option("--provider", flags->provider,
                 "Where nodes come from: process (workers on this machine) or kubernetes (a cluster with an "
                 "autoscaler of "
                 "its own)")
      ->check(CLI::IsMember({"process", "kubernetes"}))
      ->capture_default_str();
  app.add_option("--pool", limits.pool, "Name of the pool; workers are called POOL-0, POOL-1, ...")
      ->check(CLI::Validator(CheckPoolName, ""))
      ->capture_default_str();
  app.add_option("--min-nodes", flags->min_nodes, "Fewest nodes")
      ->check(CLI::Range(0, 10'000))
      ->default_str("1; 0 with --provider kubernetes");
  app.add_option("--max-nodes", flags->max_nodes, "Most nodes; needed with --provider kubernetes")
      ->check(CLI::Range(0, 10'000))
      ->default_str("the machine's cores");
  service::AddDurationFlag(app, "--cooldown", &limits.cooldown,
                           "Time without a change before the pool shrinks");
  service::AddDurationFlag(app, "--poll-period", &flags->autoscaler.poll_period,
                           "Time between two looks at the pool", absl::Milliseconds(10));
  AddTargetFlags(app, flags);
  app.add_option("--state-dir", process.state_dir, "Folder for what the provider must remember")
      ->capture_default_str();
  app.add_option("--worker-binary", process.worker_binary, "Program that makes a node")
      ->capture_default_str();
  app.add_option("--worker-cpus", process.worker_cpus, "Cores that each worker offers")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  service::AddBytesFlag(app, "--worker-memory", &process.worker_memory_bytes,
                        "Memory that each worker offers (0: the machine's)");
  app.add_option("--worker-tls-cert", process.worker_tls.certificate,
                 "Certificate of the workers, in PEM; they trust the same CA as this program")
      ->type_name("FILE");
  app.add_option("--worker-tls-key", process.worker_tls.key, "Its private key, in PEM")->type_name("FILE");
  app.add_option("--storage-dir", process.storage_dir,
                 "Folder of the jobs' files, the same for all nodes; default: STATE-DIR/storage");
  AddKubernetesFlags(app, &flags->kubernetes);
}

// A worker has a certificate of its own: with the autoscaler's it could be more than a worker.
absl::Status CheckWorkerTls(const rpc::TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty()) {
    return absl::InvalidArgumentError(
        "--worker-tls-cert and --worker-tls-key are needed: the workers that this program starts prove who "
        "they are by them; \"adaptdl admin certificates\" makes such files");
  }
  const absl::Status status = rpc::CheckTlsFiles(files);
  return status.ok() ? status
                     : absl::InvalidArgumentError(absl::StrCat("of the workers: ", status.message()));
}

absl::Status CompleteLimits(Flags* flags) {
  PoolLimits& limits = flags->autoscaler.limits;
  const bool local = flags->provider == "process";
  if (!local && !flags->max_nodes.has_value()) {
    return absl::InvalidArgumentError(
        "--max-nodes is needed with --provider kubernetes: it bounds what the pool may cost");
  }
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  limits.min_nodes = flags->min_nodes.value_or(local ? 1 : 0);
  limits.max_nodes = flags->max_nodes.value_or(cores);
  if (limits.min_nodes > limits.max_nodes) {
    return absl::InvalidArgumentError(absl::StrCat("--min-nodes ", limits.min_nodes,
                                                   " is more than --max-nodes ", limits.max_nodes,
                                                   ": raise the one or lower the other"));
  }
  return ReadTarget(flags);
}

// Paths are handed to processes that start elsewhere.
absl::Status CompleteProcess(Flags* flags) {
  ProcessProviderOptions& process = flags->process;
  process.pool = flags->autoscaler.limits.pool;
  if (process.storage_dir.empty()) process.storage_dir = process.state_dir + "/storage";
  process.insecure = flags->server.security.insecure;
  if (!process.insecure) {
    process.worker_tls.ca = flags->server.security.tls.ca;
    if (const absl::Status status = CheckWorkerTls(process.worker_tls); !status.ok()) return status;
  }
  for (std::string* path :
       {&process.state_dir, &process.storage_dir, &process.worker_binary, &process.worker_tls.ca,
        &process.worker_tls.certificate, &process.worker_tls.key}) {
    if (path->empty()) continue;
    std::error_code error;
    *path = std::filesystem::absolute(*path, error).lexically_normal().string();
    if (error) return absl::InternalError(absl::StrCat("no current folder: ", error.message()));
  }
  process.log_format = flags->server.log_format;
  process.log_level = flags->server.log_level;
  process.environment = OwnEnvironment();
  return absl::OkStatus();
}

absl::Status RunWith(NodePoolProvider* provider, Clock* clock, Flags* flags) {
  const auto supervisors = rpc::ParseEndpoints("--supervisor", flags->process.supervisor);
  if (!supervisors.ok()) return supervisors.status();
  const auto allocators = rpc::ParseEndpoints("--allocator", flags->allocator);
  if (!allocators.ok()) return allocators.status();
  const security::SecurityOptions& security = flags->server.security;
  const ClusterClient cluster(
      std::make_unique<rpc::Endpoints>(*supervisors,
                                       security::ClientSide(security, flags->process.tls_server_name)),
      std::make_unique<rpc::Endpoints>(*allocators, security::ClientSide(security, rpc::kAllocatorName)),
      kRpcTimeout);
  PoolBoard board;
  AutoscalerService service(&board);
  auto server = service::Server::Start(flags->server, {&service});
  if (!server.ok()) return server.status();
  Autoscaler autoscaler(flags->autoscaler, {provider, &cluster, &board, clock, (*server)->metrics()});
  autoscaler.Start();
  (*server)->WaitForTermination();
  autoscaler.Stop();  // the nodes stay
  return absl::OkStatus();
}

absl::Status RunOnProcesses(Flags* flags) {
  if (const absl::Status status = CompleteProcess(flags); !status.ok()) return status;
  RealClock clock;
  auto provider = ProcessProvider::Create(flags->process, &clock);
  return provider.ok() ? RunWith(provider->get(), &clock, flags) : provider.status();
}

absl::Status RunOnKubernetes(Flags* flags) {
  auto options = Interpret(flags->kubernetes, flags->autoscaler.limits.pool);
  if (!options.ok()) return options.status();
  options->report = [](const absl::Status& status) {
    log::Warning("the API server", {{"error", status.ToString()}});
  };
  absl::StatusOr<kube::Access> access = kube::FindAccess(flags->kubernetes.access);
  if (!access.ok()) return access.status();
  // A round that can't be is over soon; the next one tries again.
  auto session = kube::Session::Create(
      *std::move(access),
      {.user_agent = "adaptdl-autoscaler", .timeout = kRpcTimeout, .patience = kRpcTimeout});
  if (!session.ok()) return session.status();
  const kube::Client client(session->get());
  RealClock clock;
  auto provider = PlaceholderProvider::Create(*options, &client, &clock);
  return provider.ok() ? RunWith(provider->get(), &clock, flags) : provider.status();
}

absl::Status Run(Flags* flags) {
  if (const absl::Status status = CompleteLimits(flags); !status.ok()) return status;
  return flags->provider == "kubernetes" ? RunOnKubernetes(flags) : RunOnProcesses(flags);
}

}  // namespace
}  // namespace adaptdl::autoscaler

int main(int argc, char** argv) {
  CLI::App app{"AdaptDL autoscaler: keeps a pool of nodes as large as the allocator would make good use of"};
  adaptdl::autoscaler::Flags flags;
  adaptdl::autoscaler::SetDefaults(&flags);
  adaptdl::service::AddServerFlags(app, &flags.server);
  adaptdl::autoscaler::AddFlags(app, &flags);
  return adaptdl::service::RunMain(app, argc, argv, [&] { return adaptdl::autoscaler::Run(&flags); });
}
