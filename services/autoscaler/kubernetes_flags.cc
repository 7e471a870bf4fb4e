#include "services/autoscaler/kubernetes_flags.h"

#include <map>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/kube/json/json.h"
#include "libs/service/flags.h"

namespace adaptdl::autoscaler {
namespace {

absl::Status ReadLabels(const std::string& flag, const std::vector<std::string>& texts,
                        std::map<std::string, std::string>* labels) {
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> label = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (label.first.empty() || label.second.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " \"", text, "\": give NAME=VALUE, such as karpenter.sh/nodepool=gpu"));
    }
    (*labels)[label.first] = label.second;
  }
  return absl::OkStatus();
}

absl::Status ReadJson(const std::string& flag, const std::string& text, kube::Json* json) {
  if (text.empty()) return absl::OkStatus();
  absl::StatusOr<kube::Json> parsed = kube::ParseJson(text);
  if (!parsed.ok())
    return absl::InvalidArgumentError(absl::StrCat(flag, ": is no JSON: ", parsed.status().message()));
  *json = *std::move(parsed);
  return absl::OkStatus();
}

}  // namespace

void AddKubernetesFlags(CLI::App& app, KubernetesFlags* flags) {
  PlaceholderOptions& placeholders = flags->provider.placeholders;
  const std::string group = "Kubernetes (--provider kubernetes)";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str()->group(group);
  };
  add("--kubeconfig", flags->access.kubeconfig,
      "How to reach the cluster [$KUBECONFIG, or the pod that this runs in]");
  add("--kube-context", flags->access.context, "Context of it [its current one]");
  add("--own-namespace", placeholders.name_space, "Namespace of the placeholder pods");
  add("--node-selector", flags->node_selector,
      "NAME=VALUE: a label of the pool's nodes and of no others; may be given several times. What the "
      "cluster calls "
      "the pool: karpenter.sh/nodepool, eks.amazonaws.com/nodegroup, cloud.google.com/gke-nodepool")
      ->delimiter(',');
  add("--node-labels", flags->node_labels,
      "NAME=VALUE: another label that these nodes have, which jobs may ask for; may be given several times")
      ->delimiter(',');
  add("--node-resources", flags->node_resources,
      R"(What a node holds for replicas, as JSON: {"cpu": "7", "memory": "28Gi", "nvidia.com/gpu": "1"})");
  add("--node-tolerations", flags->node_tolerations,
      R"(For taints of the nodes, as JSON: [{"key": "nvidia.com/gpu", "operator": "Exists"}])");
  add("--placeholder-image", placeholders.image, "Image of the placeholder pods, which do nothing");
  add("--placeholder-priority-class", placeholders.priority_class,
      "Their priority class: below that of jobs, and not below -10, which cluster-autoscaler ignores");
  service::AddDurationFlag(app, "--capacity-deadline", &flags->provider.capacity_deadline,
                           "How long a node may not come until the pool's reason says why")
      ->group(group);
}

absl::StatusOr<PlaceholderProviderOptions> Interpret(const KubernetesFlags& flags, const std::string& pool) {
  PlaceholderProviderOptions options = flags.provider;
  PlaceholderOptions& placeholders = options.placeholders;
  placeholders.pool = pool;
  absl::Status status = ReadLabels("--node-selector", flags.node_selector, &placeholders.node_selector);
  status.Update(ReadLabels("--node-labels", flags.node_labels, &placeholders.node_labels));
  status.Update(ReadJson("--node-resources", flags.node_resources, &placeholders.node_resources));
  status.Update(ReadJson("--node-tolerations", flags.node_tolerations, &placeholders.tolerations));
  status.Update(CheckPlaceholders(placeholders));
  if (!status.ok()) return status;
  return options;
}

}  // namespace adaptdl::autoscaler
