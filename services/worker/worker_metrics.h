// What the worker shows under /metrics, beyond what every server shows. Not thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_WORKER_METRICS_H_
#define ADAPTDL_SERVICES_WORKER_WORKER_METRICS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "services/worker/machine_use.h"
#include "services/worker/replica_manager.h"

namespace adaptdl::worker {

class WorkerMetrics {
 public:
  // `registry` must outlive it.
  explicit WorkerMetrics(prometheus::Registry* registry);

  void Update(const ReplicaStats& stats, bool connected);
  // Absent: nothing is known of it.
  void UpdateMachine(const std::optional<MachineFigures>& figures);
  void SetLogBytes(int64_t bytes) { log_bytes_.Set(static_cast<double>(bytes)); }

 private:
  prometheus::Family<prometheus::Gauge>& replicas_;
  prometheus::Counter& launches_;
  prometheus::Family<prometheus::Counter>& exits_;
  prometheus::Family<prometheus::Gauge>& gpus_;
  prometheus::Gauge& log_bytes_;
  prometheus::Counter& dropped_log_bytes_;
  prometheus::Gauge& connected_;
  prometheus::Family<prometheus::Gauge>& cpus_;
  prometheus::Family<prometheus::Gauge>& busy_cpus_;
  prometheus::Family<prometheus::Gauge>& memory_;
  prometheus::Family<prometheus::Gauge>& used_memory_;
  prometheus::Family<prometheus::Gauge>& gpu_utilization_;
  prometheus::Family<prometheus::Gauge>& gpu_memory_;
  prometheus::Family<prometheus::Gauge>& gpu_used_memory_;
  prometheus::Family<prometheus::Gauge>& gpu_temperature_;
  prometheus::Family<prometheus::Gauge>& gpu_power_;
  // Those of the machine that are shown now.
  std::map<std::pair<prometheus::Family<prometheus::Gauge>*, prometheus::Labels>, prometheus::Gauge*> shown_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_WORKER_METRICS_H_
