// Whom pods are told to, as replicas of nodes: the supervisor's NodeManager, in production.
//
// Thread-safety: implementations are thread-safe. They may block until what follows is stored.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_REPLICA_SINK_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_REPLICA_SINK_H_

#include <string>

#include "absl/status/status.h"
#include "adaptdl/v1/node_service.pb.h"

namespace adaptdl::supervisor {

class ReplicaSink {
 public:
  virtual ~ReplicaSink() = default;

  // What has become of a replica on the node. It may have been told before. Errors: it is told again, later.
  virtual absl::Status ObserveReplica(const std::string& node_id, const v1::ReplicaReport& report) = 0;

  // All replicas that the node has. The session in `hello` is left out: the sink knows the node's.
  // NOT_FOUND, ABORTED: the node is not registered (any more).
  virtual absl::Status ReconcileNode(const v1::NodeHello& hello) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_REPLICA_SINK_H_
