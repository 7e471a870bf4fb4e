// A job, its replicas and its allocation as the state machine sees them: plain values, owned by whoever holds
// them. Thread-safety: as of any plain struct.

#ifndef ADAPTDL_LIBS_JOBS_JOB_H_
#define ADAPTDL_LIBS_JOBS_JOB_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::jobs {

// kRescaling is kRunning with a plan for another replica set.
enum class Phase { kPending, kStarting, kRunning, kStopping, kSucceeded, kFailed, kCancelled, kRescaling };

// As people are shown it: "Succeeded".
absl::string_view PhaseName(Phase phase);

// Whether the job stays in `phase` for ever.
bool IsTerminal(Phase phase);

// A member of a group that is to come.
struct PlanMember {
  // Empty: a newcomer that was not launched yet.
  std::string replica_id;
  std::string node;

  bool operator==(const PlanMember&) const = default;
};

// The group that is to follow the current one (docs/rescale.md).
struct Plan {
  int64_t group = 0;
  // The index is the rank: first members of the current group, in order of rank, then newcomers.
  std::vector<PlanMember> members;
  // Whether it stands until it is the current one, whatever the allocator wants: it follows a group that is
  // broken or has lost a member, or makes room for others. Without newcomers.
  bool committed = false;
  // Whether the group before it can't go on: its members are not to wait for each other any more.
  bool broken = false;
  // Whether the replicas were told. From then on they may change over at any time, also if a newer plan
  // follows.
  bool offered = false;
  // When it was made, and how long it took until all newcomers were ready.
  absl::Time since = absl::InfinitePast();
  absl::Duration ready_after = absl::ZeroDuration();

  bool operator==(const Plan&) const = default;
};

// Rank that the plan gives to this replica; -1 if it is no member.
int RankIn(const Plan& plan, absl::string_view replica_id);

struct Job {
  // What the user asked for.
  // Starts the ids of replicas: "<prefix>-<group>-<rank>", of the group and rank that they are launched for.
  std::string id_prefix;
  bool preemptible = true;
  // Whether the replica set may change while its members run.
  bool rescales_in_place = false;
  // Bounds of the number of replicas. 0: none.
  int min_replicas = 0;
  int max_replicas = 0;
  // The only numbers of replicas that it may have, ascending. Empty: any.
  std::vector<int> allowed_replicas;
  // Own failures that the job survives.
  int max_restarts = 3;
  // Whether it is held: it gives up its replicas, and waits until it is held no longer.
  bool suspended = false;

  Phase phase = Phase::kPending;
  // One CamelCase word that says why the job is in its phase, and the same for people.
  std::string reason;
  std::string message;
  // Generation of the replica set; 0 before the first.
  int64_t group = 0;
  // Node of each member of the current group; the index is the rank. Empty while there is no group.
  std::vector<std::string> allocation;
  // Highest number that was given to a group or a plan. Numbers are never given twice.
  int64_t last_group = 0;
  // In order of number. The last one counts; those before it were offered, and the replicas may still choose
  // one of them. Empty: no change is under way.
  std::vector<Plan> plans;
  // Times that the replica set was changed in place.
  int rescales = 0;
  // What the change in place that brought the current group about was, for people, until RescaleTimes have
  // come for it.
  std::string rescale_note;
  // Newcomers that failed since the last time that some made it into a group.
  int newcomer_failures = 0;
  // Times that the replica set was started again, for whatever reason.
  int restarts = 0;
  // Failures that were the job's own fault, since the last group that ran well for Policy::healthy_after.
  int failures = 0;
  // Ends of groups by faults of nodes or of the storage, since the last group that ran well. They don't
  // count, but each next attempt waits longer. Not stored.
  int faults = 0;
  bool cancel_requested = false;
  // Whether the group is being stopped because it did not start in time: a failure of the job's own, however
  // its members end.
  bool start_expired = false;
  // Since when the current group is being started. InfinitePast: it is not, or nobody knows.
  absl::Time starting_since = absl::InfinitePast();
  // Nothing is launched before this time. InfinitePast: no such limit.
  absl::Time retry_time = absl::InfinitePast();
  // Since when all replicas of the group run. InfinitePast outside kRunning and kRescaling.
  absl::Time running_since = absl::InfinitePast();
  // When the first group ran, and when the job ended. InfinitePast: has not happened.
  absl::Time start_time = absl::InfinitePast();
  absl::Time completion_time = absl::InfinitePast();
  // Time spent in kRunning and kRescaling, over all groups, without the stretch that is still going on.
  absl::Duration running_time = absl::ZeroDuration();
  // Whether the program tells how far it is, or at least that its replicas have met. Then a re-scale lasts
  // until the new group has taken its first step (EndRescale()), else until all its members run.
  bool tells_progress = false;
  // Since when the job is being re-scaled by a restart: its running group was told to stop, and the next one
  // does not train yet. InfinitePast: it is not, or something else came between, such as a failure or having
  // no allocation.
  absl::Time rescaling_since = absl::InfinitePast();
  // What a re-scale costs: the mean of the times from rescaling_since to its end, or of the pauses of those
  // in place, in which each newest one has the weight 1/2. Zero before the first.
  absl::Duration rescale_duration = absl::ZeroDuration();

  bool operator==(const Job&) const = default;
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

// Whose fault an end was, as the node says. kUnknown: what exit code and signal say is all that there is.
enum class Cause { kUnknown, kJob, kNode, kStorage, kPreemption, kImage };

// Whether it is neither the job's fault nor unknown.
bool IsForeign(Cause cause);

// How far a replica is in the collectives of its group, and for whom it waits there.
struct Standing {
  int64_t group = 0;
  // Number of the collective that it takes part in, or takes part in next, and how much of it is done.
  int64_t collective = 0;
  int step = 0;
  // Rank of the member that it exchanges data with. Negative: none at this moment.
  int peer = -1;
  // How long none of this has moved.
  absl::Duration stalled = absl::ZeroDuration();

  bool operator==(const Standing&) const = default;
};

// One training process, as observed.
struct Replica {
  // For life.
  std::string id;
  // Of the current group if it is a member, else of the one that it was launched for or has left.
  int64_t group = 0;
  int rank = 0;
  std::string node;
  ReplicaState state = ReplicaState::kLaunching;
  // How a kExited replica ended. A signal other than 0 makes the exit code meaningless.
  int exit_code = 0;
  int signal = 0;
  LossCause loss = LossCause::kNone;
  // Never kImage: see WhoseFault().
  Cause cause = Cause::kUnknown;
  // What went wrong, for people.
  std::string message;
  // Whether the replica had been told to stop before it ended.
  bool stop_requested = false;
  // Whether its node is being drained or taken away; whoever does that may stop the replica without our
  // order.
  bool node_leaving = false;
  // When its node goes away, if that is known. InfiniteFuture: it is not.
  absl::Time node_deadline = absl::InfiniteFuture();
  // Whether it has said that it is ready (JoinGroup), and that it can go on in another group. One that can, but has not
  // joined, said so to an earlier supervisor, and is about to say it to this one.
  bool joined = false;
  bool rescales_in_place = false;
  // Whether its end was dealt with: the job has gone on without it.
  bool end_handled = false;
  // Group that it has reported as broken, and when. 0: none.
  int64_t broken_group = 0;
  absl::Time broken_since = absl::InfinitePast();
  // When its last heartbeat came. InfinitePast: none did, or nobody needs to know.
  absl::Time heard = absl::InfinitePast();
  // What that one said. How long the replica had been waiting for other members (zero: it was not), and how
  // long its training thread had not run otherwise.
  absl::Duration waiting = absl::ZeroDuration();
  absl::Duration idle = absl::ZeroDuration();
  // After so much of either something is wrong with somebody. Zero: not known.
  absl::Duration patience = absl::ZeroDuration();
  // While it waits. Nothing: not known.
  std::optional<Standing> standing = std::nullopt;

  bool operator==(const Replica&) const = default;
};

// Whether a process may still be there.
bool IsLive(const Replica& replica);

// What `told`, by the node, means for the job: a program that is not on the node is missing in the job if it
// has never run, and on that node if it has.
Cause WhoseFault(Cause told, const Job& job);

// What the allocator decided last, and what stands against it now.
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
  // How many more replicas of the job fit on each of these nodes now, beside all that run there, its own
  // included. Only looked at to change a job in place; a node that is left out has no room.
  std::map<std::string, int> free = {};
  // Whether the room that is missing is held by jobs that wait, at the end of a circle, for what this one is to leave, and
  // this one is to go first. Only looked at to change a job in place.
  bool goes_first = false;
  // Whether no node of the cluster could ever hold one replica; `reason` then says what is lacking.
  bool unschedulable = false;

  bool operator==(const Desired&) const = default;
};

}  // namespace adaptdl::jobs

#endif  // ADAPTDL_LIBS_JOBS_JOB_H_
