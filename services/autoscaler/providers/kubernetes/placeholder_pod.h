// The placeholder: a pod that does nothing, asks for what a node of the pool holds, and yields at once to whatever is
// more important. While it waits, the cluster's own autoscaler (cluster-autoscaler, Karpenter) makes a node for it; on
// a node that nobody uses it keeps the node there.
//
//   one per node       by anti-affinity among placeholders, and to replicas: no placeholder asks for a part of a node
//                      that is in use, and the scheduler takes one away where a replica is to go
//   stays where it is  by the annotations that keep cluster-autoscaler and Karpenter from moving it
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_KUBERNETES_PLACEHOLDER_POD_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_KUBERNETES_PLACEHOLDER_POD_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node.pb.h"
#include "libs/kube/json/json.h"

namespace adaptdl::autoscaler {

struct PlaceholderOptions {
  // Name of the pool, and the namespace of its placeholders.
  std::string pool;
  std::string name_space = "adaptdl";
  // Labels of the pool's nodes and of no others. Not empty.
  std::map<std::string, std::string> node_selector;
  // Labels that they have besides, which jobs may ask for.
  std::map<std::string, std::string> node_labels = {};
  // What a node of the pool holds for replicas, as requests of a container: {"cpu": "7", "nvidia.com/gpu": "8"}.
  kube::Json node_resources;
  // Tolerations, as pods have them, for taints of the nodes. Null: none.
  kube::Json tolerations = {};
  std::string image = "registry.k8s.io/pause:3.10";
  std::string priority_class = "adaptdl-placeholder";
};

// The label of a placeholder that names its pool.
inline constexpr char kPlaceholderPoolLabel[] = "adaptdl.petuum.com/pool";

// INVALID_ARGUMENT names the flag that is wrong.
absl::Status CheckPlaceholders(const PlaceholderOptions& options);

// By their label kubernetes.io/hostname.
struct PlaceholderHosts {
  // The node that it is to keep. Empty: any of the pool.
  std::string only = {};
  // Nodes that it must not take.
  std::vector<std::string> none_of = {};
};
kube::Json MakePlaceholder(const PlaceholderOptions& options, const std::string& name,
                           const PlaceholderHosts& hosts);

// What a node of the pool is like. The options are checked.
v1::Node NodeOfPool(const PlaceholderOptions& options);

// What there is to know of a placeholder.
struct Placeholder {
  std::string name;
  std::string uid;
  // Where it is. Empty: nowhere yet.
  std::string node;
  // The host name that it asks for. Empty: any.
  std::string host_name;
  absl::Time created;
  // Whether it will not hold anything any more.
  bool has_ended = false;
  // Why there is no room for it, in the scheduler's words.
  std::string unschedulable;
};

// Reads it, whatever is in it.
Placeholder ReadPlaceholder(const kube::Json& pod);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_KUBERNETES_PLACEHOLDER_POD_H_
