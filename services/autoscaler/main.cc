// adaptdl-autoscaler: keeps pools of nodes as large as jobs make good use of.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/process/environment.h"
#include "libs/base/program_folder.h"
#include "libs/poolfile/pool_file.h"
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
#include "services/autoscaler/file_pools.h"
#include "services/autoscaler/kubernetes_flags.h"
#include "services/autoscaler/pool_flags.h"
#include "services/autoscaler/pool_set.h"
#include "services/autoscaler/provider_factory.h"
#include "services/autoscaler/providers/kubernetes/placeholder_provider.h"
#include "services/autoscaler/providers/process/process_provider.h"

namespace adaptdl::autoscaler {
namespace {

// Deadline of each call to the supervisor and the allocator.
constexpr absl::Duration kRpcTimeout = absl::Seconds(5);

struct Flags {
  service::ServerOptions server;
  AutoscalerOptions autoscaler;
  PoolFlags pool;
  // A pool file, instead of the flags of one pool. Empty: none.
  std::string pools;
  ProcessProviderOptions process;
  KubernetesFlags kubernetes;
  std::string allocator = "127.0.0.1:7101";
  // The pool of the file whose user data is to be printed, instead of all else. Empty: none.
  std::string print_user_data;
  // As machines of a cloud reach it. Empty: as this program does.
  std::string advertised_supervisor;
};

void SetDefaults(Flags* flags) {
  flags->server.name = "autoscaler";
  flags->server.listen = "127.0.0.1:7102";
  flags->server.metrics_listen = "127.0.0.1:7202";
  flags->process.supervisor = "127.0.0.1:7100";
  flags->process.state_dir = "adaptdl-state/autoscaler";
  flags->process.worker_binary = BesideProgram("adaptdl-worker");
}

void AddFlags(CLI::App& app, Flags* flags) {
  ProcessProviderOptions& process = flags->process;
  app.add_option("--supervisor", process.supervisor,
                 "host:port of the supervisor, or of several, separated by commas")
      ->capture_default_str();
  app.add_option("--allocator", flags->allocator,
                 "host:port of the allocator, or of several, separated by commas")
      ->capture_default_str();
  service::AddServerNameFlag(app, &process.tls_server_name);
  AddPoolFlags(app, &flags->pool);
  CLI::Option* pools =
      app.add_option("--pools", flags->pools,
                     "File of node pools (docs/pools.md), instead of the flags of one pool; read "
                     "again when it changes")
          ->type_name("FILE");
  for (const char* flag :
       {"--provider", "--pool", "--min-nodes", "--max-nodes", "--cooldown", "--target", "--utility-low",
        "--utility-high", "--budget-per-hour", "--goodput-per-dollar", "--node-price-per-hour", "--deadline"})
    pools->excludes(flag);
  app.add_option(
      "--advertised-supervisor", flags->advertised_supervisor,
      "host:port by which machines of a cloud reach the supervisor, or several, separated by commas [as this "
      "program does]");
  app.add_option(
         "--print-user-data", flags->print_user_data,
         "Print the script by which a machine of this pool becomes a node, for the template of a group "
         "of a cloud, and exit")
      ->type_name("POOL")
      ->needs(pools);
  service::AddDurationFlag(app, "--poll-period", &flags->autoscaler.poll_period,
                           "Time between two looks at the pools", absl::Milliseconds(10));
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

// Paths are handed to processes that start elsewhere.
absl::Status CompleteProcess(Flags* flags) {
  ProcessProviderOptions& process = flags->process;
  process.pool = flags->pool.name;
  if (process.storage_dir.empty()) process.storage_dir = process.state_dir + "/storage";
  process.insecure = flags->server.security.insecure;
  if (!process.insecure) {
    process.worker_tls.ca = flags->server.security.tls.ca;
    // With a pool file they are needed where it has workers on this machine (provider_factory.h).
    const bool needed = flags->pools.empty() || !process.worker_tls.certificate.empty();
    const absl::Status status = needed ? CheckWorkerTls(process.worker_tls) : absl::OkStatus();
    if (!status.ok()) return status;
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

absl::Status RunWith(PoolSource* pools, Clock* clock, Flags* flags) {
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
  Autoscaler autoscaler(flags->autoscaler, {pools, &cluster, &board, clock, (*server)->metrics()});
  autoscaler.Start();
  (*server)->WaitForTermination();
  autoscaler.Stop();  // the nodes stay
  return absl::OkStatus();
}

ProviderFactoryOptions FactoryOptionsOf(const Flags& flags) {
  ProviderFactoryOptions options;
  options.process = flags.process;
  options.advertised_supervisor = flags.advertised_supervisor;
  options.kube_timeout = kRpcTimeout;
  return options;
}

absl::Status PrintUserData(const Flags& flags) {
  const absl::StatusOr<poolfile::PoolFile> file = poolfile::ReadPoolFile(flags.pools);
  if (!file.ok()) return file.status();
  for (const poolfile::Pool& pool : file->pools) {
    if (pool.name != flags.print_user_data) continue;
    const absl::StatusOr<std::string> script = UserDataOf(FactoryOptionsOf(flags), pool);
    if (!script.ok()) return script.status();
    if (std::fputs(script->c_str(), stdout) < 0 || std::fflush(stdout) != 0)
      return ErrnoStatus(errno, "write the user data to standard output");
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("--print-user-data \"", flags.print_user_data, "\": ", flags.pools,
                                          " has no pool of that name"));
}

absl::Status RunOnFile(Clock* clock, Flags* flags) {
  const ProviderFactoryOptions options = FactoryOptionsOf(*flags);
  const auto make = [&](const poolfile::PoolFile& file, const poolfile::Pool& pool) {
    return MakeProvider(options, file, pool, clock);
  };
  auto pools = FilePools::Open(flags->pools, make);
  if (!pools.ok()) return pools.status();
  return RunWith(pools->get(), clock, flags);
}

absl::Status RunOnProcesses(PoolSet set, Clock* clock, Flags* flags) {
  auto provider = ProcessProvider::Create(flags->process, clock);
  if (!provider.ok()) return provider.status();
  set.pools.front().provider = *std::move(provider);
  FixedPools pools(std::move(set));
  return RunWith(&pools, clock, flags);
}

absl::Status RunOnKubernetes(PoolSet set, Clock* clock, Flags* flags) {
  auto options = Interpret(flags->kubernetes, flags->pool.name);
  if (!options.ok()) return options.status();
  options->report = [](const absl::Status& status) {
    log::Warning("the API server", {{"error", status.ToString()}});
  };
  auto way = KubeWay::Find(flags->kubernetes.access, kRpcTimeout);
  if (!way.ok()) return way.status();
  auto provider = PlaceholderProvider::Create(*options, (*way)->client(), clock);
  if (!provider.ok()) return provider.status();
  set.pools.front().provider = *std::move(provider);
  FixedPools pools(std::move(set));
  return RunWith(&pools, clock, flags);
}

absl::Status Run(Flags* flags) {
  RealClock clock;
  if (flags->pools.empty() && flags->pool.provider == "kubernetes") {
    absl::StatusOr<PoolSet> set = Interpret(flags->pool);
    return set.ok() ? RunOnKubernetes(*std::move(set), &clock, flags) : set.status();
  }
  absl::StatusOr<PoolSet> set = Interpret(flags->pool);
  if (!set.ok()) return set.status();
  if (const absl::Status status = CompleteProcess(flags); !status.ok()) return status;
  if (!flags->print_user_data.empty()) return PrintUserData(*flags);
  return flags->pools.empty() ? RunOnProcesses(*std::move(set), &clock, flags) : RunOnFile(&clock, flags);
}

}  // namespace
}  // namespace adaptdl::autoscaler

int main(int argc, char** argv) {
  CLI::App app{"AdaptDL autoscaler: keeps pools of nodes as large as jobs make good use of"};
  adaptdl::autoscaler::Flags flags;
  adaptdl::autoscaler::SetDefaults(&flags);
  adaptdl::service::AddServerFlags(app, &flags.server);
  adaptdl::autoscaler::AddFlags(app, &flags);
  return adaptdl::service::RunMain(app, argc, argv, [&] { return adaptdl::autoscaler::Run(&flags); });
}
