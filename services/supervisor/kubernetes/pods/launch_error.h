// What an error of making a replica's pod means for the replica.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_LAUNCH_ERROR_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_LAUNCH_ERROR_H_

#include <optional>

#include "absl/status/status.h"
#include "adaptdl/v1/job.pb.h"

namespace adaptdl::supervisor {

// Whose fault it is that the pod can't be made. Nothing: it may come to be made; try again.
std::optional<v1::EndCause> CauseOfRefusal(const absl::Status& status);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_LAUNCH_ERROR_H_
