#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/client.h"
#include "cli/cluster/local_cluster.h"
#include "cli/cluster/record.h"
#include "cli/commands/commands.h"
#include "cli/job_table.h"
#include "cli/output.h"
#include "cli/table.h"
#include "libs/base/program_folder.h"

namespace adaptdl::cli {
namespace {

struct ClusterOptions {
  std::string folder;
  UpOptions up;
  DownOptions down;
};

LocalCluster MakeCluster(const Context& context, const ClusterOptions& options) {
  const std::string folder = options.folder.empty() ? HomeFolder() : options.folder;
  return LocalCluster(std::filesystem::absolute(folder).lexically_normal().string(), ProgramFolder(),
                      context.clock, [](absl::string_view line) { Note(line); });
}

absl::StatusOr<int> Up(const Context& context, ClusterOptions options) {
  LocalCluster cluster = MakeCluster(context, options);
  options.up.insecure = context.insecure;
  const absl::StatusOr<ClusterRecord> record = cluster.Up(options.up);
  if (!record.ok()) return record.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, {{"folder", cluster.folder()},
                            {"supervisor", record->supervisor},
                            {"allocator", record->allocator},
                            {"autoscaler", record->autoscaler},
                            {"caFile", record->ca_file},
                            {"tokenFile", record->token_file},
                            {"workers", record->workers},
                            {"maxWorkers", record->max_workers}});
    return kExitOk;
  }
  Print(absl::StrCat("The cluster is up: supervisor at ", record->supervisor, ", state in ", cluster.folder(),
                     "\n"));
  if (record->ca_file.empty()) {
    Note("without TLS and tokens: every user of this machine can submit jobs that run as you");
  }
  if (std::filesystem::path(HomeFolder()).lexically_normal() != cluster.folder()) {
    Print(absl::StrCat("Other commands find it by: export ADAPTDL_HOME=", cluster.folder(), "\n"));
  }
  return kExitOk;
}

absl::StatusOr<int> Down(const Context& context, const ClusterOptions& options) {
  LocalCluster cluster = MakeCluster(context, options);
  const absl::Status status = cluster.Down(options.down);
  if (!status.ok()) return status;
  if (context.format == Format::kTable) Print("The cluster is down.\n");
  return kExitOk;
}

Cell HealthCell(const std::string& health) {
  return {health, health == "SERVING" ? Colour::kGreen : Colour::kRed};
}

absl::StatusOr<int> Status(const Context& context, const ClusterOptions& options) {
  const LocalCluster cluster = MakeCluster(context, options);
  const std::vector<ServiceState> services = cluster.Status();
  bool healthy = true;
  Table table;
  table.headers = {"SERVICE", "HEALTH", "PROCESS", "ADDRESS"};
  Json document = {{"folder", cluster.folder()}, {"services", Json::array()}};
  v1::ListNodesResponse nodes;
  for (const ServiceState& service : services) {
    healthy = healthy && service.health == "SERVING";
    table.rows.push_back({service.name, HealthCell(service.health),
                          service.pid == 0 ? "-" : absl::StrCat(service.pid),
                          service.address.empty() ? "-" : service.address});
    document["services"].push_back({{"name", service.name},
                                    {"health", service.health},
                                    {"pid", service.pid},
                                    {"address", service.address}});
    if (service.name == "supervisor" && service.health == "SERVING") {
      Client client(cluster.ClientContext());
      nodes = ListAllNodes(client).value_or(nodes);
    }
  }
  if (context.format != Format::kTable) {
    document["nodes"] = ToJson(nodes)["nodes"];
    PrintDocument(context, document);
  } else {
    Print(Render(table, context.colours));
    if (!nodes.nodes().empty()) {
      Print(absl::StrCat("\n",
                         Render(NodeTable(nodes, /*wide=*/false, context.clock->Now()), context.colours)));
      Print(NodeProblems(nodes));
    }
  }
  return healthy ? kExitOk : kExitError;
}

void AddUp(CLI::App* cluster, Context* context, const std::shared_ptr<ClusterOptions>& options) {
  CLI::App* up = cluster->add_subcommand("up", "Start what is missing of the cluster on this machine");
  up->add_option("--workers", options->up.workers, "Workers to keep at least. Default: one per core")
      ->check(CLI::PositiveNumber);
  up->add_option("--max-workers", options->up.max_workers, "Workers to grow to. Default: --workers")
      ->check(CLI::PositiveNumber);
  up->add_option("--cpus-per-worker", options->up.cpus_per_worker,
                 "Cores that each worker offers. Default: 1")
      ->check(CLI::PositiveNumber);
  up->add_option("--port", options->up.port,
                 "Port of the supervisor. 0: any free one. Default: the last, or 7100")
      ->check(CLI::Range(0, 65535));
  up->add_flag("--listen-metrics", options->up.listen_metrics,
               "Serve /metrics at 127.0.0.1:7200 (supervisor), 7201 (allocator), 7202 (autoscaler)");
  AddDuration(*up, "--timeout", &options->up.timeout, "Longest time to wait for the cluster");
  up->callback(
      [context, options] { context->action = [context, options] { return Up(*context, *options); }; });
}

void AddDown(CLI::App* cluster, Context* context, const std::shared_ptr<ClusterOptions>& options) {
  CLI::App* down = cluster->add_subcommand("down", "Stop the cluster on this machine; its state is kept");
  down->add_flag("--force", options->down.force, "At once, without checkpoints");
  down->add_flag("--purge", options->down.purge, "Remove the state, too: jobs, logs, checkpoints");
  AddDuration(*down, "--timeout", &options->down.timeout,
              "Time that replicas get to write their checkpoints");
  down->callback(
      [context, options] { context->action = [context, options] { return Down(*context, *options); }; });
}

}  // namespace

void AddCluster(CLI::App& app, Context* context) {
  CLI::App* cluster = app.add_subcommand("cluster", "Run a cluster on this machine");
  const auto options = std::make_shared<ClusterOptions>();
  cluster->require_subcommand(1);
  cluster->fallthrough();
  cluster->add_option("--dir", options->folder,
                      "Folder of its state. Default: $ADAPTDL_HOME, else ~/.adaptdl");
  AddUp(cluster, context, options);
  AddDown(cluster, context, options);
  cluster->add_subcommand("status", "Show its services and nodes; exit code 0: all are healthy")
      ->callback([context, options] {
        context->action = [context, options] { return Status(*context, *options); };
      });
}

}  // namespace adaptdl::cli
