// A Node of Kubernetes as the supervisor sees it. Pure functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_NODES_NODE_OBJECT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_NODES_NODE_OBJECT_H_

#include <string>

#include "absl/time/time.h"
#include "libs/kube/json/json.h"
#include "services/supervisor/nodes/observed_nodes.h"

namespace adaptdl::supervisor {

struct NodeLabels {
  // Which label names the model of a node's GPUs.
  std::string gpu_type = "nvidia.com/gpu.product";
};

struct NodeObject {
  // With all that it has for pods as its capacity.
  ObservedNode observed;
  // Whether its kubelet is well, and since when that is so or not (wall time): for ever, if it has not been yet.
  bool ready = false;
  absl::Time since = absl::InfinitePast();

  bool operator==(const NodeObject&) const;
};

// Reads it, whatever is in it. What can't be read of its resources counts as nothing, and stands among its problems.
NodeObject ReadNode(const kube::Json& object, const NodeLabels& labels);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_NODES_NODE_OBJECT_H_
