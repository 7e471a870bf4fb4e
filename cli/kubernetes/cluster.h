// A cluster of Kubernetes as --kubernetes and its flags name it: its API, and kubectl.
//
// Thread-safe. Errors as those of libs/kube, with what was wanted before them.

#ifndef ADAPTDL_CLI_KUBERNETES_CLUSTER_H_
#define ADAPTDL_CLI_KUBERNETES_CLUSTER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/kubernetes/kubectl.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/resource_type.h"
#include "libs/kube/client/session.h"

namespace adaptdl::cli {

struct Context;
struct KubernetesFlags;

// Types beside those of libs/kube.
const kube::ResourceType& JobObjects();
const kube::ResourceType& Claims();
const kube::ResourceType& ConfigMaps();
const kube::ResourceType& Services();
const kube::ResourceType& Deployments();
const kube::ResourceType& ServiceAccounts();
const kube::ResourceType& StorageClasses();

// Of changes by the command.
kube::ChangeOptions ByUs();

// The status with `what` before its text.
absl::Status While(absl::string_view what, const absl::Status& status);

// Of people's objects, where the command line names none.
absl::StatusOr<std::string> NamespaceOfKubeconfig(const KubernetesFlags& flags);

class Cluster {
 public:
  // Reads the kubeconfig, and calls nobody. FAILED_PRECONDITION: --kubernetes was not given, and `command` needs it.
  static absl::StatusOr<std::unique_ptr<Cluster>> Open(const Context& context,
                                                       absl::string_view command = "");

  const kube::Client& client() const { return client_; }
  const Kubectl& kubectl() const { return kubectl_; }
  // Of people's objects: --namespace, else that of the kubeconfig.
  const std::string& name_space() const { return name_space_; }

 private:
  Cluster(std::unique_ptr<kube::Session> session, Kubectl kubectl, std::string name_space);

  const std::unique_ptr<kube::Session> session_;
  const kube::Client client_;
  const Kubectl kubectl_;
  const std::string name_space_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_KUBERNETES_CLUSTER_H_
