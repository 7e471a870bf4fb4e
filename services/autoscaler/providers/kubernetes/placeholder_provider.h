// Nodes of a Kubernetes cluster, of which its own autoscaler (cluster-autoscaler, Karpenter) is asked for by placeholder
// pods (placeholder_pod.h). A node is held by the replicas on it or by a placeholder; one that nothing holds is taken
// away by the cluster, when that finds it idle for long enough.
//
//   CreateNodes ──▶ placeholder waits ──▶ the cluster makes a node ──▶ placeholder on it ◀──▶ replicas, which displace it
//                    kRequested              kArrived                  kAlive                 kArrived
//                                                                         │ TerminateNode
//                                                                         ▼
//                                            gone ◀── the cluster   nothing on it: kReleased
//
// Ids are names of nodes; while there is none yet, names of placeholders. The cluster's objects are all the state but
// which nodes were released: a provider that starts holds again what is idle, until it is released again.
//
// Thread-safety: one thread at a time; owns a thread that follows the nodes.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_KUBERNETES_PLACEHOLDER_PROVIDER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_KUBERNETES_PLACEHOLDER_PROVIDER_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/kube/client/client.h"
#include "libs/kube/control/cache.h"
#include "libs/kube/control/reflector.h"
#include "services/autoscaler/providers/kubernetes/placeholder_pod.h"
#include "services/autoscaler/providers/node_pool_provider.h"

namespace adaptdl::autoscaler {

struct PlaceholderProviderOptions {
  PlaceholderOptions placeholders;
  // How long a placeholder waits until it is said why.
  absl::Duration capacity_deadline = absl::Minutes(10);
  // How long a node is empty until a placeholder holds it: a job that starts again comes back sooner. Less than it takes
  // the cluster to take away an idle node.
  absl::Duration hold_after = absl::Seconds(5);
  // Told of failures of the watch. Null: nobody is.
  std::function<void(const absl::Status&)> report = nullptr;
};

class PlaceholderProvider final : public NodePoolProvider {
 public:
  // Client and clock outlive it. INVALID_ARGUMENT: as CheckPlaceholders.
  static absl::StatusOr<std::unique_ptr<PlaceholderProvider>> Create(
      const PlaceholderProviderOptions& options, const kube::Client* client, const Clock* clock);

  absl::string_view name() const override { return "kubernetes"; }
  PoolKind kind() const override;
  bool ends_nodes_gently() const override { return true; }
  absl::StatusOr<std::vector<ProvidedNode>> ListNodes() override;
  Created CreateNodes(int count, const std::set<std::string>& taken_ids) override;
  // UNIMPLEMENTED: no node is ever kDead.
  absl::Status RestartNode(const std::string& node_id) override;
  absl::Status TerminateNode(const std::string& node_id) override;
  // Holds the empty ones, and takes away placeholders that hold nothing any more.
  absl::Status KeepNodes(const std::vector<KeptNode>& nodes) override;

  // Waits until all nodes that there are can be seen. False: a stop was requested first.
  bool AwaitSynced(const std::stop_token& stop) const { return nodes_.AwaitSynced(stop); }

 private:
  struct Node {
    std::string name;
    std::string host_name;
    // Whether it is being taken away.
    bool is_leaving = false;
  };

  PlaceholderProvider(const PlaceholderProviderOptions& options, const kube::Client* client,
                      const Clock* clock);

  static Node ReadNode(const kube::Json& object);
  // All of the pool, also those that have ended.
  absl::StatusOr<std::vector<Placeholder>> Placeholders() const;
  // The node that it is on, or is to keep. Null: none that is there.
  kube::Cache<Node>::Value NodeOf(const Placeholder& placeholder) const;
  // Whether the node has been empty for long enough.
  bool IsToBeHeld(const KeptNode& node);
  // Whether it will never hold anything any more.
  bool IsOver(const Placeholder& placeholder) const;
  std::string HindranceOf(const Placeholder& placeholder) const;
  absl::StatusOr<std::string> Make(const PlaceholderHosts& hosts) const;
  absl::Status Delete(const Placeholder& placeholder) const;

  const PlaceholderProviderOptions options_;
  const kube::Client& client_;
  const Clock& clock_;
  // Nodes that were let go.
  std::set<std::string> released_;
  // Since when a node is empty (steady time).
  std::map<std::string, absl::Time> empty_since_;
  kube::Cache<Node> nodes_;
  // Ends before the cache.
  kube::Reflector reflector_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_KUBERNETES_PLACEHOLDER_PROVIDER_H_
