// A provider whose nodes are entries of a map, for tests.
//
// Thread-safety: none beyond the interface's.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_FAKE_NODE_POOL_PROVIDER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_FAKE_NODE_POOL_PROVIDER_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/autoscaler/providers/node_pool_provider.h"

namespace adaptdl::autoscaler {

class FakeNodePoolProvider final : public NodePoolProvider {
 public:
  explicit FakeNodePoolProvider(const std::string& pool = "local") : pool_(pool) {}

  absl::string_view name() const override { return "fake"; }
  PoolKind kind() const override { return {{{"adaptdl.petuum.com/pool", pool_}}}; }
  bool ends_nodes_gently() const override { return gentle; }

  absl::StatusOr<std::vector<ProvidedNode>> ListNodes() override {
    if (!list_error.ok()) return list_error;
    std::vector<ProvidedNode> listed;
    for (const auto& [id, state] : nodes) listed.push_back({id, state, hindrance});
    return listed;
  }

  Created CreateNodes(int count, const std::set<std::string>& taken_ids) override {
    Created created;
    for (int k = 0; static_cast<int>(created.node_ids.size()) < count; ++k) {
      const std::string id = absl::StrCat(pool_, "-", k);
      if (nodes.contains(id) || taken_ids.contains(id)) continue;
      created.status = RestartNode(id);
      if (!created.status.ok()) break;
      created.node_ids.push_back(id);
    }
    return created;
  }

  absl::Status RestartNode(const std::string& node_id) override {
    starts.push_back(node_id);
    if (!start_error.ok()) return start_error;
    nodes[node_id] = ProvidedState::kAlive;
    return absl::OkStatus();
  }

  // The node is gone at once, unless `slow_stop`.
  absl::Status TerminateNode(const std::string& node_id) override {
    stops.push_back(node_id);
    if (slow_stop) {
      nodes[node_id] = ProvidedState::kStopping;
    } else {
      nodes.erase(node_id);
    }
    return absl::OkStatus();
  }

  absl::Status KeepNodes(const std::vector<KeptNode>& to_keep) override {
    kept.clear();
    for (const KeptNode& node : to_keep) kept[node.node_id] = node.is_empty;
    return absl::OkStatus();
  }

  // What there is.
  std::map<std::string, ProvidedState> nodes;
  // What was asked for, in order.
  std::vector<std::string> starts;
  std::vector<std::string> stops;
  // What was to stay last, and whether it is empty.
  std::map<std::string, bool> kept;
  bool slow_stop = false;
  bool gentle = false;
  // Of all nodes.
  std::string hindrance;
  // What the calls fail with.
  absl::Status list_error;
  absl::Status start_error;

 private:
  const std::string pool_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_FAKE_NODE_POOL_PROVIDER_H_
