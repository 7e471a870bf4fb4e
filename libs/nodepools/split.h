// From numbers of nodes of each kind to pools: which pool is to have how many.
//
// The minimum of each pool comes first; then, where the target asks for it, what jobs need at least from pools whose
// nodes last; then the rest from the cheapest pools on. A pool that has no capacity for now counts with what it has, so
// that the next one stands in.
//
// Pure; thread-safe.

#ifndef ADAPTDL_LIBS_NODEPOOLS_SPLIT_H_
#define ADAPTDL_LIBS_NODEPOOLS_SPLIT_H_

#include <vector>

#include "absl/time/time.h"
#include "libs/nodepools/market.h"
#include "libs/nodepools/pool.h"

namespace adaptdl::nodepools {

struct SplitRules {
  bool floor_on_lasting = false;
  absl::Time now;
};

// Price of a node of the pool; 1 where no pool has a price.
double PriceOf(const Pool& pool);

// Most nodes that the pool can have now.
int MostNodes(const Pool& pool, absl::Time now);

// Nodes by pool. `nodes` and `floor`: by kind, those in no pool included; `fixed`: those in no pool, by kind.
std::vector<int> SplitNodes(const std::vector<Pool>& pools, const std::vector<int>& nodes,
                            const std::vector<double>& floor, const std::vector<int>& fixed,
                            const SplitRules& rules);

// What so many nodes of each pool cost per hour.
double CostPerHour(const std::vector<Pool>& pools, const std::vector<int>& nodes);

// What can be had of each kind, those in no pool for nothing.
std::vector<Supply> SuppliesOf(const std::vector<Pool>& pools, const std::vector<int>& fixed, absl::Time now);

}  // namespace adaptdl::nodepools

#endif  // ADAPTDL_LIBS_NODEPOOLS_SPLIT_H_
