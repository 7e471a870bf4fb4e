// The managers of the supervisor, made on one core and joined. It decides nothing itself.
//
// Step() does what depends on the time: leases, retries, the flush of progress and hints. A thread calls it
// in production (supervisor.h), tests call it themselves.
//
// Thread-safe, but for Step(), which one thread calls.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CLUSTER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CLUSTER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/jobs/node_health.h"
#include "libs/jobs/state_machine.h"
#include "services/supervisor/costs/cost_book.h"
#include "services/supervisor/jobs/file_deletions.h"
#include "services/supervisor/jobs/job_manager.h"
#include "services/supervisor/jobs/orders.h"
#include "services/supervisor/jobs/reconciler.h"
#include "services/supervisor/jobs/replica_launcher.h"
#include "services/supervisor/jobs/retention.h"
#include "services/supervisor/jobs/separator.h"
#include "services/supervisor/logs/log_locations.h"
#include "services/supervisor/nodes/node_manager.h"
#include "services/supervisor/nodes/quarantine.h"
#include "services/supervisor/nodes/replica_observer.h"
#include "services/supervisor/pools/node_pools.h"
#include "services/supervisor/quotas/quota_manager.h"
#include "services/supervisor/replicas/membership.h"
#include "services/supervisor/replicas/progress_keeper.h"
#include "services/supervisor/replicas/replica_sessions.h"
#include "services/supervisor/replicas/report_limiter.h"
#include "services/supervisor/replicas/standstill_watch.h"
#include "services/supervisor/replicas/training_reports.h"
#include "services/supervisor/scheduling/scheduling_manager.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/state/metrics.h"
#include "services/supervisor/traces/job_tracer.h"

namespace adaptdl::supervisor {

struct ClusterOptions {
  // Nodes are lost after three of these without a sign of life.
  absl::Duration heartbeat_period = absl::Seconds(2);
  // Replicas are silent after three of these.
  absl::Duration replica_heartbeat_period = absl::Seconds(2);
  // `silence` follows from the heartbeats' period.
  jobs::Policy policy;
  // How long an allocator's lease lasts without renewal.
  absl::Duration allocator_lease = absl::Seconds(3);
  // How often progress and hints are stored; a crash loses at most this much of them.
  absl::Duration flush_period = absl::Milliseconds(500);
  // How long the answers of calls are kept for their repetition.
  absl::Duration request_lifetime = absl::Hours(24);
  // How long finished jobs are kept, and events of the others.
  absl::Duration retention = absl::Hours(24) * 30;
  // Whether their logs and folders are deleted with them then.
  bool expire_files = false;
  // Replicas of a job that have ended are remembered, so that their logs are found: at least the newest so
  // many. A worker keeps the logs of as many.
  int kept_replicas = 1000;
  // Bounds of namespaces without quotas of their own: most jobs that have not finished, and most submissions
  // in any minute. 0: none.
  int max_jobs_per_namespace = 10'000;
  int max_submissions_per_minute = 0;
  // How long costs are kept hour by hour, and the like.
  CostOptions costs;
  // When nodes are quarantined.
  jobs::QuarantinePolicy quarantine;
};

// None is owned; all outlive the cluster.
struct ClusterParts {
  CoreParts core;
  ReplicaLauncher* launcher = nullptr;
  ReplicaSessions* sessions = nullptr;
  // Lower-case hexadecimal digits of so many random bytes.
  std::function<std::string(int)> random_hex;
  // Where the secrets of groups come from. None: they are random.
  GroupTokenSource token_of = nullptr;
};

class Cluster {
 public:
  // Reads the store.
  static absl::StatusOr<std::unique_ptr<Cluster>> Create(const ClusterOptions& options,
                                                         const ClusterParts& parts);

  const ClusterOptions& options() const { return options_; }
  Core* core() { return &core_; }
  JobManager* jobs() { return &jobs_; }
  const LogLocations* logs() const { return &logs_; }
  NodeManager* nodes() { return &nodes_; }
  Membership* membership() { return &membership_; }
  TrainingReports* reports() { return &reports_; }
  SchedulingManager* scheduling() { return &scheduling_; }
  QuotaManager* quotas() { return &quotas_; }
  const CostBook* costs() const { return &costs_; }
  NodePools* pools() { return &pools_; }
  ProgressKeeper* progress() { return &progress_; }

  // From now on launches tell replicas this URL (Orders::ServeAdaptdl).
  void ServeAdaptdl(const std::string& url) { orders_.ServeAdaptdl(url, membership_.knows_hosts()); }
  // From now on counts there. `metrics` outlives the cluster.
  void SetMetrics(Metrics* metrics);
  // From now on traces are made. Before changes; `tracer` outlives the cluster.
  void SetTracer(JobTracer* tracer) {
    orders_.SetTracer(tracer);
    reports_.SetTracer(tracer);
  }
  // Does what is due by the clock.
  void Step();

 private:
  Cluster(const ClusterOptions& options, const ClusterParts& parts);
  void UpdateGauges();

  const ClusterOptions options_;
  Core core_;
  QuotaManager quotas_;
  CostBook costs_;
  NodePools pools_;
  LogLocations logs_;
  Orders orders_;
  Separator separator_;
  Reconciler reconciler_;
  FileDeletions deletions_;
  Retention retention_;
  JobManager jobs_;
  ReportLimiter limiter_;
  ProgressKeeper progress_;
  TrainingReports reports_;
  StandstillWatch standstills_;
  Membership membership_;
  Quarantine quarantine_;
  ReplicaObserver observer_;
  NodeManager nodes_;
  SchedulingManager scheduling_;
  // Of the store, until they are counted.
  std::vector<DamagedRow> damaged_;
  absl::Time next_gauges_ = absl::InfinitePast();  // Used in Step() only.
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CLUSTER_H_
