#include "libs/nodepools/split.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace adaptdl::nodepools {
namespace {

// Pools of a kind, in the order in which they are used: the cheapest first, of equals those that last.
std::vector<size_t> OrderOf(const std::vector<Pool>& pools, int kind) {
  std::vector<size_t> order;
  for (size_t p = 0; p < pools.size(); ++p) {
    if (pools[p].kind == kind) order.push_back(p);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (PriceOf(pools[a]) != PriceOf(pools[b])) return PriceOf(pools[a]) < PriceOf(pools[b]);
    return pools[a].preemptible < pools[b].preemptible;
  });
  return order;
}

// Gives a kind's pools nodes, within their bounds.
class Giver {
 public:
  Giver(const std::vector<Pool>& pools, absl::Time now, std::vector<int>* split)
      : pools_(pools), now_(now), split_(*split) {}

  // Returns how many could not be had.
  int Give(const std::vector<size_t>& order, int count, bool lasting_only) {
    for (const size_t p : order) {
      if (lasting_only && pools_[p].preemptible) continue;
      const int more = std::clamp(count, 0, std::max(0, MostNodes(pools_[p], now_) - split_[p]));
      split_[p] += more;
      count -= more;
    }
    return count;
  }

 private:
  const std::vector<Pool>& pools_;
  const absl::Time now_;
  std::vector<int>& split_;
};

}  // namespace

double PriceOf(const Pool& pool) { return pool.price_per_hour < 0 ? 1 : pool.price_per_hour; }

int MostNodes(const Pool& pool, absl::Time now) {
  const bool refused = pool.refused_until.has_value() && *pool.refused_until > now;
  if (!refused) return pool.max_nodes;
  const auto comes = [](const PoolNode& node) {
    return node.phase != NodePhase::kDraining && !node.hindered;
  };
  return std::min<int>(pool.max_nodes,
                       static_cast<int>(std::count_if(pool.nodes.begin(), pool.nodes.end(), comes)));
}

std::vector<int> SplitNodes(const std::vector<Pool>& pools, const std::vector<int>& nodes,
                            const std::vector<double>& floor, const std::vector<int>& fixed,
                            const SplitRules& rules) {
  std::vector<int> split(pools.size());
  for (size_t p = 0; p < pools.size(); ++p) split[p] = pools[p].min_nodes;
  Giver giver(pools, rules.now, &split);
  for (size_t k = 0; k < nodes.size(); ++k) {
    const std::vector<size_t> order = OrderOf(pools, static_cast<int>(k));
    int rest = nodes[k] - fixed[k];
    int lasting = fixed[k];
    for (const size_t p : order) {
      rest -= pools[p].min_nodes;
      lasting += pools[p].preemptible ? 0 : pools[p].min_nodes;
    }
    if (rules.floor_on_lasting) {
      const int wanted =
          std::clamp(static_cast<int>(std::ceil(floor[k] - kRounding)) - lasting, 0, std::max(rest, 0));
      rest -= wanted - giver.Give(order, wanted, /*lasting_only=*/true);
    }
    giver.Give(order, rest, /*lasting_only=*/false);
  }
  return split;
}

double CostPerHour(const std::vector<Pool>& pools, const std::vector<int>& nodes) {
  double cost = 0;
  for (size_t p = 0; p < pools.size(); ++p) cost += nodes[p] * PriceOf(pools[p]);
  return cost;
}

std::vector<Supply> SuppliesOf(const std::vector<Pool>& pools, const std::vector<int>& fixed,
                               absl::Time now) {
  std::vector<Supply> supplies(fixed.size());
  for (size_t k = 0; k < fixed.size(); ++k) {
    if (fixed[k] > 0) supplies[k].push_back({0, static_cast<double>(fixed[k])});
    for (const size_t p : OrderOf(pools, static_cast<int>(k))) {
      const int most = MostNodes(pools[p], now);
      if (most > 0)
        supplies[k].push_back({PriceOf(pools[p]), static_cast<double>(most), !pools[p].preemptible});
    }
  }
  return supplies;
}

}  // namespace adaptdl::nodepools
