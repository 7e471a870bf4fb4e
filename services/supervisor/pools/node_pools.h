// The node pools as the autoscalers tell of them: lets nodes in, says what they cost, and shows people what there is.
// Nothing of it is stored: it is told again each round.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_POOLS_NODE_POOLS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_POOLS_NODE_POOLS_H_

#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/node_pool_service.pb.h"
#include "libs/base/mutex.h"
#include "services/supervisor/costs/cost_book.h"
#include "services/supervisor/pools/pool_board.h"
#include "services/supervisor/pools/vouched_nodes.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

class NodePools final : public VouchedNodes {
 public:
  // Both outlive it.
  NodePools(Core* core, CostBook* costs) : core_(core), costs_(costs) {}

  // `caller`: who has proved to be it (Admission::IdentityOf). Errors: as of CheckReport() and PoolBoard::Take().
  absl::StatusOr<v1::ReportNodePoolsResponse> Report(const v1::ReportNodePoolsRequest& request,
                                                     const std::string& caller);
  absl::StatusOr<v1::GetNodePoolsResponse> Get(const v1::GetNodePoolsRequest& request) const;

  std::optional<Vouched> Find(const std::string& instance_id) const override;

  // Writes what pools say of the node into it: its price, and whether it may be taken away.
  void Describe(v1::Node* node) const;

 private:
  // What the board says of a node, for its entry.
  struct Facts {
    std::optional<double> price;
    bool preemptible = false;
  };
  static void Put(const Facts& facts, v1::Node* node);
  static bool Differs(const Facts& facts, const v1::Node& node);
  // Facts of all nodes that the pools have now; of those that they had, that there is none.
  std::map<std::string, Facts> FactsOf(const PoolBoard::Changed& pools,
                                       const std::set<std::string>& before) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellCosts(const PoolBoard::Changed& pools) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Core* const core_;
  CostBook* const costs_;
  mutable Mutex mutex_;
  PoolBoard board_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_POOLS_NODE_POOLS_H_
