// Takes over what nodes say of replicas: that they run, how they ended, or that they are gone. Thread-safe;
// transactions are used by one thread.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_NODES_REPLICA_OBSERVER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_NODES_REPLICA_OBSERVER_H_

#include <string>

#include "adaptdl/v1/node_service.pb.h"
#include "libs/jobs/job.h"
#include "services/supervisor/jobs/reconciler.h"
#include "services/supervisor/nodes/quarantine.h"
#include "services/supervisor/replicas/progress_keeper.h"
#include "services/supervisor/replicas/report_limiter.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

class ReplicaObserver {
 public:
  // All outlive it.
  ReplicaObserver(Reconciler* reconciler, const Quarantine* quarantine, ProgressKeeper* progress,
                  ReportLimiter* limiter)
      : reconciler_(reconciler), quarantine_(quarantine), progress_(progress), limiter_(limiter) {}

  // Takes over what a node says of one of its replicas; stops it there if it should not be.
  void ObserveReport(Transaction* transaction, const std::string& node_id, const v1::ReplicaReport& report);
  // `index`: in JobEntry::replicas.
  static void Lose(Transaction* transaction, const std::string& uid, int index, jobs::LossCause cause,
                   const std::string& message);

 private:
  void ObserveRunning(Transaction* transaction, const std::string& uid, int index, const v1::Replica& seen);
  // What the node says of a replica that runs: why its checkpoints are not where other nodes find them. Empty: they are.
  void ObserveComplaint(Transaction* transaction, const std::string& uid, int index,
                        const std::string& message);
  // Lost or exited.
  void ObserveEnd(Transaction* transaction, const std::string& uid, int index, const v1::Replica& seen);

  Reconciler* const reconciler_;
  const Quarantine* const quarantine_;
  ProgressKeeper* const progress_;
  ReportLimiter* const limiter_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_NODES_REPLICA_OBSERVER_H_
