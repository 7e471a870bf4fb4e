#include "services/worker/worker_metrics.h"

#include <string>

namespace adaptdl::worker {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;

// Counters only grow: brings one to `total`.
void RaiseTo(prometheus::Counter& counter, int64_t total) {
  const double difference = static_cast<double>(total) - counter.Value();
  if (difference > 0) counter.Increment(difference);
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
                     .Add({})) {
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

}  // namespace adaptdl::worker
