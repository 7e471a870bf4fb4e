// Nodes whose life others tell of, as Kubernetes does: they register nothing and send no heartbeats. They are nodes
// like others to all else. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_NODES_OBSERVED_NODES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_NODES_OBSERVED_NODES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "services/supervisor/nodes/node_manager.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

struct ObservedNode {
  // Its status is ignored.
  v1::Node node;
  // Why it takes nothing new, for people ("cordoned"). Empty: it takes replicas.
  std::string closed = {};
  // That it goes away, and when, or that it may: that counts for as long as it is said.
  std::optional<v1::PreemptionNotice> leaving = std::nullopt;
};

class ObservedNodes {
 public:
  // Both outlive it.
  ObservedNodes(Core* core, NodeManager* nodes) : core_(core), nodes_(nodes) {}

  // The node is there, like this. Nothing happens if that is known. A drained node stays drained until `closed` has
  // been there and is gone again; a quarantined one stays quarantined.
  absl::Status Observe(const ObservedNode& observed);
  // These nodes live. Those that are left out for three heartbeat periods are lost, with their replicas.
  void KeepAlive(const std::vector<std::string>& ids) const;
  // The node is gone, with all that ran on it.
  absl::Status Forget(const std::string& id, const std::string& why);

 private:
  Core* const core_;
  NodeManager* const nodes_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_NODES_OBSERVED_NODES_H_
