// adaptdl-supervisor: keeps the jobs, nodes and allocations of a cluster.

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "libs/base/clock.h"
#include "libs/service/flags.h"
#include "libs/service/log.h"
#include "libs/service/main.h"
#include "libs/service/server.h"
#include "services/supervisor/store/sqlite_job_store.h"
#include "services/supervisor/supervisor.h"

namespace adaptdl::supervisor {
namespace {

struct Flags {
  service::ServerOptions server;
  SqliteJobStoreOptions store;
  SupervisorOptions supervisor;
};

absl::Status Serve(const Flags& flags) {
  const RealClock clock;
  absl::StatusOr<std::unique_ptr<SqliteJobStore>> store = SqliteJobStore::Open(flags.store);
  if (!store.ok()) return store.status();
  absl::StatusOr<std::unique_ptr<Supervisor>> supervisor =
      Supervisor::Create(flags.supervisor, *std::move(store), &clock);
  if (!supervisor.ok()) return supervisor.status();
  absl::StatusOr<std::unique_ptr<service::Server>> server =
      service::Server::Start(flags.server, (*supervisor)->services());
  if (!server.ok()) return server.status();
  (*supervisor)->ExportMetrics((*server)->metrics());
  (*supervisor)->Start();
  (*server)->OnDrain([&] { (*supervisor)->EndStreams(); });
  (*server)->WaitForTermination();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app{"AdaptDL supervisor: keeps the jobs, nodes and allocations of a cluster"};
  Flags flags;
  flags.server.name = "supervisor";
  flags.server.listen = "127.0.0.1:7100";
  flags.server.metrics_listen = "127.0.0.1:7200";
  flags.store.folder = "./adaptdl-state";
  service::AddServerFlags(app, &flags.server);
  app.add_option("--state-dir", flags.store.folder, "Folder that keeps jobs, nodes and events")
      ->capture_default_str()
      ->type_name("DIR");
  ClusterOptions& cluster = flags.supervisor.cluster;
  const absl::Duration shortest = absl::Milliseconds(10);
  service::AddDurationFlag(app, "--heartbeat-period", &cluster.heartbeat_period,
                           "How often nodes send heartbeats; they are lost after three periods of silence",
                           shortest);
  service::AddDurationFlag(app, "--replica-heartbeat-period", &cluster.replica_heartbeat_period,
                           "How often replicas send heartbeats", shortest);
  service::AddDurationFlag(app, "--retry-backoff", &cluster.policy.retry_backoff,
                           "Wait before a failed job's next attempt; doubles with each further failure");
  service::AddDurationFlag(app, "--max-retry-backoff", &cluster.policy.max_retry_backoff,
                           "Longest wait before a failed job's next attempt");
  app.add_option_function<int>(
         "--retain-days",
         [&cluster](int days) {
           cluster.retention = days > 0 ? absl::Hours(24) * days : absl::InfiniteDuration();
         },
         "Delete jobs so long after their end, with their events, logs and files. 0: keep them")
      ->check(CLI::Range(0, 36500))
      ->default_str("0");
  return service::RunMain(app, argc, argv, [&] { return Serve(flags); });
}

}  // namespace
}  // namespace adaptdl::supervisor

int main(int argc, char** argv) { return adaptdl::supervisor::Main(argc, argv); }
