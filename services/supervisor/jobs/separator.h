// Keeps pairs of nodes apart whose replicas did not reach each other, for a while and longer each time
// (state/separations.h). Thread-safe; transactions are used by one thread.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_SEPARATOR_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_SEPARATOR_H_

#include "libs/jobs/node_health.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/state/separations.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

class Separator {
 public:
  // `policy`: a separation lasts as long as a quarantine.
  Separator(Core* core, const jobs::QuarantinePolicy& policy) : core_(core), policy_(policy) {}

  // No job is to have replicas on both nodes for a while.
  void KeepApart(Transaction* transaction, NodePair nodes) const;
  // Has pairs tried again whose time is over.
  void Step();

 private:
  Core* const core_;
  const jobs::QuarantinePolicy policy_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_SEPARATOR_H_
