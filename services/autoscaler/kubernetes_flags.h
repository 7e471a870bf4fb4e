// The flags of `--provider kubernetes`. Not thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_KUBERNETES_FLAGS_H_
#define ADAPTDL_SERVICES_AUTOSCALER_KUBERNETES_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/kube/access/access.h"
#include "services/autoscaler/providers/kubernetes/placeholder_provider.h"

namespace CLI {
class App;
}

namespace adaptdl::autoscaler {

struct KubernetesFlags {
  kube::AccessOptions access;
  PlaceholderProviderOptions provider;
  // "name=value".
  std::vector<std::string> node_selector;
  std::vector<std::string> node_labels;
  // JSON.
  std::string node_resources;
  std::string node_tolerations;
};

void AddKubernetesFlags(CLI::App& app, KubernetesFlags* flags);

// With what the texts say, for the pool of that name. INVALID_ARGUMENT names the flag.
absl::StatusOr<PlaceholderProviderOptions> Interpret(const KubernetesFlags& flags, const std::string& pool);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_KUBERNETES_FLAGS_H_
