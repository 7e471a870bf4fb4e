// The conditions of an AdaptDLJob, for `kubectl wait` and for whoever queues jobs: each of Running, Suspended, Succeeded
// and Failed is there always, and "True" or "False".
//
//   Running     all replicas of a group run; also while others join or leave them
//   Suspended   its user holds the job, and no replica is left
//   Succeeded   for good
//   Failed      for good; a job that was cancelled has failed, for the reason "Cancelled"
//
// CheckpointStorage is there once something was found out about it: "False" where checkpoints have no place.
//
// Pure; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_CONDITIONS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_CONDITIONS_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "libs/kube/json/json.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

// `before`: those of the status that stands, whatever it may be. A condition that stays keeps lastTransitionTime; one that
// changes has changed at `now` (wall). The reason is that of the
// job's phase.
// `no_storage`: why the job's checkpoints have no place, and empty if they have one; nothing: what stood there stays.
kube::Json ConditionsOf(const JobRecord& record, const kube::Json& before, absl::Time now,
                        const std::optional<std::string>& no_storage = std::nullopt);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_CONDITIONS_H_
