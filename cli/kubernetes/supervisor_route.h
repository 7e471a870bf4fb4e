// The way from outside to the supervisor of a cluster of Kubernetes: a forwarded port for each of its pods, the cluster's CA, and a token
// of a service account for who asks.
//
// One of the pods leads; the others refuse connections, and the client goes on to the next address, as it does with supervisors anywhere.
// What goes over the ports is TLS from end to end: it is the supervisor's certificate that counts.
//
// Thread-safe. The ports are there as long as the object.

#ifndef ADAPTDL_CLI_KUBERNETES_SUPERVISOR_ROUTE_H_
#define ADAPTDL_CLI_KUBERNETES_SUPERVISOR_ROUTE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/context.h"
#include "cli/kubernetes/cluster.h"
#include "cli/kubernetes/port_forward.h"
#include "libs/base/unique_fd.h"
#include "libs/rpc/security.h"

namespace adaptdl::cli {

class SupervisorRoute {
 public:
  static absl::StatusOr<std::unique_ptr<SupervisorRoute>> Open(const Context& context);

  // "127.0.0.1:40000", one or more.
  const std::vector<std::string>& addresses() const { return addresses_; }
  const rpc::ClientSecurity& security() const { return security_; }

 private:
  SupervisorRoute() = default;

  absl::Status ForwardPorts(const Context& context, const Cluster& cluster);
  absl::Status AwaitPorts(absl::Duration timeout);
  absl::Status FindSecurity(const Context& context, const Cluster& cluster);

  std::vector<std::unique_ptr<PortForward>> forwards_;
  std::vector<std::string> addresses_;
  rpc::ClientSecurity security_;
  // The CA's certificate, in a file that has no name.
  UniqueFd ca_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_KUBERNETES_SUPERVISOR_ROUTE_H_
