// A job, its replicas and its allocation as the state machine sees them: plain values, owned by whoever holds
// them. Thread-safety: as of any plain struct.

#ifndef ADAPTDL_LIBS_JOBS_JOB_H_
#define ADAPTDL_LIBS_JOBS_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::jobs {

// In-place re-scaling will be one more phase between kRunning and itself.
enum class Phase { kPending, kStarting, kRunning, kStopping, kSucceeded, kFailed, kCancelled };

absl::string_view PhaseName(Phase phase);

// Whether the job stays in `phase` for ever.
bool IsTerminal(Phase phase);

struct Job {
  // What the user asked for.
  bool preemptible = true;
  // Own failures that the job survives.
  int max_restarts = 3;

  Phase phase = Phase::kPending;
  // One CamelCase word that says why the job is in its phase, and the same for people.
  std::string reason;
  std::string message;
  // Generation of the replica set; 0 before the first.
  int64_t group = 0;
  // Node of each member of the current group; the index is the rank. Empty while there is no group.
  std::vector<std::string> allocation;
  // Times that the replica set was started again, for whatever reason.
  int restarts = 0;
  // Failures that were the job's own fault, since the last group that ran well for Policy::healthy_after.
  int failures = 0;
  bool cancel_requested = false;
  // No new group before this time. InfinitePast: no such limit.
  absl::Time retry_time = absl::InfinitePast();
  // Since when all replicas of the group run. InfinitePast outside kRunning.
  absl::Time running_since = absl::InfinitePast();
  // When the first group ran, and when the job ended. InfinitePast: has not happened.
  absl::Time start_time = absl::InfinitePast();
  absl::Time completion_time = absl::InfinitePast();
  // Time spent in kRunning, over all groups, without the stretch that is still going on.
  absl::Duration running_time = absl::ZeroDuration();
  // Whether the program tells how far it is. Then a re-scale lasts until the new group has taken its first
  // step (EndRescale()), else until all its members run.
  bool tells_progress = false;
  // Since when the job is being re-scaled: its running group was told to stop, and the next one does not
  // train yet. InfinitePast: it is not, or something else came between, such as a failure or having no
  // allocation.
  absl::Time rescaling_since = absl::InfinitePast();
  // What a re-scale costs: the mean of the times from rescaling_since to its end, in which each newest one
  // has the weight 1/2. Zero before the first.
  absl::Duration rescale_duration = absl::ZeroDuration();
};

enum class ReplicaState { kLaunching, kRunning, kExited, kLost };

// Why a replica is kLost.
enum class LossCause {
  kNone,
  // Its node fell silent.
  kNode,
  // Its node is there, but does not know it any more.
  kVanished,
  // Its process could not be started.
  kNotStarted,
};

// One training process, as observed.
struct Replica {
  std::string id;
  int64_t group = 0;
  int rank = 0;
  std::string node;
  ReplicaState state = ReplicaState::kLaunching;
  // How a kExited replica ended. A signal other than 0 makes the exit code meaningless.
  int exit_code = 0;
  int signal = 0;
  LossCause loss = LossCause::kNone;
  // What went wrong, for people.
  std::string message;
  // Whether the replica had been told to stop before it ended.
  bool stop_requested = false;
  // Whether its node is being drained or taken away; whoever does that may stop the replica without our
  // order.
  bool node_leaving = false;
};

// Whether a process may still be there.
bool IsLive(const Replica& replica);

// What the allocator decided last.
struct Desired {
  // Node of each replica. Empty: none.
  std::vector<std::string> nodes;
  // Why, for people.
  std::string reason;
  // Whether every one of these nodes takes replicas, and whether they have the room now, beside what still
  // runs there. If not, `obstacle` says what is missing.
  bool nodes_ready = true;
  bool room = true;
  std::string obstacle;
  // Whether no node of the cluster could ever hold one replica; `reason` then says what is lacking.
  bool unschedulable = false;
};

}  // namespace adaptdl::jobs

#endif  // ADAPTDL_LIBS_JOBS_JOB_H_
