#include "libs/jobs/group_end.h"

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adaptdl::jobs {
namespace {

// Whether this is how a process ends that was told to stop: by itself, by SIGTERM, by SIGKILL after the grace
// period, or because a peer that was told the same was faster.
bool LooksStopped(const Replica& replica) {
  if (replica.signal != 0) return replica.signal == SIGTERM || replica.signal == SIGKILL;
  return replica.exit_code == kExitStopped || replica.exit_code == kExitPeerLost;
}

// "signal 6 (Aborted)".
std::string SignalText(int signal) {
  const char* const name = sigdescr_np(signal);
  return absl::StrCat("signal ", signal, name == nullptr ? "" : absl::StrCat(" (", name, ")"));
}

void Blame(const Replica& replica, GroupEnd* end) {
  end->replica_id = replica.id;
  end->node = replica.node;
  end->message = absl::StrCat("replica ", replica.rank, " on node ", replica.node, " ", DescribeEnd(replica));
}

}  // namespace

Fate FateOf(const Replica& replica) {
  if (IsLive(replica)) return Fate::kLive;
  const bool excused = replica.stop_requested || replica.node_leaving || IsForeign(replica.cause);
  if (replica.state == ReplicaState::kLost) {
    return replica.loss == LossCause::kNotStarted && !excused ? Fate::kFailed : Fate::kLost;
  }
  if (replica.signal == 0 && replica.exit_code == 0) return Fate::kDone;
  if (excused && LooksStopped(replica)) return Fate::kStopped;
  if (IsForeign(replica.cause)) return Fate::kLost;
  if (replica.signal == 0 && replica.exit_code == kExitPeerLost) return Fate::kPeerLost;
  if (replica.signal == 0 && replica.exit_code == kExitStopped) return Fate::kStoppedUnasked;
  return Fate::kFailed;
}

std::string DescribeEnd(const Replica& replica) {
  const std::string detail = replica.message.empty() ? "" : absl::StrCat(": ", replica.message);
  if (IsLive(replica)) return "runs";
  if (replica.state == ReplicaState::kLost) {
    if (replica.loss == LossCause::kNotStarted) return absl::StrCat("could not be started", detail);
    if (replica.loss == LossCause::kNode) return absl::StrCat("was lost with its node", detail);
    return absl::StrCat("was lost", detail);
  }
  if (replica.signal != 0) return absl::StrCat("was killed by ", SignalText(replica.signal), detail);
  if (replica.exit_code == 0) return "finished";
  if (replica.exit_code == kExitPeerLost) {
    return absl::StrCat("exited with code 75 (lost a peer, or its collective failed)", detail);
  }
  if (replica.exit_code == kExitStopped && FateOf(replica) == Fate::kStoppedUnasked) {
    return absl::StrCat("exited with code 143 though nobody had asked it to stop", detail);
  }
  return absl::StrCat("exited with code ", replica.exit_code, detail);
}

bool IsExplanation(const Replica& replica) {
  if (replica.end_handled) return true;
  const Fate fate = FateOf(replica);
  return fate == Fate::kLost ||
         (fate == Fate::kStopped && (replica.node_leaving || IsForeign(replica.cause)));
}

GroupEnd ClassifyGroupEnd(const std::vector<Replica>& members, int size) {
  const int absent = size - static_cast<int>(members.size());
  int done = 0;
  const Replica* failed = nullptr;
  const Replica* followed =
      nullptr;  // Ended as members do that follow another, which may be the one at fault.
  const Replica* lost = nullptr;
  bool explained = absent > 0;  // Whether something outside of the job explains why one followed.
  bool fault = false;
  for (const Replica& replica : members) {
    const Fate fate = FateOf(replica);
    explained = explained || IsExplanation(replica);
    if (replica.end_handled) continue;
    if (fate == Fate::kDone) ++done;
    if (fate == Fate::kFailed && failed == nullptr) failed = &replica;
    const bool follows = fate == Fate::kPeerLost || fate == Fate::kStoppedUnasked;
    if (follows && followed == nullptr) followed = &replica;
    if (fate == Fate::kLost && lost == nullptr) lost = &replica;
    fault =
        fault || (fate != Fate::kDone && (replica.cause == Cause::kNode || replica.cause == Cause::kStorage));
  }
  GroupEnd end;
  end.fault = fault;
  if (done == size && absent == 0) {
    end.completed = true;
    end.message = absl::StrCat("all ", size, " replicas finished");
  } else if (failed != nullptr) {
    end.own_failure = true;
    Blame(*failed, &end);
  } else if (followed != nullptr && !explained) {
    end.own_failure = true;
    Blame(*followed, &end);
  } else if (lost != nullptr) {
    end.lost = true;
    Blame(*lost, &end);
  } else if (absent > 0) {
    end.lost = true;
    end.message = absl::StrCat(absent, " of ", size, " replicas are gone without a trace");
  } else {
    end.message = absl::StrCat("all ", size, " replicas stopped");
  }
  return end;
}

}  // namespace adaptdl::jobs
