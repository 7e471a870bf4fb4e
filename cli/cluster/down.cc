// LocalCluster::Down and what it needs.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/cluster/folder_lock.h"
#include "cli/cluster/local_cluster.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/process/process_identity.h"
#include "libs/base/process/process_list.h"
#include "libs/base/process/wait.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {
namespace {

constexpr absl::Duration kReplicaPoll = absl::Milliseconds(100);
constexpr absl::Duration kServiceGrace = absl::Seconds(15);
constexpr const char* kShim = "adaptdl-shim";

// Replicas that run on nodes that are not lost.
int CountReplicas(const v1::ListNodesResponse& nodes) {
  int replicas = 0;
  for (const v1::Node& node : nodes.nodes()) {
    if (node.status().phase() != v1::NODE_PHASE_LOST) replicas += node.status().replicas();
  }
  return replicas;
}

}  // namespace

bool LocalCluster::Stop(absl::string_view service, absl::Duration grace) {
  const std::optional<ProcessIdentity> process = Running(service);
  if (process.has_value() && !StopProcesses({*process}, grace)) return false;
  std::error_code error;
  std::filesystem::remove(PidFile(service), error);
  std::filesystem::remove(AddressFile(service), error);
  std::filesystem::remove(absl::StrCat(AddressFile(service), ".metrics"), error);
  if (process.has_value()) progress_(absl::StrCat(service, " stopped"));
  return true;
}

void LocalCluster::DrainNodes(absl::Duration timeout) const {
  const absl::StatusOr<ClusterRecord> record = ReadClusterRecord(folder_);
  if (!record.ok() || !Running("supervisor").has_value() || !Running("allocator").has_value()) return;
  Client client(ClientContext());
  absl::StatusOr<v1::ListNodesResponse> nodes = ListAllNodes(client);
  if (!nodes.ok()) return;
  const int replicas = CountReplicas(*nodes);
  if (replicas > 0) {
    progress_(absl::StrCat(replicas, replicas == 1 ? " replica writes its" : " replicas write their",
                           " checkpoint"));
  }
  for (const v1::Node& node : nodes->nodes()) {
    v1::DrainNodeRequest request;
    request.set_request_id(RandomHex(16));
    request.set_node_id(node.node_id());
    request.set_reason("the cluster goes down");
    // A node that is lost meanwhile needs no draining; others are waited for below.
    client.Call(&Nodes::DrainNode, request).status().IgnoreError();
  }
  const absl::Time deadline = SteadyNow() + timeout;
  while (nodes.ok() && CountReplicas(*nodes) > 0 && SteadyNow() < deadline) {
    clock_->SleepFor(kReplicaPoll);
    nodes = ListAllNodes(client);
  }
}

void LocalCluster::ForgetNodes() const {
  const absl::StatusOr<ClusterRecord> record = ReadClusterRecord(folder_);
  if (!record.ok() || !Running("supervisor").has_value()) return;
  Client client(ClientContext());
  const absl::StatusOr<v1::ListNodesResponse> nodes = ListAllNodes(client);
  if (!nodes.ok()) return;
  for (const v1::Node& node : nodes->nodes()) {
    v1::RemoveNodeRequest request;
    request.set_request_id(RandomHex(16));
    request.set_node_id(node.node_id());
    // One that still counts as alive is found lost when the supervisor starts again.
    client.Call(&Nodes::RemoveNode, request).status().IgnoreError();
  }
}

bool LocalCluster::StopReplicas(absl::Duration grace) {
  // Shims outlive their workers; they stop their replicas when they are asked to end.
  const std::vector<ProcessIdentity> shims = FindProcesses(kShim, folder_);
  const bool stopped = StopProcesses(shims, grace);
  if (!shims.empty())
    progress_(absl::StrCat(shims.size(), shims.size() == 1 ? " replica" : " replicas", " stopped"));
  return stopped;
}

bool LocalCluster::StopWorkers(absl::Duration grace, absl::Duration replica_grace) {
  const std::vector<ProcessIdentity> workers = Workers();
  bool stopped = StopProcesses(workers, grace);
  if (!workers.empty())
    progress_(absl::StrCat(workers.size(), workers.size() == 1 ? " worker" : " workers", " stopped"));
  stopped = StopReplicas(replica_grace) && stopped;
  std::error_code error;
  for (const auto& node :
       std::filesystem::directory_iterator(absl::StrCat(folder_, "/autoscaler/nodes"), error)) {
    std::filesystem::remove(node.path() / "pid", error);
  }
  return stopped;
}

absl::Status LocalCluster::Down(const DownOptions& options) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder_, error)) return absl::OkStatus();
  const absl::StatusOr<std::unique_ptr<FolderLock>> lock = FolderLock::Take(folder_);
  if (!lock.ok()) return lock.status();
  const absl::Duration service_grace = options.force ? absl::ZeroDuration() : kServiceGrace;
  const absl::Duration replica_grace = options.force ? absl::ZeroDuration() : options.timeout;
  // First who would start workers anew, last who keeps the books.
  bool stopped = Stop("autoscaler", service_grace);
  if (!options.force) DrainNodes(options.timeout);
  stopped = Stop("allocator", service_grace) && stopped;
  stopped = StopWorkers(service_grace, replica_grace) && stopped;
  if (!options.force) ForgetNodes();
  stopped = Stop("supervisor", service_grace) && stopped;
  // A worker that was killed may have been about to start one, whose process was no shim yet.
  stopped = StopReplicas(replica_grace) && stopped;
  if (!stopped || !Workers().empty() || !FindProcesses(kShim, folder_).empty()) {
    return absl::InternalError(absl::StrCat("some processes of the cluster in ", folder_,
                                            " could not be ended; look at them with ps"));
  }
  return options.purge ? Purge() : absl::OkStatus();
}

absl::Status LocalCluster::Purge() const {
  // Only what a cluster has put there: the folder may be one that holds more.
  for (const char* entry :
       {"cluster.json", "lock", "run", "logs", "security", "supervisor", "autoscaler", "storage"}) {
    std::error_code error;
    std::filesystem::remove_all(std::filesystem::path(folder_) / entry, error);
    if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", folder_, "/", entry));
  }
  std::error_code not_empty;
  std::filesystem::remove(folder_, not_empty);
  progress_(absl::StrCat("the state in ", folder_, " is removed"));
  return absl::OkStatus();
}

}  // namespace adaptdl::cli
