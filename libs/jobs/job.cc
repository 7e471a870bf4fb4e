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
    case Phase::kRescaling:
      return "RESCALING";
  }
  return "UNKNOWN";
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
