// What training processes report of themselves, beside their membership: broken groups, times of re-scales,
// checkpoints, hints. Thread-safe; all errors are those that replicas see. ABORTED: their group is over.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_TRAINING_REPORTS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_TRAINING_REPORTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "services/supervisor/jobs/reconciler.h"
#include "services/supervisor/replicas/progress_keeper.h"
#include "services/supervisor/replicas/replica_context.h"
#include "services/supervisor/replicas/report_limiter.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/traces/job_tracer.h"

namespace adaptdl::supervisor {

class TrainingReports {
 public:
  // All outlive it.
  TrainingReports(Core* core, Reconciler* reconciler, ReportLimiter* limiter, ProgressKeeper* progress)
      : core_(core), reconciler_(reconciler), limiter_(limiter), progress_(progress) {}

  // Gets what re-scales have taken from now on. Before reports; outlives this, and may be null.
  void SetTracer(JobTracer* tracer) { tracer_ = tracer; }

  // The collectives of `group` do not work any more, as the replica says.
  absl::Status ObserveBroken(const ReplicaContext& replica, int64_t group, const std::string& reason);
  // What a change of the replica set has cost.
  absl::Status ObserveRescale(const ReplicaContext& replica, const v1::RescaleTimes& times);
  absl::Status ObserveCheckpoint(const ReplicaContext& replica, const v1::CheckpointResult& result);
  // The replica's group has taken its first step, or a later one: a re-scale ends with the first.
  absl::Status ObserveTraining(const ReplicaContext& replica);
  absl::Status ReportHints(const ReplicaContext& replica, const v1::Hints& hints);
  // A replica's report ("hints", "progress") was refused for what it says: counts it, and tells the job's
  // user once.
  void NoteRefused(const ReplicaContext& replica, const std::string& kind, const absl::Status& why);

 private:
  Core* const core_;
  Reconciler* const reconciler_;
  ReportLimiter* const limiter_;
  ProgressKeeper* const progress_;
  JobTracer* tracer_ = nullptr;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_TRAINING_REPORTS_H_
