#include "cli/standstill.h"

#include <algorithm>

#include "absl/time/time.h"
#include "cli/format.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::cli {
namespace {

// Replicas of a point are a mean: with less than this, the job mostly waited for nodes.
constexpr double kFewestReplicas = 0.5;

}  // namespace

absl::Duration StandstillOf(const v1::JobStatus& status, const v1::GetJobHistoryResponse& history,
                            absl::Time now) {
  if (!Trains(status.phase()) || !status.has_progress()) return absl::ZeroDuration();
  absl::Time since = now;
  for (auto point = history.points().rbegin(); point != history.points().rend(); ++point) {
    const bool stands = point->optimizer_steps() == status.progress().optimizer_steps() &&
                        point->replicas() >= kFewestReplicas;
    if (!stands) break;
    // The last step may have been taken anywhere in the point.
    since = messages::ToTime(point->end());
  }
  return std::max(now - since, absl::ZeroDuration());
}

}  // namespace adaptdl::cli
