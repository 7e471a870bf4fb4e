// What the process itself uses, under the names that Prometheus' client libraries share
// (process_cpu_seconds_total, process_resident_memory_bytes, process_open_fds, ...), read from /proc at every
// scrape.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_SERVICE_PROCESS_METRICS_H_
#define ADAPTDL_LIBS_SERVICE_PROCESS_METRICS_H_

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace adaptdl::service {

class ProcessMetrics final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_PROCESS_METRICS_H_
