#include "services/allocator/metrics.h"

#include <string>

#include "absl/time/time.h"

namespace adaptdl::allocator {

Metrics::Metrics(prometheus::Registry* registry)
    : rounds_(prometheus::BuildCounter()
                  .Name("adaptdl_allocator_rounds_total")
                  .Help("Optimisation rounds by outcome")
                  .Register(*registry)),
      seconds_(prometheus::BuildHistogram()
                   .Name("adaptdl_allocator_round_seconds")
                   .Help("Time to decide one round")
                   .Register(*registry)
                   .Add({}, prometheus::Histogram::BucketBoundaries{1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1,
                                                                    0.3, 1, 3, 10})),
      moves_(prometheus::BuildCounter()
                 .Name("adaptdl_allocator_moves_total")
                 .Help("Jobs whose replicas were changed")
                 .Register(*registry)
                 .Add({})),
      connects_(prometheus::BuildCounter()
                    .Name("adaptdl_allocator_watch_connects_total")
                    .Help("Times that the watch of the cluster was established")
                    .Register(*registry)
                    .Add({})),
      connected_(prometheus::BuildGauge()
                     .Name("adaptdl_allocator_watch_connected")
                     .Help("Whether the watch of the cluster stands")
                     .Register(*registry)
                     .Add({})),
      leads_(prometheus::BuildGauge()
                 .Name("adaptdl_allocator_leads")
                 .Help("Whether this allocator holds the lease and decides")
                 .Register(*registry)
                 .Add({})),
      jobs_(prometheus::BuildGauge()
                .Name("adaptdl_allocator_jobs")
                .Help("Jobs by what the last round decided about them")
                .Register(*registry)),
      nodes_(prometheus::BuildGauge()
                 .Name("adaptdl_allocator_nodes")
                 .Help("Nodes: current, desired, idle")
                 .Register(*registry)) {
  for (const char* outcome : {"applied", "unchanged", "conflict", "failed"})
    rounds_.Add({{"outcome", outcome}});
}

void Metrics::Decided(const RoundResult& result, absl::Duration time) {
  seconds_.Observe(absl::ToDoubleSeconds(time));
  for (const auto& [outcome, count] : result.jobs) jobs_.Add({{"outcome", outcome}}).Set(count);
  nodes_.Add({{"kind", "current"}}).Set(result.capacity.current_nodes);
  nodes_.Add({{"kind", "desired"}}).Set(result.capacity.desired_nodes);
  nodes_.Add({{"kind", "idle"}}).Set(static_cast<double>(result.capacity.idle_nodes.size()));
}

void Metrics::Ended(const std::string& outcome, int moves) {
  rounds_.Add({{"outcome", outcome}}).Increment();
  moves_.Increment(moves);
}

void Metrics::Watching(bool connected) {
  if (connected && connected_.Value() == 0) connects_.Increment();
  connected_.Set(connected ? 1 : 0);
}

}  // namespace adaptdl::allocator
