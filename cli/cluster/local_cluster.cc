#include "cli/cluster/local_cluster.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/health_check.h"
#include "libs/base/file.h"
#include "libs/base/process/pid_file.h"
#include "libs/certificates/certificates.h"
#include "libs/rpc/security.h"

namespace adaptdl::cli {
namespace {}  // namespace

LocalCluster::LocalCluster(std::string folder, std::string binaries, const Clock* clock, Progress progress)
    : folder_(std::move(folder)),
      binaries_(std::move(binaries)),
      clock_(clock),
      progress_(std::move(progress)) {}

std::string LocalCluster::PidFile(absl::string_view service) const {
  return absl::StrCat(folder_, "/run/", service, ".pid");
}

std::string LocalCluster::AddressFile(absl::string_view service) const {
  return absl::StrCat(folder_, "/run/", service, ".address");
}

std::string LocalCluster::LogFile(absl::string_view service) const {
  return absl::StrCat(folder_, "/logs/", service, ".log");
}

std::string LocalCluster::SecurityFile(absl::string_view file) const {
  return absl::StrCat(folder_, "/security/", file);
}

rpc::ClientSecurity LocalCluster::SecurityOf(absl::string_view service, const ClusterRecord& record) const {
  if (record.ca_file.empty()) return rpc::Plaintext();
  rpc::ClientSecurity security;
  security.tls.ca = record.ca_file;
  security.server_name = certificates::Identity{.service = std::string(service)}.DnsName();
  return security;
}

Context LocalCluster::ClientContext() const {
  const ClusterRecord record = ReadClusterRecord(folder_).value_or(ClusterRecord());
  Context context;
  context.clock = clock_;
  context.supervisor = record.supervisor;
  context.ca_file = record.ca_file;
  context.token_file = record.token_file;
  context.insecure = record.ca_file.empty();
  context.tls_server_name = rpc::kSupervisorName;
  return context;
}

std::optional<ProcessIdentity> LocalCluster::Running(absl::string_view service) const {
  const absl::StatusOr<ProcessIdentity> process = ReadPidFile(PidFile(service));
  if (!process.ok() || !IsAlive(*process)) return std::nullopt;
  return *process;
}

std::vector<ProcessIdentity> LocalCluster::Workers() const {
  std::vector<ProcessIdentity> workers;
  std::error_code error;
  for (const auto& node :
       std::filesystem::directory_iterator(absl::StrCat(folder_, "/autoscaler/nodes"), error)) {
    const absl::StatusOr<ProcessIdentity> process = ReadPidFile((node.path() / "pid").string());
    if (process.ok() && IsAlive(*process)) workers.push_back(*process);
  }
  return workers;
}

bool LocalCluster::RunsInPart() const {
  const bool services = std::any_of(std::begin(kServices), std::end(kServices),
                                    [this](const char* service) { return Running(service).has_value(); });
  return services || !Workers().empty();
}

std::vector<ServiceState> LocalCluster::Status() const {
  const ClusterRecord record = ReadClusterRecord(folder_).value_or(ClusterRecord());
  std::vector<ServiceState> states;
  for (const char* service : kServices) {
    ServiceState state{.name = service, .pid = 0, .address = "", .health = "DOWN"};
    const std::optional<ProcessIdentity> process = Running(service);
    if (process.has_value()) {
      state.pid = process->pid;
      state.address = ReadWholeFile(AddressFile(service), 1 << 10).value_or("");
      state.health = state.address.empty()
                         ? "STARTING"
                         : CheckHealth(state.address, SecurityOf(service, record), "", kHealthTimeout)
                               .value_or("UNREACHABLE");
    }
    states.push_back(std::move(state));
  }
  return states;
}

}  // namespace adaptdl::cli
