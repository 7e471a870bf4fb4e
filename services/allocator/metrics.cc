#include "services/allocator/metrics.h"

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace adaptdl::allocator {
namespace {

const char* KindOf(const Move& move) {
  if (move.replicas_before == 0) return "start";
  if (move.replicas_after == 0) return "stop";
  if (move.replicas_after > move.replicas_before) return "grow";
  return move.replicas_after < move.replicas_before ? "shrink" : "move";
}

}  // namespace

double FairnessIndex(const scheduling::ClusterView& view, const scheduling::Decision& decision) {
  double sum = 0;
  double squares = 0;
  int jobs = 0;
  for (size_t i = 0; i < view.jobs.size() && i < decision.jobs.size(); ++i) {
    if (decision.jobs[i].unschedulable) continue;
    const double share = decision.jobs[i].speedup / view.jobs[i].weight;
    sum += share;
    squares += share * share;
    ++jobs;
  }
  return squares > 0 ? sum * sum / (jobs * squares) : 1;
}

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
                 .Help("Jobs whose replicas were changed: that began (start), got more (grow), fewer "
                       "(shrink) or none "
                       "(stop), or as many elsewhere (move)")
                 .Register(*registry)),
      speedup_(prometheus::BuildGauge()
                   .Name("adaptdl_allocator_speedup")
                   .Help("Sum of the jobs' speed-ups over one replica each, under the last decision")
                   .Register(*registry)
                   .Add({})),
      objective_(prometheus::BuildGauge()
                     .Name("adaptdl_allocator_objective")
                     .Help("What the last decision is worth by the policy's own measure, of the jobs that it "
                           "has a choice for; 0: of none")
                     .Register(*registry)
                     .Add({})),
      bound_(prometheus::BuildGauge()
                 .Name("adaptdl_allocator_objective_bound")
                 .Help("What no decision could have been worth more than")
                 .Register(*registry)
                 .Add({})),
      placement_loss_(prometheus::BuildGauge()
                          .Name("adaptdl_allocator_placement_loss")
                          .Help("What the last decision lost when it was placed on nodes")
                          .Register(*registry)
                          .Add({})),
      fairness_(
          prometheus::BuildGauge()
              .Name("adaptdl_allocator_fairness_index")
              .Help(
                  "How evenly the last decision serves the jobs: Jain's index of their speed-ups by weight, "
                  "from 1 / their number to 1")
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
  for (const char* kind : {"start", "grow", "shrink", "stop", "move"}) moves_.Add({{"kind", kind}});
}

void Metrics::Decided(const RoundResult& result, absl::Duration time) {
  seconds_.Observe(absl::ToDoubleSeconds(time));
  for (const auto& [outcome, count] : result.jobs) jobs_.Add({{"outcome", outcome}}).Set(count);
  const scheduling::DecisionQuality& quality = result.basis.decision.quality;
  speedup_.Set(result.basis.decision.value);
  objective_.Set(quality.objective);
  bound_.Set(quality.bound);
  placement_loss_.Set(quality.placement_loss);
  fairness_.Set(FairnessIndex(result.basis.view, result.basis.decision));
  nodes_.Add({{"kind", "current"}}).Set(result.capacity.current_nodes);
  nodes_.Add({{"kind", "desired"}}).Set(result.capacity.desired_nodes);
  nodes_.Add({{"kind", "idle"}}).Set(static_cast<double>(result.capacity.idle_nodes.size()));
}

void Metrics::Ended(const std::string& outcome, const std::vector<Move>& moves) {
  rounds_.Add({{"outcome", outcome}}).Increment();
  for (const Move& move : moves) moves_.Add({{"kind", KindOf(move)}}).Increment();
}

void Metrics::Watching(bool connected) {
  if (connected && connected_.Value() == 0) connects_.Increment();
  connected_.Set(connected ? 1 : 0);
}

}  // namespace adaptdl::allocator
