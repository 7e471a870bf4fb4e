// The autoscaler's own metrics:
//
//   adaptdl_autoscaler_nodes{pool,state}            nodes of the pool: starting, running, draining
//   adaptdl_autoscaler_target_nodes{pool}           what the pool is being brought to
//   adaptdl_autoscaler_utility                      part of the cluster's nodes that jobs could put to full use; NaN:
//                                                   unknown
//   adaptdl_autoscaler_cost_per_hour{pool}          price of the pool's nodes, if the price of one is known
//   adaptdl_autoscaler_actions_total{pool,action}   carried out: start, drain, remove, restart
//   adaptdl_autoscaler_errors_total{pool,source}    failed: provider, supervisor, allocator
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_METRICS_H_
#define ADAPTDL_SERVICES_AUTOSCALER_METRICS_H_

#include <memory>
#include <optional>
#include <string>

#include "libs/nodepools/pool.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"

namespace adaptdl::autoscaler {

class Metrics {
 public:
  explicit Metrics(std::shared_ptr<prometheus::Registry> registry);

  // All series of a pool, so that rates see the first event.
  void AddPool(const std::string& pool);
  void CountAction(const std::string& pool, const std::string& action);
  void CountError(const std::string& pool, const std::string& source);
  void SetNodes(const nodepools::Pool& pool, int target_nodes);
  void SetUtility(std::optional<double> utility);

 private:
  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Gauge>& nodes_;
  prometheus::Family<prometheus::Gauge>& target_;
  prometheus::Gauge& utility_;
  prometheus::Family<prometheus::Gauge>& cost_;
  prometheus::Family<prometheus::Counter>& actions_;
  prometheus::Family<prometheus::Counter>& errors_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_METRICS_H_
