#include <sys/statvfs.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/cluster/local_cluster.h"
#include "cli/cluster/record.h"
#include "cli/commands/bandwidth.h"
#include "cli/commands/commands.h"
#include "cli/health_check.h"
#include "cli/output.h"
#include "cli/security.h"
#include "cli/support/checkup.h"
#include "cli/support/network_check.h"
#include "libs/base/program_folder.h"
#include "libs/base/version.h"
#include "libs/rpc/endpoints.h"

namespace adaptdl::cli {
namespace {

// Of each address; nobody waits longer for a diagnosis.
constexpr absl::Duration kPatienceWithServers = absl::Seconds(3);

struct DoctorOptions {
  bool strict = false;
  bool bandwidth = false;
  // To measure between. Empty: all that are ready.
  std::vector<std::string> nodes;
};

struct Diagnosis {
  std::vector<Check> checks;
  // Of --bandwidth: one entry for each pair.
  Json network = Json::array();
};

// Whether anybody answers at the address, before anything is asked of TLS.
absl::Status TryConnection(const std::string& address) {
  const absl::StatusOr<std::string> health = CheckHealth(address, rpc::Plaintext(), "", kPatienceWithServers);
  // A server that wants TLS hangs up, which is an answer.
  if (health.ok() || !absl::IsUnavailable(health.status())) return absl::OkStatus();
  for (const char* refusal : {"refused", "No route", "unreachable", "DNS", "resol", "timed out", "Timeout"}) {
    if (absl::StrContains(health.status().message(), refusal)) return health.status();
  }
  return absl::OkStatus();
}

std::vector<AddressState> TryAddresses(const Context& context) {
  const std::string text = FindSupervisor(context);
  const auto addresses = rpc::ParseEndpoints("--supervisor", text);
  if (!addresses.ok()) return {{.address = text, .connection = addresses.status()}};
  std::vector<AddressState> states;
  for (const std::string& address : *addresses) {
    AddressState state = {.address = address, .connection = TryConnection(address)};
    if (state.connection.ok()) {
      const absl::StatusOr<rpc::ClientSecurity> security = FindSecurity(context, address);
      state.health = security.ok() ? CheckHealth(address, *security, "", kPatienceWithServers)
                                   : absl::StatusOr<std::string>(security.status());
    }
    states.push_back(std::move(state));
  }
  return states;
}

std::optional<DiskState> DiskOf(const std::string& folder) {
  struct statvfs info = {};
  if (statvfs(folder.c_str(), &info) != 0) return std::nullopt;
  const auto block = static_cast<int64_t>(info.f_frsize);
  return DiskState{.folder = folder,
                   .free_bytes = block * static_cast<int64_t>(info.f_bavail),
                   .all_bytes = block * static_cast<int64_t>(info.f_blocks)};
}

// Of this machine's own cluster, if it is the one that is asked.
void LookAtLocalCluster(const Context& context, ClusterState* state) {
  const absl::StatusOr<ClusterRecord> record = ReadClusterRecord(HomeFolder());
  if (!record.ok() || record->supervisor != FindSupervisor(context)) return;
  const LocalCluster cluster(std::filesystem::absolute(HomeFolder()).lexically_normal().string(),
                             ProgramFolder(), context.clock, [](absl::string_view) {});
  for (const ServiceState& service : cluster.Status()) {
    if (service.health == "SERVING") continue;
    state->sick_services.push_back(absl::StrCat(service.name, " is ", service.health));
  }
  state->disk = DiskOf(cluster.folder());
}

absl::StatusOr<v1::ListJobsResponse> UnfinishedJobs(Client& client, const std::string& name_space) {
  v1::ListJobsRequest request;
  request.set_namespace_(name_space);
  for (int phase = v1::JobPhase_MIN + 1; phase <= v1::JobPhase_MAX; ++phase) {
    if (!IsFinished(static_cast<v1::JobPhase>(phase))) request.add_phases(static_cast<v1::JobPhase>(phase));
  }
  return ListAllJobs(client, request);
}

// Adds what the network between nodes is like, one pair after the other: two at once would share a link.
absl::Status MeasureNetwork(const Context& context, Client& client, const v1::ListNodesResponse& nodes,
                            const std::vector<std::string>& chosen, Diagnosis* diagnosis) {
  const absl::StatusOr<std::vector<NodePair>> pairs = PairsToMeasure(nodes, chosen);
  if (!pairs.ok()) return pairs.status();
  for (const NodePair& pair : *pairs) {
    Note(absl::StrCat("measuring from ", pair.from.node_id(), " to ", pair.to.node_id()));
    const absl::StatusOr<NetworkQuality> quality = MeasurePair(context, client, pair);
    diagnosis->checks.push_back(NetworkCheck(pair, quality));
    diagnosis->network.push_back(NetworkDocument(pair, quality));
  }
  return absl::OkStatus();
}

void ShowDiagnosis(const Context& context, const DoctorOptions& options, const Diagnosis& diagnosis) {
  if (context.format == Format::kTable) {
    Print(absl::StrCat(Render(CheckTable(diagnosis.checks), context.colours), Remedies(diagnosis.checks)));
    return;
  }
  Json document = {{"verdict", VerdictText(WorstOf(diagnosis.checks))}, {"checks", Json::array()}};
  for (const Check& check : diagnosis.checks) {
    document["checks"].push_back({{"verdict", VerdictText(check.verdict)},
                                  {"subject", check.subject},
                                  {"text", check.text},
                                  {"remedy", check.remedy}});
  }
  if (options.bandwidth) document["network"] = diagnosis.network;
  PrintDocument(context, document);
}

absl::StatusOr<int> Examine(const Context& context, const DoctorOptions& options) {
  if (!options.nodes.empty() && !options.bandwidth) return UsageError("--node goes with --bandwidth");
  if (options.bandwidth && context.kubernetes.enabled) {
    return UsageError("--bandwidth measures between node workers, not on Kubernetes");
  }
  ClusterState state;
  state.version = Version();
  if (!context.kubernetes.enabled) {
    state.addresses = TryAddresses(context);
    LookAtLocalCluster(context, &state);
  }
  Client client(context);
  state.identity = client.Call(&Admin::WhoAmI, v1::WhoAmIRequest());
  if (state.identity.ok()) {
    state.nodes = ListAllNodes(client);
    state.pools = client.Call(&Pools::GetNodePools, {});
    state.jobs = UnfinishedJobs(client, "*");
    if (absl::IsPermissionDenied(state.jobs.status()))
      state.jobs = UnfinishedJobs(client, context.Namespace());
  }
  state.now = context.clock->Now();
  Diagnosis diagnosis = {.checks = CheckUp(state)};
  absl::Status measured;
  if (options.bandwidth && state.identity.ok() && state.nodes.ok()) {
    measured = MeasureNetwork(context, client, *state.nodes, options.nodes, &diagnosis);
  }
  ShowDiagnosis(context, options, diagnosis);
  if (!measured.ok()) return measured;
  const Verdict worst = WorstOf(diagnosis.checks);
  return worst == Verdict::kFailure || (options.strict && worst != Verdict::kOk) ? kExitError : kExitOk;
}

}  // namespace

void AddDoctor(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Look for what is wrong with the cluster, and say what helps; exit code 0: nothing, but for warnings");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_flag("--strict", options->strict, "Exit code 1 for warnings, too");
  command->add_flag("--bandwidth", options->bandwidth,
                    "Measure bandwidth and round trips between nodes, by small jobs that are deleted again");
  command
      ->add_option("--node", options->nodes,
                   "Measure between these nodes; repeatable (default: all that are ready)")
      ->allow_extra_args(false);
  command->callback(
      [context, options] { context->action = [context, options] { return Examine(*context, *options); }; });
}

}  // namespace adaptdl::cli
