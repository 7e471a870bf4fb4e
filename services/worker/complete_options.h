// What the worker's flags leave open: its name, where others reach it, and its folders. A plain function; thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_COMPLETE_OPTIONS_H_
#define ADAPTDL_SERVICES_WORKER_COMPLETE_OPTIONS_H_

#include "absl/status/status.h"
#include "services/worker/notices/instance_identity.h"
#include "services/worker/worker.h"

namespace adaptdl::worker {

// Fills it in, and makes the folders. `identity`: what the cloud says of the machine, if it does. INVALID_ARGUMENT: a flag
// can't be meant.
absl::Status CompleteOptions(const InstanceIdentity& identity, WorkerOptions* options);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_COMPLETE_OPTIONS_H_
