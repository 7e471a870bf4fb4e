#include "services/autoscaler/metrics.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace adaptdl::autoscaler {

Metrics::Metrics(std::shared_ptr<prometheus::Registry> registry, const std::string& pool,
                 double node_price_per_hour)
    : registry_(std::move(registry)),
      pool_(pool),
      nodes_(prometheus::BuildGauge()
                 .Name("adaptdl_autoscaler_nodes")
                 .Help("Nodes of the pool by state.")
                 .Register(*registry_)),
      target_(prometheus::BuildGauge()
                  .Name("adaptdl_autoscaler_target_nodes")
                  .Help("Nodes that the pool is being brought to.")
                  .Register(*registry_)
                  .Add({{"pool", pool}})),
      utility_(prometheus::BuildGauge()
                   .Name("adaptdl_autoscaler_utility")
                   .Help("Part of the cluster's nodes that jobs could put to full use; NaN: unknown.")
                   .Register(*registry_)
                   .Add({{"pool", pool}})),
      node_price_per_hour_(node_price_per_hour),
      actions_(prometheus::BuildCounter()
                   .Name("adaptdl_autoscaler_actions_total")
                   .Help("Actions carried out, by kind.")
                   .Register(*registry_)),
      errors_(prometheus::BuildCounter()
                  .Name("adaptdl_autoscaler_errors_total")
                  .Help("Failures, by who failed: provider, supervisor or allocator.")
                  .Register(*registry_)) {
  if (node_price_per_hour_ > 0) {
    cost_ = &prometheus::BuildGauge()
                 .Name("adaptdl_autoscaler_cost_per_hour")
                 .Help("Price of the pool's nodes per hour, draining ones included.")
                 .Register(*registry_)
                 .Add({{"pool", pool}});
  }
  // All series from the start, so that rates see the first event.
  for (const char* action : {"start", "drain", "remove", "restart"})
    actions_.Add({{"pool", pool_}, {"action", action}});
  for (const char* source : {"provider", "supervisor", "allocator"})
    errors_.Add({{"pool", pool_}, {"source", source}});
}

void Metrics::CountAction(const std::string& action) {
  actions_.Add({{"pool", pool_}, {"action", action}}).Increment();
}

void Metrics::CountError(const std::string& source) {
  errors_.Add({{"pool", pool_}, {"source", source}}).Increment();
}

void Metrics::SetNodes(const PoolView& view, const PoolDecision& decision) {
  for (const PoolNodePhase phase :
       {PoolNodePhase::kStarting, PoolNodePhase::kRunning, PoolNodePhase::kDraining}) {
    const auto count = std::count_if(view.nodes.begin(), view.nodes.end(),
                                     [phase](const PoolNodeView& node) { return node.phase == phase; });
    nodes_.Add({{"pool", pool_}, {"state", std::string(PoolNodePhaseName(phase))}})
        .Set(static_cast<double>(count));
  }
  target_.Set(decision.target_nodes);
  utility_.Set(decision.utility.value_or(std::numeric_limits<double>::quiet_NaN()));
  if (cost_ != nullptr) cost_->Set(node_price_per_hour_ * static_cast<double>(view.nodes.size()));
}

}  // namespace adaptdl::autoscaler
