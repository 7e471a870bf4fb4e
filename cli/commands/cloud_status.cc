#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands/cloud.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/table.h"

namespace adaptdl::cli {
namespace {

std::string PriceText(std::optional<double> price) {
  return price.has_value() ? absl::StrFormat("%.4f", *price) : "-";
}

// What the file says a machine costs per hour.
std::optional<double> PriceOf(const ClusterFile& cluster, const Machine& machine) {
  if (machine.is_head) return cluster.head.price_per_hour;
  for (const poolfile::Pool& pool : cluster.pools.pools) {
    if (pool.name == machine.pool) return pool.price_per_hour;
  }
  return std::nullopt;
}

absl::StatusOr<int> CloudStatus(const Context& context, const std::string& name, bool dry_run) {
  const absl::StatusOr<ClusterFile> cluster = FindCluster(name, nullptr);
  if (!cluster.ok()) return cluster.status();
  CloudAccess access(context, *cluster, dry_run);
  const absl::StatusOr<std::vector<Machine>> machines = access.ec2()->List();
  if (!machines.ok()) return machines.status();
  Table table;
  table.headers = {"MACHINE", "POOL", "TYPE", "STATE", "ADDRESS", "AGE", "PRICE/H"};
  Json list = Json::array();
  double total = 0;
  bool has_head = false;
  bool has_unknown = false;
  for (const Machine& machine : *machines) {
    if (machine.state == "terminated") continue;
    has_head = has_head || (machine.is_head && machine.state == "running");
    const std::optional<double> price = PriceOf(*cluster, machine);
    total += price.value_or(0);
    has_unknown = has_unknown || !price.has_value();
    const std::string age =
        machine.launch_time.has_value() ? DurationText(context.clock->Now() - *machine.launch_time) : "-";
    table.rows.push_back({machine.id, machine.is_head ? "(head)" : machine.pool, machine.type, machine.state,
                          machine.private_address.empty() ? "-" : machine.private_address, age,
                          PriceText(price)});
    Json entry = {{"id", machine.id},       {"head", machine.is_head},
                  {"pool", machine.pool},   {"instanceType", machine.type},
                  {"state", machine.state}, {"address", machine.private_address}};
    if (machine.launch_time.has_value())
      entry["launchTime"] = absl::FormatTime(absl::RFC3339_sec, *machine.launch_time, absl::UTCTimeZone());
    if (price.has_value()) entry["pricePerHour"] = *price;
    list.push_back(std::move(entry));
  }
  if (context.format != Format::kTable) {
    PrintDocument(context, {{"cluster", cluster->name},
                            {"region", cluster->region},
                            {"machines", list},
                            {"currency", cluster->pools.currency},
                            {"pricePerHour", total}});
    return has_head ? kExitOk : kExitError;
  }
  if (table.rows.empty()) {
    Print(absl::StrCat("Cluster ", cluster->name, " has no machines in ", cluster->region, ".\n"));
    return kExitError;
  }
  Print(Render(table, context.colours));
  Print(absl::StrFormat("%d machines, %.4f %s per hour%s\n", table.rows.size(), total,
                        cluster->pools.currency, has_unknown ? ", and what has no price in the file" : ""));
  return has_head ? kExitOk : kExitError;
}

}  // namespace

void AddCloudStatus(CLI::App& cloud, Context* context) {
  CLI::App* command = cloud.add_subcommand(
      "status", "Show the machines of a cluster, and what they cost; exit code 0: its head runs");
  const auto name = std::make_shared<std::string>();
  const auto dry_run = std::make_shared<bool>(false);
  command->add_option("cluster", *name, "Name of a cluster that was launched from here, or its file")
      ->required();
  command->add_flag("--dry-run", *dry_run, "Say each call that is made, too");
  command->callback([context, name, dry_run] {
    context->action = [context, name, dry_run] { return CloudStatus(*context, *name, *dry_run); };
  });
}

}  // namespace adaptdl::cli
