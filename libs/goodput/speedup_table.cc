#include "libs/goodput/speedup_table.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"

namespace adaptdl::goodput {
namespace {

double BestGoodput(const GoodputFunction& goodput, Topology topology, const BatchLimits& limits) {
  const std::optional<BatchChoice> best = OptimizeBatchSize(goodput, topology, limits);
  return best ? best->goodput : 0.0;
}

}  // namespace

// Goodputs by number of replicas, each worked out when it is asked for. Threads that ask at the same time work out the same.
class SpeedupTable::Model {
 public:
  Model(const GoodputFunction& goodput, const BatchLimits& limits, int max_replicas)
      : goodput_(goodput), limits_(limits), known_(2 * (static_cast<size_t>(max_replicas) + 1)) {
    for (std::atomic<double>& value : known_) value.store(kUnknown, std::memory_order_relaxed);
  }

  double GoodputAt(int nodes, int replicas) const {
    const bool spans = nodes > 1 && replicas > 1;
    std::atomic<double>& known = known_[2 * static_cast<size_t>(replicas) + (spans ? 1 : 0)];
    double value = known.load(std::memory_order_relaxed);
    if (value >= 0) return value;
    value = BestGoodput(goodput_, {spans ? 2 : 1, replicas}, limits_);
    known.store(value, std::memory_order_relaxed);
    return value;
  }

 private:
  static constexpr double kUnknown = -1;

  const GoodputFunction goodput_;
  const BatchLimits limits_;
  mutable std::vector<std::atomic<double>> known_;
};

SpeedupTable SpeedupTable::Build(const GoodputFunction& goodput, const BatchLimits& limits, int max_replicas,
                                 std::optional<double> base_goodput) {
  SpeedupTable table;
  table.max_replicas_ = max_replicas;
  table.model_ = std::make_shared<const Model>(goodput, limits, max_replicas);
  table.base_goodput_ = base_goodput.value_or(0);
  for (int replicas = 1; replicas <= max_replicas && table.base_goodput_ == 0; ++replicas)
    table.base_goodput_ = table.model_->GoodputAt(1, replicas) / replicas;
  return table;
}

SpeedupTable SpeedupTable::Linear(int max_replicas) {
  SpeedupTable table;
  table.max_replicas_ = max_replicas;
  for (int replicas = 1; replicas <= max_replicas; ++replicas) {
    table.one_node_.push_back(replicas);
    table.several_nodes_.push_back(replicas);
  }
  return table;
}

SpeedupTable SpeedupTable::FromRows(std::vector<double> one_node, std::vector<double> several_nodes) {
  SpeedupTable table;
  table.max_replicas_ = static_cast<int>(one_node.size()) - 1;
  table.one_node_ = std::move(one_node);
  table.several_nodes_ = std::move(several_nodes);
  return table;
}

double SpeedupTable::At(int nodes, int replicas) const {
  if (replicas <= 0) return 0;
  if (model_ != nullptr) {
    const int known = std::min(replicas, max_replicas_);
    return base_goodput_ > 0 && known > 0 ? model_->GoodputAt(nodes, known) / base_goodput_ : 0;
  }
  const std::vector<double>& row = nodes > 1 ? several_nodes_ : one_node_;
  return row[std::min<size_t>(replicas, row.size() - 1)];
}

}  // namespace adaptdl::goodput
