#include "cli/kubernetes/cluster.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/context.h"
#include "libs/kube/access/access.h"
#include "libs/kubejobs/names.h"

namespace adaptdl::cli {

const kube::ResourceType& JobObjects() {
  static const auto& type =
      *new kube::ResourceType{kubejobs::kGroup, kubejobs::kVersion, kubejobs::kJobPlural, kubejobs::kJobKind};
  return type;
}

const kube::ResourceType& Claims() {
  static const auto& type =
      *new kube::ResourceType{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};
  return type;
}

const kube::ResourceType& ConfigMaps() {
  static const auto& type = *new kube::ResourceType{"", "v1", "configmaps", "ConfigMap"};
  return type;
}

const kube::ResourceType& Services() {
  static const auto& type = *new kube::ResourceType{"", "v1", "services", "Service"};
  return type;
}

const kube::ResourceType& Deployments() {
  static const auto& type = *new kube::ResourceType{"apps", "v1", "deployments", "Deployment"};
  return type;
}

const kube::ResourceType& ServiceAccounts() {
  static const auto& type = *new kube::ResourceType{"", "v1", "serviceaccounts", "ServiceAccount"};
  return type;
}

const kube::ResourceType& StorageClasses() {
  static const auto& type = *new kube::ResourceType{"storage.k8s.io", "v1", "storageclasses", "StorageClass",
                                                    /*is_namespaced=*/false};
  return type;
}

kube::ChangeOptions ByUs() { return {.field_manager = kubejobs::kFieldManager}; }

absl::Status While(absl::string_view what, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
}

absl::StatusOr<std::string> NamespaceOfKubeconfig(const KubernetesFlags& flags) {
  const absl::StatusOr<kube::Access> access =
      kube::FindAccess({.kubeconfig = flags.kubeconfig, .context = flags.context});
  if (!access.ok()) return access.status();
  return access->default_namespace;
}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Open(const Context& context, absl::string_view command) {
  const KubernetesFlags& flags = context.kubernetes;
  if (!flags.enabled) {
    return UsageError(absl::StrCat(command, " needs a cluster of Kubernetes; --kubernetes says to use it"));
  }
  absl::StatusOr<kube::Access> access =
      kube::FindAccess({.kubeconfig = flags.kubeconfig, .context = flags.context});
  if (!access.ok()) return access.status();
  std::string name_space = context.name_space.empty() ? access->default_namespace : context.name_space;
  kube::SessionOptions options;
  options.user_agent = "adaptdl";
  // People wait for it.
  options.timeout = context.call_timeout;
  options.patience = context.call_timeout;
  absl::StatusOr<std::unique_ptr<kube::Session>> session =
      kube::Session::Create(*std::move(access), std::move(options));
  if (!session.ok()) return session.status();
  return std::unique_ptr<Cluster>(
      new Cluster(*std::move(session), Kubectl(flags.kubeconfig, flags.context), std::move(name_space)));
}

Cluster::Cluster(std::unique_ptr<kube::Session> session, Kubectl kubectl, std::string name_space)
    : session_(std::move(session)),
      client_(session_.get()),
      kubectl_(std::move(kubectl)),
      name_space_(std::move(name_space)) {}

}  // namespace adaptdl::cli
