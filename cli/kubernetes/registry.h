// The registry of a cluster of its own (service adaptdl-registry): where images are pushed to from here, and pulled from by its nodes.
//
// Thread-safe. Errors as those of libs/kube, and NOT_FOUND: there is none that nodes could pull from.

#ifndef ADAPTDL_CLI_KUBERNETES_REGISTRY_H_
#define ADAPTDL_CLI_KUBERNETES_REGISTRY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/kubernetes/cluster.h"
#include "cli/kubernetes/port_forward.h"

namespace adaptdl::cli {

class ClusterRegistry {
 public:
  // `name_space`: of the service.
  static absl::StatusOr<std::unique_ptr<ClusterRegistry>> Open(const Cluster& cluster,
                                                               const std::string& name_space,
                                                               absl::Duration timeout);

  // "127.0.0.1:40000", as long as the object lives.
  const std::string& here() const { return here_; }
  // "localhost:32000": each node's own port of the service.
  const std::string& on_nodes() const { return on_nodes_; }

 private:
  ClusterRegistry() = default;

  std::unique_ptr<PortForward> forward_;
  std::string here_;
  std::string on_nodes_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_KUBERNETES_REGISTRY_H_
