#include "cli/run/outcome.h"

#include <string.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adaptdl::cli {
namespace {

// The exit codes of the training library (docs/training-library.md).
constexpr int kStopped = 143;
constexpr int kPeerLost = 75;

}  // namespace

GroupOutcome Judge(const std::vector<ReplicaEnd>& ends, int stop_signal) {
  const ReplicaEnd* culprit = nullptr;
  const ReplicaEnd* peer_lost = nullptr;
  bool stopped = stop_signal != 0;
  for (const ReplicaEnd& end : ends) {
    const bool by_request = end.code == kStopped || (stop_signal != 0 && end.signal == stop_signal);
    if (end.code == 0) continue;
    if (by_request) {
      stopped = true;
    } else if (end.code == kPeerLost) {
      if (peer_lost == nullptr) peer_lost = &end;
    } else if (culprit == nullptr) {
      culprit = &end;
    }
  }
  // A group that is stopped while it forms may miss members that were stopped before.
  if (culprit == nullptr && stop_signal == 0) culprit = peer_lost;
  if (culprit != nullptr) {
    return {.result = GroupResult::kFailed, .code = culprit->code, .culprit = *culprit};
  }
  bool all_succeeded = true;
  for (const ReplicaEnd& end : ends) all_succeeded = all_succeeded && end.code == 0;
  if (stopped && !all_succeeded) return {.result = GroupResult::kStopped, .code = kStopped, .culprit = {}};
  return {};
}

std::string EndText(const ReplicaEnd& end) {
  if (end.signal == 0) return absl::StrCat("exited with ", end.code);
  const char* description = sigdescr_np(end.signal);
  return absl::StrCat("was killed by signal ", end.signal, " (",
                      description == nullptr ? "unknown" : description, ")");
}

}  // namespace adaptdl::cli
