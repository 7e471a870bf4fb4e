// The pools that an autoscaler keeps, and where it has them from. Not thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_POOL_SET_H_
#define ADAPTDL_SERVICES_AUTOSCALER_POOL_SET_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node.pb.h"
#include "libs/nodepools/target.h"
#include "services/autoscaler/providers/node_pool_provider.h"

namespace adaptdl::autoscaler {

struct ManagedPool {
  // Unique.
  std::string name;
  // Bounds of the number of nodes, inclusive. 0 <= min_nodes <= max_nodes.
  int min_nodes = 0;
  int max_nodes = 0;
  // What its nodes are like until one of them is known: capacity, gpu_type, labels, taints. Absent: what the provider says.
  std::optional<v1::Node> like;
  // Of a node. Absent: unknown.
  std::optional<double> price_per_hour;
  bool preemptible = false;
  // What its cloud calls that kind of machine, for people. Empty: none.
  std::string instance_type;
  // How long a node takes to come, until that was measured.
  absl::Duration start_time = absl::ZeroDuration();
  // Not null.
  std::shared_ptr<NodePoolProvider> provider;
};

struct PoolSet {
  nodepools::Target target;
  std::string currency = "USD";
  // How long a node may drain before it is taken away with what is on it. Absent: as long as it takes.
  std::optional<absl::Duration> drain_timeout;
  std::vector<ManagedPool> pools;
  // Why what was said last is not in force. OK: it is.
  absl::Status refusal;
};

class PoolSource {
 public:
  virtual ~PoolSource() = default;

  // What is in force now; asked each round. Pools that are no more have no nodes to be and stay until the provider has
  // none. Valid until the next call.
  virtual const PoolSet& Get() = 0;
  // The pool has no nodes left: it may go, if it is no more.
  virtual void Emptied(const std::string& /*pool*/) {}
};

// Pools that never change.
class FixedPools final : public PoolSource {
 public:
  explicit FixedPools(PoolSet pools) : pools_(std::move(pools)) {}

  const PoolSet& Get() override { return pools_; }

 private:
  const PoolSet pools_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_POOL_SET_H_
