// Where the nodes of a pool come from: processes on this machine, a cloud's machines, ...
//
// A provider makes and ends nodes; when and how many is decided above it. Its own restart loses nothing: what
// it made before, it finds again.
//
// Thread-safety: called by one thread at a time.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_NODE_POOL_PROVIDER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_NODE_POOL_PROVIDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::autoscaler {

enum class ProvidedState {
  // It is there.
  kAlive,
  // It was told to stop and is still there.
  kStopping,
  // It ended, and nobody told it to: StartNode() brings it back with what it held, StopNode() gives it up.
  kDead,
};

struct ProvidedNode {
  std::string node_id;
  ProvidedState state = ProvidedState::kAlive;
};

class NodePoolProvider {
 public:
  virtual ~NodePoolProvider() = default;

  // Kind of the provider, for people and metrics.
  virtual absl::string_view name() const = 0;

  // All nodes that were started and are not gone, in order of node_id.
  virtual absl::StatusOr<std::vector<ProvidedNode>> ListNodes() = 0;

  // Makes a node, or brings back one that died, under the same id. Does not wait until it works. Does nothing
  // if it is alive; FAILED_PRECONDITION if it is stopping.
  virtual absl::Status StartNode(const std::string& node_id) = 0;

  // Ends a node. Does not wait: it is over when ListNodes() shows it no more. Idempotent, and fine for
  // unknown ones.
  virtual absl::Status StopNode(const std::string& node_id) = 0;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_NODE_POOL_PROVIDER_H_
