// The flags of a supervisor of a Kubernetes cluster. Not thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_FLAGS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/supervisor/kubernetes/webhook/admission_webhook.h"
#include "services/supervisor/kubernetes_backend.h"

namespace CLI {
class App;
}

namespace adaptdl::supervisor {

struct KubernetesFlags {
  KubernetesOptions options;
  AdmissionWebhookOptions webhook;
  // Where the certificates are that replicas verify the supervisor's with.
  std::string replica_ca_file;
  // JSON.
  std::string default_resources = R"({"requests": {"cpu": "1", "memory": "1Gi"}})";
  std::string patch_pods;
  std::string patch_containers;
  std::string keep_pods = "failed";
};

void AddKubernetesFlags(CLI::App& app, KubernetesFlags* flags);

// With what the texts and files say. INVALID_ARGUMENT and others name the flag.
absl::StatusOr<KubernetesOptions> Interpret(const KubernetesFlags& flags);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_FLAGS_H_
