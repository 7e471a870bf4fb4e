// Follows the nodes of a cluster and what other people's pods hold on them, and tells the supervisor of what counts.
//
//   ready ──────────▶ lives                              not ready for longer than `grace` ──▶ lost, with its replicas
//   cordoned, taints of those who remove nodes ──▶ drains         its object is gone ──▶ forgotten
//
// One that joins counts when it is ready for the first time. What a node has for replicas is what it has for pods, less
// what pods of others ask for. Placeholders of a priority below 0, which yield, do not count. While the API server can't
// be reached, nodes stay as they were.
//
// Owns two reflectors. Thread-safe, but for Step(), which one thread calls.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_NODES_NODE_WATCH_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_NODES_NODE_WATCH_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "adaptdl/v1/resources.pb.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/control/cache.h"
#include "libs/kube/control/reflector.h"
#include "services/supervisor/kubernetes/nodes/node_object.h"
#include "services/supervisor/nodes/observed_nodes.h"

namespace adaptdl::supervisor {

struct NodeWatchOptions {
  NodeLabels labels;
  // How long a node may be not ready until it counts as lost: kubelets come back from a restart.
  absl::Duration grace = absl::Seconds(40);
  // Told after a node was made known, or has changed, or is gone. Null: nobody is.
  std::function<void(const std::string& id, bool is_there)> told = nullptr;
  // Of both watches.
  std::function<void(const absl::Status&)> report = nullptr;
};

class NodeWatch {
 public:
  // Begins. All outlive it.
  NodeWatch(const kube::Client* client, ObservedNodes* nodes, const Clock* clock, NodeWatchOptions options);

  // Waits until all nodes that there are have been told. False: a stop was requested first.
  bool AwaitSynced(const std::stop_token& stop);
  // Tells what has changed, and which nodes live.
  void Step();

 private:
  // A pod of somebody else.
  struct ForeignPod {
    std::string node;
    v1::Resources request;
  };

  static ForeignPod ReadPod(const kube::Json& object);
  void Mark(const std::string& node);
  // What the node is to be known as. Nothing: it is gone.
  std::optional<NodeObject> Look(const std::string& id) const;
  // Whether it is done with.
  bool Tell(const std::string& id);
  bool Lives(const NodeObject& node) const;

  const NodeWatchOptions options_;
  ObservedNodes& nodes_;
  const Clock& clock_;
  // Nodes that may differ from what was told.
  mutable Mutex mutex_;
  std::set<std::string> marked_ ABSL_GUARDED_BY(mutex_);
  kube::Cache<NodeObject> objects_;
  kube::Cache<ForeignPod> pods_;
  // Begin when all that they use is there, and end before.
  std::unique_ptr<kube::Reflector> node_reflector_;
  std::unique_ptr<kube::Reflector> pod_reflector_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_NODES_NODE_WATCH_H_
