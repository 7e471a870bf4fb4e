#include "libs/jobs/job.h"

#include "absl/strings/string_view.h"

namespace adaptdl::jobs {

absl::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kPending:
      return "PENDING";
    case Phase::kStarting:
      return "STARTING";
    case Phase::kRunning:
      return "RUNNING";
    case Phase::kStopping:
      return "STOPPING";
    case Phase::kSucceeded:
      return "SUCCEEDED";
    case Phase::kFailed:
      return "FAILED";
    case Phase::kCancelled:
      return "CANCELLED";
  }
  return "UNKNOWN";
}

bool IsTerminal(Phase phase) {
  return phase == Phase::kSucceeded || phase == Phase::kFailed || phase == Phase::kCancelled;
}

bool IsLive(const Replica& replica) {
  return replica.state == ReplicaState::kLaunching || replica.state == ReplicaState::kRunning;
}

}  // namespace adaptdl::jobs
