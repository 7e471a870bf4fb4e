// The autoscaler's own metrics:
//
//   adaptdl_autoscaler_nodes{pool,state}            nodes of the pool: starting, running, draining
//   adaptdl_autoscaler_target_nodes{pool}           what the pool is being brought to
//   adaptdl_autoscaler_utility{pool}                part of the cluster's nodes that jobs could put to full
//   use;
//                                                   NaN: unknown
//   adaptdl_autoscaler_cost_per_hour{pool}          price of the pool's nodes, if the price of one is known
//   adaptdl_autoscaler_actions_total{pool,action}   carried out: start, drain, remove, restart
//   adaptdl_autoscaler_errors_total{pool,source}    failed: provider, supervisor, allocator
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_METRICS_H_
#define ADAPTDL_SERVICES_AUTOSCALER_METRICS_H_

#include <memory>
#include <string>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "services/autoscaler/pool_controller.h"

namespace adaptdl::autoscaler {

class Metrics {
 public:
  // `node_price_per_hour`: 0 if it is unknown.
  Metrics(std::shared_ptr<prometheus::Registry> registry, const std::string& pool,
          double node_price_per_hour);

  void CountAction(const std::string& action);
  void CountError(const std::string& source);
  void SetNodes(const PoolView& view, const PoolDecision& decision);

 private:
  const std::shared_ptr<prometheus::Registry> registry_;
  const std::string pool_;
  prometheus::Family<prometheus::Gauge>& nodes_;
  prometheus::Gauge& target_;
  prometheus::Gauge& utility_;
  const double node_price_per_hour_;
  prometheus::Gauge* cost_ = nullptr;  // null: the price is unknown
  prometheus::Family<prometheus::Counter>& actions_;
  prometheus::Family<prometheus::Counter>& errors_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_METRICS_H_
