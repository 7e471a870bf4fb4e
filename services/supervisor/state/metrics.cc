#include "services/supervisor/state/metrics.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

namespace adaptdl::supervisor {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Histogram;

const Histogram::BucketBoundaries& CommitBuckets() {
  static const auto* buckets =
      new Histogram::BucketBoundaries{0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1};
  return *buckets;
}

const Histogram::BucketBoundaries& RendezvousBuckets() {
  static const auto* buckets = new Histogram::BucketBoundaries{0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 300};
  return *buckets;
}

// From a shrink on one machine to the start of a program that loads much.
const Histogram::BucketBoundaries& RescaleBuckets() {
  static const auto* buckets =
      new Histogram::BucketBoundaries{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60};
  return *buckets;
}

}  // namespace

Metrics::Metrics(std::shared_ptr<prometheus::Registry> registry)
    : registry_(std::move(registry)),
      jobs_(BuildGauge().Name("adaptdl_supervisor_jobs").Help("Jobs by phase").Register(*registry_)),
      nodes_(BuildGauge().Name("adaptdl_supervisor_nodes").Help("Nodes by phase").Register(*registry_)),
      waiting_(BuildGauge()
                   .Name("adaptdl_supervisor_waiting_jobs")
                   .Help("Jobs that wait for replicas, by the reason in their status")
                   .Register(*registry_)),
      leader_(BuildGauge()
                  .Name("adaptdl_supervisor_leader")
                  .Help("1 once this supervisor leads; one that waits for its turn answers nobody")
                  .Register(*registry_)
                  .Add({})),
      term_(BuildGauge()
                .Name("adaptdl_supervisor_leader_term")
                .Help("Term of this supervisor's leadership; grows with each take-over")
                .Register(*registry_)
                .Add({})),
      queues_(
          BuildGauge()
              .Name("adaptdl_supervisor_queue_length")
              .Help(
                  "What waits for its turn: calls that may change something (changes), calls that only read "
                  "(reads), answers and commands that leave when the disk has what they tell of (durability)")
              .Register(*registry_)),
      allocations_(BuildCounter()
                       .Name("adaptdl_supervisor_allocations_total")
                       .Help("Calls of ApplyAllocations by result")
                       .Register(*registry_)),
      restarts_(BuildCounter()
                    .Name("adaptdl_supervisor_restarts_total")
                    .Help("Replica sets that were stopped, by cause")
                    .Register(*registry_)),
      refused_(BuildCounter()
                   .Name("adaptdl_supervisor_refused_calls_total")
                   .Help("Calls that were refused because a quota or another bound was reached, by cause: "
                         "jobs_quota, "
                         "submissions_quota, call_rate, streams, queue")
                   .Register(*registry_)),
      refused_reports_(
          BuildCounter()
              .Name("adaptdl_supervisor_refused_reports_total")
              .Help("Reports of replicas (hints, progress) and of nodes (use) that made no sense, by kind")
              .Register(*registry_)),
      broken_invariants_(BuildCounter()
                             .Name("adaptdl_supervisor_broken_invariants_total")
                             .Help("Events that cannot happen, by the place in the program: mistakes to "
                                   "report, of which the log has the "
                                   "first of each place")
                             .Register(*registry_)),
      damaged_rows_(BuildCounter()
                        .Name("adaptdl_supervisor_damaged_rows_total")
                        .Help("Rows of the store that could not be read as they were when it started, by "
                              "table and whether "
                              "they were mended or set aside; adaptdl admin check lists them")
                        .Register(*registry_)),
      history_failures_(BuildCounter()
                            .Name("adaptdl_supervisor_history_failures_total")
                            .Help("Times that the history of jobs could not be written to disk")
                            .Register(*registry_)
                            .Add({})),
      quarantines_(BuildCounter()
                       .Name("adaptdl_supervisor_quarantines_total")
                       .Help("Times that a node was quarantined")
                       .Register(*registry_)
                       .Add({})),
      heartbeats_(BuildCounter()
                      .Name("adaptdl_supervisor_heartbeats_total")
                      .Help("Heartbeats received, by kind of the sender")
                      .Register(*registry_)),
      node_heartbeats_(heartbeats_.Add({{"kind", "node"}})),
      replica_heartbeats_(heartbeats_.Add({{"kind", "replica"}})),
      failed_commits_(BuildCounter()
                          .Name("adaptdl_supervisor_failed_commits_total")
                          .Help("Changes that could not be stored")
                          .Register(*registry_)
                          .Add({})),
      commits_(BuildHistogram()
                   .Name("adaptdl_supervisor_commit_seconds")
                   .Help("Time to store a change")
                   .Register(*registry_)
                   .Add({}, CommitBuckets())),
      syncs_(BuildHistogram()
                 .Name("adaptdl_supervisor_sync_seconds")
                 .Help("Time of a sync of the disk, which serves all changes that wait for one")
                 .Register(*registry_)
                 .Add({}, CommitBuckets())),
      reconciliations_(BuildHistogram()
                           .Name("adaptdl_supervisor_reconcile_seconds")
                           .Help("Time of a look at all jobs that are due, with what follows from it")
                           .Register(*registry_)
                           .Add({}, CommitBuckets())),
      rendezvous_(
          BuildHistogram()
              .Name("adaptdl_supervisor_rendezvous_seconds")
              .Help("Time from the start of a group's first process until all its members have joined")
              .Register(*registry_)
              .Add({}, RendezvousBuckets())),
      rescales_(BuildHistogram()
                    .Name("adaptdl_supervisor_rescale_phase_seconds")
                    .Help("Time that the parts of changes of a replica set in place took: newcomers start "
                          "and load (ready), "
                          "agree; the pause: rebuild, synchronize, first_step")
                    .Register(*registry_)),
      costs_(BuildCounter()
                 .Name("adaptdl_supervisor_cost_total")
                 .Help("What nodes have cost, by pool and the namespace that used them; empty: nobody did")
                 .Register(*registry_)) {
  SetWaiting({{"Queued", 0}});  // what every job begins with
}

void Metrics::SetWaiting(const std::map<std::string, int>& by_reason) {
  // They are words of the program; the bound holds should one ever say more than that.
  constexpr size_t kMostReasons = 32;
  std::map<std::string, int> counts;
  for (const std::string& reason : waiting_reasons_) counts[reason] = 0;
  for (const auto& [reason, count] : by_reason) {
    const bool known = waiting_reasons_.contains(reason) || waiting_reasons_.size() < kMostReasons;
    const std::string shown = known ? reason : "Other";
    waiting_reasons_.insert(shown);
    counts[shown] += count;
  }
  for (const auto& [reason, count] : counts) waiting_.Add({{"reason", reason}}).Set(count);
}

void Metrics::CountCost(const std::string& pool, const std::string& name_space, double cost) {
  // Anybody who may submit jobs makes up namespaces.
  constexpr size_t kMostLabels = 1000;
  std::pair<std::string, std::string> labels = {pool, name_space};
  if (cost_labels_.size() >= kMostLabels && !cost_labels_.contains(labels)) labels = {"others", "others"};
  cost_labels_.insert(labels);
  costs_.Add({{"pool", labels.first}, {"namespace", labels.second}}).Increment(cost);
}

void Metrics::ObserveRescale(const std::string& phase, absl::Duration duration) {
  rescales_.Add({{"phase", phase}}, RescaleBuckets()).Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::ObserveCommit(absl::Duration duration, bool ok) {
  commits_.Observe(absl::ToDoubleSeconds(duration));
  if (!ok) failed_commits_.Increment();
}

void Metrics::SetAll(prometheus::Family<prometheus::Gauge>* family,
                     const std::map<std::string, int>& by_phase) {
  for (const auto& [phase, count] : by_phase) family->Add({{"phase", phase}}).Set(count);
}

}  // namespace adaptdl::supervisor
