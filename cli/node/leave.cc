#include "cli/node/leave.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/kubernetes/program.h"
#include "cli/node/worker_settings.h"
#include "cli/output.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {
namespace {

constexpr absl::Duration kLookPeriod = absl::Milliseconds(500);

// Waits until no replica is on the node; one that the supervisor does not know has none.
absl::Status AwaitEmpty(const Context& context, Client& client, const std::string& node_id,
                        absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  while (true) {
    const absl::StatusOr<v1::ListNodesResponse> nodes = ListAllNodes(client);
    if (!nodes.ok()) return nodes.status();
    int replicas = 0;
    for (const v1::Node& node : nodes->nodes()) {
      if (node.node_id() == node_id) replicas = node.status().replicas();
    }
    if (replicas == 0) return absl::OkStatus();
    if (SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          replicas, " replicas are still on node ", node_id, " after ", absl::FormatDuration(timeout),
          "; it is draining: wait, and leave again, or leave with --force"));
    }
    context.clock->SleepFor(kLookPeriod);
  }
}

// Whether there is such a node.
absl::StatusOr<bool> Drain(const Context& context, Client& client, const std::string& node_id,
                           absl::Duration timeout) {
  v1::DrainNodeRequest request;
  request.set_request_id(RandomHex(16));
  request.set_node_id(node_id);
  request.set_reason("leaves the cluster");
  const absl::Status drained = client.Call(&Nodes::DrainNode, request).status();
  if (absl::IsNotFound(drained)) return false;
  if (!drained.ok()) return drained;
  Tell(absl::StrCat("node ", node_id, " is draining: its jobs move elsewhere"));
  if (absl::Status status = AwaitEmpty(context, client, node_id, timeout); !status.ok()) return status;
  return true;
}

absl::Status StopWorker() {
  Tell(absl::StrCat("systemctl disable --now ", kWorkerUnit));
  return RunToEnd({"systemctl", "disable", "--now", kWorkerUnit});
}

absl::Status RemoveIdentity(const NodePlaces& places) {
  const std::string folder = absl::StrCat(places.state, "/identity");
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", folder));
  Tell(absl::StrCat("its certificate and key are removed from ", folder));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> Leave(Context context, const LeaveOptions& options) {
  const absl::StatusOr<std::string> settings = ReadWholeFile(options.places.settings);
  if (!settings.ok()) return settings.status();
  const std::string node_id = SettingIn(*settings, "ADAPTDL_SERVER_NODE_ID");
  if (node_id.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        options.places.settings, " has no ADAPTDL_SERVER_NODE_ID: this machine has not joined a cluster"));
  }
  if (options.stop) {
    const absl::Status root = CheckRoot("stopping the worker");
    if (!root.ok()) return root;
  }
  if (context.supervisor.empty()) context.supervisor = SettingIn(*settings, "ADAPTDL_SERVER_SUPERVISOR");
  if (context.ca_file.empty()) context.ca_file = SettingIn(*settings, "ADAPTDL_SERVER_TLS_CA");
  bool known = false;
  if (!options.force) {
    Client client(context);
    const absl::StatusOr<bool> drained = Drain(context, client, node_id, options.timeout);
    if (!drained.ok()) {
      return absl::Status(
          drained.status().code(),
          absl::StrCat(drained.status().message(),
                       "; an operator's or admin's token is needed (--token-file), or --force, "
                       "which asks nobody"));
    }
    known = *drained;
  }
  if (options.stop) {
    if (absl::Status status = StopWorker(); !status.ok()) return status;
  }
  if (absl::Status status = RemoveIdentity(options.places); !status.ok()) return status;
  if (known) {
    v1::RemoveNodeRequest request;
    request.set_request_id(RandomHex(16));
    request.set_node_id(node_id);
    Client client(context);
    const absl::Status removed = client.Call(&Nodes::RemoveNode, request).status();
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  Tell(absl::StrCat("this machine is no node of the cluster any more; it was ", node_id));
  return kExitOk;
}

}  // namespace adaptdl::cli
