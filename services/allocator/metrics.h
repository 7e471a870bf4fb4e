// What the allocator counts. Thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_METRICS_H_
#define ADAPTDL_SERVICES_ALLOCATOR_METRICS_H_

#include <string>

#include "absl/time/time.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "services/allocator/allocation_round.h"

namespace adaptdl::allocator {

class Metrics {
 public:
  // `registry` is not owned and outlives this.
  explicit Metrics(prometheus::Registry* registry);

  // A round has been decided.
  void Decided(const RoundResult& result, absl::Duration time);
  // And ended: "applied", "unchanged", "conflict", "failed".
  void Ended(const std::string& outcome, int moves);
  void Watching(bool connected);
  // Whether this allocator is the one that decides.
  void Leading(bool leads) { leads_.Set(leads ? 1 : 0); }

 private:
  prometheus::Family<prometheus::Counter>& rounds_;
  prometheus::Histogram& seconds_;
  prometheus::Counter& moves_;
  prometheus::Counter& connects_;
  prometheus::Gauge& connected_;
  prometheus::Gauge& leads_;
  prometheus::Family<prometheus::Gauge>& jobs_;
  prometheus::Family<prometheus::Gauge>& nodes_;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_METRICS_H_
