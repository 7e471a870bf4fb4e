#include "libs/jobs/node_health.h"

#include <algorithm>
#include <string>
#include <vector>

#include "libs/jobs/group_end.h"

namespace adaptdl::jobs {

Sign SignOf(const Replica& replica) {
  // Of members that end in the wake of another one, and of those that were told to stop, nobody knows.
  if (replica.end_handled || replica.stop_requested || replica.node_leaving) return Sign::kNone;
  switch (replica.cause) {
    case Cause::kNode:
      return Sign::kBad;
    case Cause::kStorage:  // All nodes share it.
    case Cause::kPreemption:
      return Sign::kNone;
    case Cause::kUnknown:
    case Cause::kJob:
    case Cause::kImage:
      break;
  }
  switch (FateOf(replica)) {
    case Fate::kDone:
      return Sign::kGood;
    case Fate::kFailed:
      return Sign::kBad;
    case Fate::kLost:
      // A silent node is dealt with otherwise. On one that is there, replicas do not vanish.
      return replica.loss == LossCause::kVanished ? Sign::kBad : Sign::kNone;
    case Fate::kLive:
    case Fate::kStopped:
    case Fate::kPeerLost:
    case Fate::kStoppedUnasked:
      return Sign::kNone;
  }
  return Sign::kNone;
}

std::vector<std::string> NodeHealth::FailedJobs(absl::Time now, const QuarantinePolicy& policy) {
  std::vector<std::string> jobs;
  for (auto it = failed_.begin(); it != failed_.end();) {
    if (it->second + policy.window < now) {
      it = failed_.erase(it);
    } else {
      jobs.push_back((it++)->first);
    }
  }
  return jobs;
}

bool NodeHealth::HasFailed(const std::string& job_uid, absl::Time now, const QuarantinePolicy& policy) const {
  const auto it = failed_.find(job_uid);
  return it != failed_.end() && it->second + policy.window >= now;
}

absl::Duration NodeHealth::Quarantine(const QuarantinePolicy& policy) {
  failed_.clear();
  absl::Duration length = policy.first;
  for (int i = 0; i < quarantines_ && length < policy.longest; ++i) length *= 2;
  ++quarantines_;
  return std::min(length, policy.longest);
}

}  // namespace adaptdl::jobs
