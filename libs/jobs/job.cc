#include "libs/jobs/job.h"

#include "absl/strings/string_view.h"

namespace adaptdl::jobs {

absl::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kPending:
      return "Pending";
    case Phase::kStarting:
      return "Starting";
    case Phase::kRunning:
      return "Running";
    case Phase::kStopping:
      return "Stopping";
    case Phase::kSucceeded:
      return "Succeeded";
    case Phase::kFailed:
      return "Failed";
    case Phase::kCancelled:
      return "Cancelled";
    case Phase::kRescaling:
      return "Rescaling";
  }
  return "Unknown";
}

bool IsTerminal(Phase phase) {
  return phase == Phase::kSucceeded || phase == Phase::kFailed || phase == Phase::kCancelled;
}

int RankIn(const Plan& plan, absl::string_view replica_id) {
  for (size_t rank = 0; rank < plan.members.size(); ++rank) {
    if (plan.members[rank].replica_id == replica_id) return static_cast<int>(rank);
  }
  return -1;
}

bool IsLive(const Replica& replica) {
  return replica.state == ReplicaState::kLaunching || replica.state == ReplicaState::kRunning;
}

bool IsForeign(Cause cause) {
  return cause == Cause::kNode || cause == Cause::kStorage || cause == Cause::kPreemption;
}

Cause WhoseFault(Cause told, const Job& job) {
  if (told != Cause::kImage) return told;
  return job.start_time == absl::InfinitePast() ? Cause::kJob : Cause::kNode;
}

}  // namespace adaptdl::jobs
