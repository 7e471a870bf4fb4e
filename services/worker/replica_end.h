// How replicas end: what is recorded of an end, and what the supervisor is told. Of what kind it was: shim/records.h.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_REPLICA_END_H_
#define ADAPTDL_SERVICES_WORKER_REPLICA_END_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "services/worker/shim/records.h"

namespace adaptdl::worker {

// Whether the replica is said to have ended.
bool HasEnded(const v1::Replica& replica);

// Of a replica that never had a process, for this reason: EXITED if that is the job's fault, else LOST.
ExitRecord NotStarted(const absl::Status& reason, Cause cause, absl::Time now);

// Of a replica that was told to stop before it had a process.
ExitRecord CalledOff(const std::string& reason, absl::Time now);

// Says of the replica that it has ended so.
void SetEnded(const ExitRecord& record, v1::Replica* replica);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_REPLICA_END_H_
