#include "cli/kubernetes/registry.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/kube/json/json.h"

namespace adaptdl::cli {
namespace {

constexpr char kRegistryService[] = "adaptdl-registry";
constexpr int kRegistryPort = 5000;

int64_t RegistryNodePort(const kube::Json& service) {
  const kube::Json& ports = kube::At(service, {"spec", "ports"});
  if (!ports.is_array()) return 0;
  for (const kube::Json& port : ports) {
    if (kube::IntegerAt(port, {"port"}) == kRegistryPort) return kube::IntegerAt(port, {"nodePort"});
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterRegistry>> ClusterRegistry::Open(const Cluster& cluster,
                                                                       const std::string& name_space,
                                                                       absl::Duration timeout) {
  const std::string what = absl::StrCat("service ", name_space, "/", kRegistryService);
  const char* remedy = "; ADAPTDL_SUBMIT_REPO names another repository to push images to";
  const auto service = cluster.client().Get(kube::ObjectOf(Services(), {name_space, kRegistryService}));
  if (absl::IsNotFound(service.status())) {
    return absl::NotFoundError(absl::StrCat("the cluster has no registry of its own (", what, ")", remedy));
  }
  if (!service.ok()) return While(what, service.status());
  const int64_t node_port = RegistryNodePort(*service);
  if (node_port == 0) {
    return absl::NotFoundError(absl::StrCat(what, " has no node port for its port ", kRegistryPort,
                                            ", from which nodes could pull", remedy));
  }
  auto registry = std::unique_ptr<ClusterRegistry>(new ClusterRegistry());
  registry->forward_ = std::make_unique<PortForward>(
      cluster.kubectl(), PortForward::Options{.name_space = name_space,
                                              .target = absl::StrCat("service/", kRegistryService),
                                              .port = kRegistryPort});
  const absl::StatusOr<int> port = registry->forward_->WaitForPort(timeout);
  if (!port.ok()) return port.status();
  registry->here_ = absl::StrCat("127.0.0.1:", *port);
  registry->on_nodes_ = absl::StrCat("localhost:", node_port);
  return registry;
}

}  // namespace adaptdl::cli
