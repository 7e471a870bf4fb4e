// A provider whose nodes are entries of a map, for tests.
//
// Thread-safety: none beyond the interface's.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_FAKE_NODE_POOL_PROVIDER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_FAKE_NODE_POOL_PROVIDER_H_

#include <map>
#include <string>
#include <vector>

#include "services/autoscaler/node_pool_provider.h"

namespace adaptdl::autoscaler {

class FakeNodePoolProvider final : public NodePoolProvider {
 public:
  absl::string_view name() const override { return "fake"; }

  absl::StatusOr<std::vector<ProvidedNode>> ListNodes() override {
    if (!list_error.ok()) return list_error;
    std::vector<ProvidedNode> listed;
    for (const auto& [id, state] : nodes) listed.push_back({id, state});
    return listed;
  }

  absl::Status StartNode(const std::string& node_id) override {
    starts.push_back(node_id);
    if (!start_error.ok()) return start_error;
    nodes[node_id] = ProvidedState::kAlive;
    return absl::OkStatus();
  }

  // The node is gone at once, unless `slow_stop`.
  absl::Status StopNode(const std::string& node_id) override {
    stops.push_back(node_id);
    if (slow_stop) {
      nodes[node_id] = ProvidedState::kStopping;
    } else {
      nodes.erase(node_id);
    }
    return absl::OkStatus();
  }

  // What there is.
  std::map<std::string, ProvidedState> nodes;
  // What was asked for, in order.
  std::vector<std::string> starts;
  std::vector<std::string> stops;
  bool slow_stop = false;
  // What the calls fail with.
  absl::Status list_error;
  absl::Status start_error;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_FAKE_NODE_POOL_PROVIDER_H_
