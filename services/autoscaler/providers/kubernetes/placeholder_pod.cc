#include "services/autoscaler/providers/kubernetes/placeholder_pod.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/names.h"
#include "libs/kubejobs/placement.h"
#include "libs/kubejobs/resources.h"

namespace adaptdl::autoscaler {
namespace {

using kube::At;
using kube::Json;
using kube::TextAt;

// As clusters that are strict about pods want them (Pod Security "restricted").
const Json& Harmless() {
  static const auto* const kHarmless = new Json({{"allowPrivilegeEscalation", false},
                                                 {"readOnlyRootFilesystem", true},
                                                 {"runAsNonRoot", true},
                                                 {"capabilities", {{"drop", {"ALL"}}}},
                                                 {"seccompProfile", {{"type", "RuntimeDefault"}}}});
  return *kHarmless;
}

// Devices and huge pages can't be asked for without a limit.
Json ContainerResources(const Json& requests) {
  Json limits = Json::object();
  for (const auto& [name, amount] : requests.items()) {
    if (absl::StrContains(name, "/") || absl::StartsWith(name, "hugepages-")) limits[name] = amount;
  }
  return {{"requests", requests}, {"limits", limits}};
}

Json AntiAffinity(const char* label, bool everywhere) {
  Json term = {{"topologyKey", kubejobs::kHostNameLabel},
               {"labelSelector", {{"matchLabels", {{label, "true"}}}}}};
  // Nothing at all would mean the placeholder's own namespace.
  if (everywhere) term["namespaceSelector"] = Json::object();
  return term;
}

Json SpecOf(const PlaceholderOptions& options) {
  Json container = {{"name", "placeholder"},
                    {"image", options.image},
                    {"resources", ContainerResources(options.node_resources)},
                    {"securityContext", Harmless()}};
  Json spec = {{"priorityClassName", options.priority_class},
               {"terminationGracePeriodSeconds", 0},
               {"restartPolicy", "Never"},
               {"automountServiceAccountToken", false},
               {"enableServiceLinks", false},
               {"nodeSelector", options.node_selector},
               {"containers", Json::array({std::move(container)})}};
  spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = Json::array(
      {AntiAffinity(kubejobs::kPlaceholderLabel, false), AntiAffinity(kubejobs::kReplicaLabel, true)});
  if (options.tolerations.is_array()) spec["tolerations"] = options.tolerations;
  kubejobs::AddOurTolerations(&spec);
  return spec;
}

}  // namespace

absl::Status CheckPlaceholders(const PlaceholderOptions& options) {
  if (options.node_selector.empty()) {
    return absl::InvalidArgumentError(
        "--provider kubernetes needs --node-selector: the labels of the pool's nodes, such as "
        "karpenter.sh/nodepool=gpu");
  }
  if (!options.node_resources.is_object() || options.node_resources.empty()) {
    return absl::InvalidArgumentError(
        "--provider kubernetes needs --node-resources: what a node of the pool holds for replicas, as JSON, "
        "such as "
        R"({"cpu": "7", "memory": "28Gi", "nvidia.com/gpu": "1"})");
  }
  const auto request = kubejobs::PodRequest(SpecOf(options));
  if (!request.ok())
    return absl::InvalidArgumentError(absl::StrCat("--node-resources: ", request.status().message()));
  if (!options.tolerations.is_null() && !options.tolerations.is_array()) {
    return absl::InvalidArgumentError(
        R"(--node-tolerations: give a list, such as [{"key": "nvidia.com/gpu", "operator": "Exists"}])");
  }
  const auto placement = kubejobs::PlacementOf(SpecOf(options));
  if (!placement.ok())
    return absl::InvalidArgumentError(absl::StrCat("--node-tolerations: ", placement.status().message()));
  return absl::OkStatus();
}

Json MakePlaceholder(const PlaceholderOptions& options, const std::string& name,
                     const PlaceholderHosts& hosts) {
  Json pod = {{"apiVersion", "v1"}, {"kind", "Pod"}};
  pod["metadata"] = {
      {"name", name},
      {"namespace", options.name_space},
      {"labels", {{kubejobs::kPlaceholderLabel, "true"}, {kPlaceholderPoolLabel, options.pool}}},
      {"annotations",
       {{"cluster-autoscaler.kubernetes.io/safe-to-evict", "false"},
        {"karpenter.sh/do-not-disrupt", "true"}}}};
  pod["spec"] = SpecOf(options);
  if (!hosts.only.empty()) pod["spec"]["nodeSelector"][kubejobs::kHostNameLabel] = hosts.only;
  if (!hosts.none_of.empty()) {
    const Json others = {{"key", kubejobs::kHostNameLabel}, {"operator", "NotIn"}, {"values", hosts.none_of}};
    const Json term = {{"matchExpressions", Json::array({others})}};
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = {
        {"nodeSelectorTerms", Json::array({term})}};
  }
  return pod;
}

v1::Node NodeOfPool(const PlaceholderOptions& options) {
  v1::Node node;
  for (const auto* labels : {&options.node_labels, &options.node_selector})
    for (const auto& [name, value] : *labels) (*node.mutable_labels())[name] = value;
  const auto request = kubejobs::PodRequest(SpecOf(options));
  if (request.ok()) *node.mutable_capacity() = *request;
  return node;
}

Placeholder ReadPlaceholder(const Json& pod) {
  Placeholder result;
  result.name = kube::KeyOf(pod).name;
  result.uid = kube::UidOf(pod);
  result.node = TextAt(pod, {"spec", "nodeName"});
  result.host_name = TextAt(pod, {"spec", "nodeSelector", kubejobs::kHostNameLabel});
  result.created =
      kube::TimeFromText(TextAt(pod, {"metadata", "creationTimestamp"})).value_or(absl::InfinitePast());
  const std::string phase = TextAt(pod, {"status", "phase"});
  result.has_ended = phase == "Failed" || phase == "Succeeded" || kube::IsBeingDeleted(pod);
  const Json& conditions = At(pod, {"status", "conditions"});
  if (!conditions.is_array()) return result;
  for (const Json& condition : conditions) {
    if (TextAt(condition, {"type"}) == "PodScheduled" && TextAt(condition, {"status"}) == "False")
      result.unschedulable = TextAt(condition, {"message"});
  }
  return result;
}

}  // namespace adaptdl::autoscaler
