// The start: what the store holds becomes the state. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_LOAD_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_LOAD_H_

#include <vector>

#include "absl/status/statusor.h"
#include "libs/base/clock.h"
#include "libs/jobs/node_health.h"
#include "libs/jobs/state_machine.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/state/invariants.h"
#include "services/supervisor/state/tables.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

struct LoadOptions {
  jobs::Policy policy;
  jobs::QuarantinePolicy quarantine;
};

struct LoadedState {
  Tables tables;
  JobNames unreadable_jobs;
  CostContents costs;
  // Rows that could not be read as they were. They are logged, and what concerns a job stands among its
  // events.
  std::vector<DamagedRow> damaged;
};

// All nodes get a fresh lease: their workers need not have noticed that the supervisor was away.
absl::StatusOr<LoadedState> LoadState(JobStore* store, const LoadOptions& options, const Moment& now,
                                      Invariants* invariants);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_LOAD_H_
