#include "services/supervisor/kubernetes/pods/launch_error.h"

#include "absl/strings/match.h"

namespace adaptdl::supervisor {

std::optional<v1::EndCause> CauseOfRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kPermissionDenied:
      // A quota of the namespace says so: there was room by all that we know, and there is not. That is
      // tried again after a pause, and not counted against the job.
      if (absl::StrContains(status.message(), "exceeded quota")) return v1::END_CAUSE_NODE;
      return v1::END_CAUSE_JOB;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:       // the namespace
    case absl::StatusCode::kAlreadyExists:  // a pod of somebody else's
    case absl::StatusCode::kUnimplemented:
      return v1::END_CAUSE_JOB;
    case absl::StatusCode::kFailedPrecondition:  // the node has no name that pods can be bound by
      return v1::END_CAUSE_NODE;
    default:
      return std::nullopt;
  }
}

}  // namespace adaptdl::supervisor
