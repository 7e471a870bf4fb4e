#include "services/autoscaler/metrics.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace adaptdl::autoscaler {
namespace {

using nodepools::NodePhase;
using nodepools::PoolNode;

}  // namespace

Metrics::Metrics(std::shared_ptr<prometheus::Registry> registry)
    : registry_(std::move(registry)),
      nodes_(prometheus::BuildGauge()
                 .Name("adaptdl_autoscaler_nodes")
                 .Help("Nodes of the pool by state.")
                 .Register(*registry_)),
      target_(prometheus::BuildGauge()
                  .Name("adaptdl_autoscaler_target_nodes")
                  .Help("Nodes that the pool is being brought to.")
                  .Register(*registry_)),
      utility_(prometheus::BuildGauge()
                   .Name("adaptdl_autoscaler_utility")
                   .Help("Part of the cluster's nodes that jobs could put to full use; NaN: unknown.")
                   .Register(*registry_)
                   .Add({})),
      cost_(prometheus::BuildGauge()
                .Name("adaptdl_autoscaler_cost_per_hour")
                .Help("Price of the pool's nodes per hour, draining ones included.")
                .Register(*registry_)),
      actions_(prometheus::BuildCounter()
                   .Name("adaptdl_autoscaler_actions_total")
                   .Help("Actions carried out, by kind.")
                   .Register(*registry_)),
      errors_(prometheus::BuildCounter()
                  .Name("adaptdl_autoscaler_errors_total")
                  .Help("Failures, by who failed: provider, supervisor or allocator.")
                  .Register(*registry_)) {
  utility_.Set(std::numeric_limits<double>::quiet_NaN());
}

void Metrics::AddPool(const std::string& pool) {
  for (const char* action : {"start", "drain", "remove", "restart"})
    actions_.Add({{"pool", pool}, {"action", action}});
  for (const char* source : {"provider", "supervisor", "allocator"})
    errors_.Add({{"pool", pool}, {"source", source}});
}

void Metrics::CountAction(const std::string& pool, const std::string& action) {
  actions_.Add({{"pool", pool}, {"action", action}}).Increment();
}

void Metrics::CountError(const std::string& pool, const std::string& source) {
  errors_.Add({{"pool", pool}, {"source", source}}).Increment();
}

void Metrics::SetNodes(const nodepools::Pool& pool, int target_nodes) {
  for (const NodePhase phase : {NodePhase::kStarting, NodePhase::kRunning, NodePhase::kDraining}) {
    const auto count = std::count_if(pool.nodes.begin(), pool.nodes.end(),
                                     [phase](const PoolNode& node) { return node.phase == phase; });
    nodes_.Add({{"pool", pool.name}, {"state", std::string(nodepools::NodePhaseName(phase))}})
        .Set(static_cast<double>(count));
  }
  target_.Add({{"pool", pool.name}}).Set(target_nodes);
  if (pool.price_per_hour < 0) return;
  cost_.Add({{"pool", pool.name}}).Set(pool.price_per_hour * static_cast<double>(pool.nodes.size()));
}

void Metrics::SetUtility(std::optional<double> utility) {
  utility_.Set(utility.value_or(std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace adaptdl::autoscaler
