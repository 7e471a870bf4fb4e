#include "services/worker/worker_metrics.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace adaptdl::worker {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;

// Counters only grow: brings one to `total`.
void RaiseTo(prometheus::Counter& counter, int64_t total) {
  const double difference = static_cast<double>(total) - counter.Value();
  if (difference > 0) counter.Increment(difference);
}

prometheus::Family<prometheus::Gauge>& Gauges(prometheus::Registry* registry, const char* name,
                                              const char* help) {
  return BuildGauge().Name(name).Help(help).Register(*registry);
}

}  // namespace

WorkerMetrics::WorkerMetrics(prometheus::Registry* registry)
    : replicas_(BuildGauge()
                    .Name("adaptdl_worker_replicas")
                    .Help("Replicas that this node knows, by state (ended ones until their logs are removed)")
                    .Register(*registry)),
      launches_(BuildCounter()
                    .Name("adaptdl_worker_launches_total")
                    .Help("Replicas launched since the worker's start")
                    .Register(*registry)
                    .Add({})),
      exits_(BuildCounter()
                 .Name("adaptdl_worker_exits_total")
                 .Help("Replicas that ended since the worker's start, by kind")
                 .Register(*registry)),
      gpus_(BuildGauge()
                .Name("adaptdl_worker_gpus")
                .Help("GPUs that this node offers, and those that are not fit for replicas")
                .Register(*registry)),
      log_bytes_(BuildGauge()
                     .Name("adaptdl_worker_log_bytes")
                     .Help("Size of all replica logs on this node")
                     .Register(*registry)
                     .Add({})),
      dropped_log_bytes_(
          BuildCounter()
              .Name("adaptdl_worker_dropped_log_bytes_total")
              .Help("Output of replicas that ended which could not be written, a full disk for example")
              .Register(*registry)
              .Add({})),
      connected_(BuildGauge()
                     .Name("adaptdl_worker_supervisor_connected")
                     .Help("Whether the worker has a stream to the supervisor (1) or not (0)")
                     .Register(*registry)
                     .Add({})),
      cpus_(Gauges(registry, "adaptdl_node_cpus", "Processors of the machine")),
      busy_cpus_(Gauges(registry, "adaptdl_node_busy_cpus",
                        "Processors of the machine that are busy, on average since the second before")),
      memory_(Gauges(registry, "adaptdl_node_memory_bytes", "Memory of the machine")),
      used_memory_(Gauges(registry, "adaptdl_node_used_memory_bytes",
                          "Memory of the machine that is in use and can't be taken back at once")),
      gpu_utilization_(Gauges(registry, "adaptdl_gpu_utilization_ratio",
                              "Part of the time that the GPU computes, from 0 to 1")),
      gpu_memory_(Gauges(registry, "adaptdl_gpu_memory_bytes", "Memory of the GPU")),
      gpu_used_memory_(Gauges(registry, "adaptdl_gpu_used_memory_bytes", "Memory of the GPU that is in use")),
      gpu_temperature_(Gauges(registry, "adaptdl_gpu_temperature_celsius", "Temperature of the GPU")),
      gpu_power_(Gauges(registry, "adaptdl_gpu_power_watts", "Power that the GPU draws")) {
  for (const char* kind : {"succeeded", "stopped", "peer_lost", "failed", "killed", "lost"}) {
    exits_.Add({{"kind", kind}});
  }
}

void WorkerMetrics::Update(const ReplicaStats& stats, bool connected) {
  const std::pair<v1::ReplicaState, const char*> states[] = {{v1::REPLICA_STATE_LAUNCHING, "launching"},
                                                             {v1::REPLICA_STATE_RUNNING, "running"},
                                                             {v1::REPLICA_STATE_EXITED, "exited"},
                                                             {v1::REPLICA_STATE_LOST, "lost"}};
  for (const auto& [state, name] : states) {
    const auto count = stats.by_state.find(state);
    replicas_.Add({{"state", name}}).Set(count == stats.by_state.end() ? 0 : count->second);
  }
  gpus_.Add({{"state", "offered"}}).Set(stats.gpus_offered);
  gpus_.Add({{"state", "unfit"}}).Set(stats.gpus_unfit);
  RaiseTo(launches_, stats.launches);
  for (const auto& [kind, count] : stats.exits) RaiseTo(exits_.Add({{"kind", kind}}), count);
  RaiseTo(dropped_log_bytes_, stats.dropped_log_bytes);
  connected_.Set(connected ? 1 : 0);
}

// What is not known any more is not shown: a GPU that does not answer does not keep its last temperature for ever.
void WorkerMetrics::UpdateMachine(const std::optional<MachineFigures>& figures) {
  const auto before = std::exchange(shown_, {});
  const auto show = [&](prometheus::Family<prometheus::Gauge>* family, const prometheus::Labels& labels,
                        std::optional<double> value) {
    if (!value.has_value()) return;
    prometheus::Gauge& gauge = family->Add(labels);
    gauge.Set(*value);
    shown_[{family, labels}] = &gauge;
  };
  if (figures.has_value()) {
    show(&cpus_, {}, figures->processors);
    show(&busy_cpus_, {}, figures->busy_processors);
    show(&memory_, {}, static_cast<double>(figures->memory.total_bytes));
    show(&used_memory_, {}, static_cast<double>(figures->memory.used_bytes));
    for (const GpuOnMachine& gpu : figures->gpus) {
      const prometheus::Labels labels = {{"gpu", gpu.uuid}, {"index", absl::StrCat(gpu.index)}};
      show(&gpu_utilization_, labels, gpu.figures.utilization);
      if (gpu.figures.memory_total_bytes > 0) {
        show(&gpu_memory_, labels, static_cast<double>(gpu.figures.memory_total_bytes));
        show(&gpu_used_memory_, labels, static_cast<double>(gpu.figures.memory_bytes));
      }
      show(&gpu_temperature_, labels, gpu.figures.temperature_celsius);
      show(&gpu_power_, labels, gpu.figures.power_watts);
    }
  }
  for (const auto& [key, gauge] : before) {
    if (!shown_.contains(key)) key.first->Remove(gauge);
  }
}

}  // namespace adaptdl::worker
