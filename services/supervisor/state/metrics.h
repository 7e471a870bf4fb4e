// The supervisor's own metrics, as Prometheus sees them. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_METRICS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace adaptdl::supervisor {

class Metrics {
 public:
  explicit Metrics(std::shared_ptr<prometheus::Registry> registry);

  // Numbers by phase; phases that are left out are 0.
  void SetJobs(const std::map<std::string, int>& by_phase) { SetAll(&jobs_, by_phase); }
  void SetNodes(const std::map<std::string, int>& by_phase) { SetAll(&nodes_, by_phase); }

  // Jobs that wait, by the reason that their status says; of those that have none any more nothing is left.
  void SetWaiting(const std::map<std::string, int>& by_reason);

  // It leads, in that term.
  void SetLeaderTerm(int64_t term) {
    leader_.Set(1);
    term_.Set(static_cast<double>(term));
  }

  // What waits for its turn: "changes", "reads", "durability".
  void SetQueue(const std::string& queue, size_t length) {
    queues_.Add({{"queue", queue}}).Set(static_cast<double>(length));
  }

  // `result`: "applied", "conflict" or "refused".
  void CountAllocation(const std::string& result) { allocations_.Add({{"result", result}}).Increment(); }
  // `cause`: the reason of the job's stop.
  void CountRestart(const std::string& cause) { restarts_.Add({{"cause", cause}}).Increment(); }
  // `cause`: what was exceeded.
  void CountRefused(const std::string& cause) { refused_.Add({{"cause", cause}}).Increment(); }
  // `kind`: of the replica's or the node's report.
  void CountRefusedReport(const std::string& kind) { refused_reports_.Add({{"kind", kind}}).Increment(); }
  // `where`: of Invariants.
  void CountBrokenInvariant(const std::string& where) {
    broken_invariants_.Add({{"where", where}}).Increment();
  }
  // Of the store, as it was found at the start.
  void CountDamagedRow(const std::string& table, bool mended) {
    damaged_rows_.Add({{"table", table}, {"outcome", mended ? "mended" : "set_aside"}}).Increment();
  }
  // What nodes of a pool cost: the share of a namespace; empty: of nobody.
  void CountCost(const std::string& pool, const std::string& name_space, double cost);
  void CountHistoryFailure() { history_failures_.Increment(); }
  void CountQuarantine() { quarantines_.Increment(); }
  void CountNodeHeartbeat() { node_heartbeats_.Increment(); }
  void CountReplicaHeartbeat() { replica_heartbeats_.Increment(); }
  void ObserveCommit(absl::Duration duration, bool ok);
  void ObserveSync(absl::Duration duration) { syncs_.Observe(absl::ToDoubleSeconds(duration)); }
  // One look at all jobs.
  void ObserveReconciliation(absl::Duration duration) {
    reconciliations_.Observe(absl::ToDoubleSeconds(duration));
  }
  // `phase`: "ready", or a field of v1::RescaleTimes.
  void ObserveRescale(const std::string& phase, absl::Duration duration);
  void ObserveRendezvous(absl::Duration duration) { rendezvous_.Observe(absl::ToDoubleSeconds(duration)); }

 private:
  static void SetAll(prometheus::Family<prometheus::Gauge>* family,
                     const std::map<std::string, int>& by_phase);

  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Gauge>& jobs_;
  prometheus::Family<prometheus::Gauge>& nodes_;
  prometheus::Family<prometheus::Gauge>& waiting_;
  prometheus::Gauge& leader_;
  prometheus::Gauge& term_;
  prometheus::Family<prometheus::Gauge>& queues_;
  prometheus::Family<prometheus::Counter>& allocations_;
  prometheus::Family<prometheus::Counter>& restarts_;
  prometheus::Family<prometheus::Counter>& refused_;
  prometheus::Family<prometheus::Counter>& refused_reports_;
  prometheus::Family<prometheus::Counter>& broken_invariants_;
  prometheus::Family<prometheus::Counter>& damaged_rows_;
  prometheus::Counter& history_failures_;
  prometheus::Counter& quarantines_;
  prometheus::Family<prometheus::Counter>& heartbeats_;
  prometheus::Counter& node_heartbeats_;
  prometheus::Counter& replica_heartbeats_;
  prometheus::Counter& failed_commits_;
  prometheus::Histogram& commits_;
  prometheus::Histogram& syncs_;
  prometheus::Histogram& reconciliations_;
  prometheus::Histogram& rendezvous_;
  prometheus::Family<prometheus::Histogram>& rescales_;
  prometheus::Family<prometheus::Counter>& costs_;
  // Reasons that have a gauge. Used by whoever sets them, one at a time.
  std::set<std::string> waiting_reasons_;
  // Pools and namespaces that have a counter of their own.
  std::set<std::pair<std::string, std::string>> cost_labels_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_METRICS_H_
