#include "libs/goodput/speedup_table.h"

#include <algorithm>
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

SpeedupTable SpeedupTable::Build(const GoodputFunction& goodput, const BatchLimits& limits, int max_replicas,
                                 std::optional<double> base_goodput) {
  SpeedupTable table;
  table.one_node_.resize(max_replicas + 1);
  table.several_nodes_.resize(max_replicas + 1);
  double base = base_goodput.value_or(0);
  for (int replicas = 1; replicas <= max_replicas; ++replicas) {
    table.one_node_[replicas] = BestGoodput(goodput, {1, replicas}, limits);
    table.several_nodes_[replicas] =
        replicas > 1 ? BestGoodput(goodput, {2, replicas}, limits) : table.one_node_[1];
    if (base == 0) base = table.one_node_[replicas] / replicas;
  }
  table.base_goodput_ = base;
  if (base == 0) return table;
  for (double& value : table.one_node_) value /= base;
  for (double& value : table.several_nodes_) value /= base;
  return table;
}

SpeedupTable SpeedupTable::Linear(int max_replicas) {
  SpeedupTable table;
  for (int replicas = 1; replicas <= max_replicas; ++replicas) {
    table.one_node_.push_back(replicas);
    table.several_nodes_.push_back(replicas);
  }
  return table;
}

SpeedupTable SpeedupTable::FromRows(std::vector<double> one_node, std::vector<double> several_nodes) {
  SpeedupTable table;
  table.one_node_ = std::move(one_node);
  table.several_nodes_ = std::move(several_nodes);
  return table;
}

double SpeedupTable::At(int nodes, int replicas) const {
  if (replicas <= 0) return 0;
  const std::vector<double>& row = nodes > 1 ? several_nodes_ : one_node_;
  return row[std::min<size_t>(replicas, row.size() - 1)];
}

}  // namespace adaptdl::goodput
