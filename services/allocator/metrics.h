// What the allocator counts. Thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_METRICS_H_
#define ADAPTDL_SERVICES_ALLOCATOR_METRICS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "services/allocator/allocation_round.h"

namespace adaptdl::allocator {

// How evenly the decision serves the jobs: Jain's index of their speed-ups by weight, from 1 / their number (one has
// everything) to 1 (all fare alike). Jobs that no node could hold do not count. 1 without jobs.
double FairnessIndex(const scheduling::ClusterView& view, const scheduling::Decision& decision);

class Metrics {
 public:
  // `registry` is not owned and outlives this.
  explicit Metrics(prometheus::Registry* registry);

  // A round has been decided.
  void Decided(const RoundResult& result, absl::Duration time);
  // And ended: "applied", "unchanged", "conflict", "failed". `moves`: those that were carried out.
  void Ended(const std::string& outcome, const std::vector<Move>& moves);
  void Watching(bool connected);
  // Whether this allocator is the one that decides.
  void Leading(bool leads) { leads_.Set(leads ? 1 : 0); }

 private:
  prometheus::Family<prometheus::Counter>& rounds_;
  prometheus::Histogram& seconds_;
  prometheus::Family<prometheus::Counter>& moves_;
  prometheus::Gauge& speedup_;
  prometheus::Gauge& objective_;
  prometheus::Gauge& bound_;
  prometheus::Gauge& placement_loss_;
  prometheus::Gauge& fairness_;
  prometheus::Counter& connects_;
  prometheus::Gauge& connected_;
  prometheus::Gauge& leads_;
  prometheus::Family<prometheus::Gauge>& jobs_;
  prometheus::Family<prometheus::Gauge>& nodes_;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_METRICS_H_
