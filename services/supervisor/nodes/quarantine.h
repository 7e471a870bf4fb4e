// Takes nodes out of use for a while on which replicas of several jobs fail and none succeeds
// (libs/jobs/node_health.h). Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_NODES_QUARANTINE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_NODES_QUARANTINE_H_

#include <string>

#include "libs/jobs/node_health.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

class Quarantine {
 public:
  // `core` outlives it.
  Quarantine(Core* core, const jobs::QuarantinePolicy& policy) : core_(core), policy_(policy) {}

  // Takes the end of a replica of the job for a sign of its node's health.
  void ObserveEnd(Transaction* transaction, const std::string& uid, const ReplicaRecord& replica) const;
  // Has nodes tried again whose quarantine is over.
  void Step();

 private:
  Core* const core_;
  const jobs::QuarantinePolicy policy_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_NODES_QUARANTINE_H_
