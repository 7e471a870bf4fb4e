// The life of a job: one pure function from what is known to what comes next.
//
//   PENDING ──1──▶ STARTING ──2──▶ RUNNING ──────▶ SUCCEEDED (5)
//      ▲  │            │              │
//      │  6            3              3                FAILED (4b)
//      │  ▼            ▼              ▼
//      │ CANCELLED   STOPPING ◀───────┘            CANCELLED (6)
//      └──4a───────────┘
//
// A job whose program can do that changes its replica set in place (docs/rescale.md):
//
//   RUNNING ──7──▶ RESCALING ──8──▶ RUNNING            RESCALING ──3──▶ STOPPING, ──5──▶ SUCCEEDED
//
//   1  an allocation is there, its nodes have the room, no back-off runs, no replica of an older group lives:
//      group + 1, launch all members
//   2  every member runs
//   3  a member ended badly or was lost, the allocation changed, or the user cancelled: stop the rest
//   4a all members have ended: try again, after a back-off if it was the job's own failure
//   4b ... and that was one failure too many
//   5  all members exited with 0, in whatever phase
//   6  cancelled, and no process is left
//   7  the allocation changed, or a member was lost or hangs and others can go on: plan the next group,
//   launch what it
//      lacks, and offer it when all newcomers are ready
//   8  the replicas have changed over (EnterGroup()), or nothing is to be changed any more
//
// docs/job-life.md has the whole table. The caller observes and executes; it calls Advance() again until the
// outcome is Converged(), stores the result, and only then carries out the commands. Thread-safe.

#ifndef ADAPTDL_LIBS_JOBS_STATE_MACHINE_H_
#define ADAPTDL_LIBS_JOBS_STATE_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "libs/jobs/job.h"

namespace adaptdl::jobs {

struct Policy {
  // Wait before the next attempt after the first own failure; doubles with each further one.
  absl::Duration retry_backoff = absl::Seconds(1);
  absl::Duration max_retry_backoff = absl::Seconds(60);
  // A group of which a replica does not run so long after the launch has failed to start, and so has a
  // newcomer that does not run so long after it was planned.
  absl::Duration start_deadline = absl::Minutes(10);
  // A group that ran this long clears the job's failures.
  absl::Duration healthy_after = absl::Minutes(10);
  // A replica whose last heartbeat is older is silent.
  absl::Duration silence = absl::Seconds(6);
  // Least time that members have to report a group as broken after the first one: silent ones, and those that
  // do nothing. Those that send heartbeats and work get `busy_suspicion`, or their patience if that is
  // longer; those that wait for members of a group to come, `longest_wait` from when they began to.
  absl::Duration suspicion = absl::Seconds(3);
  absl::Duration busy_suspicion = absl::Seconds(20);
  absl::Duration longest_wait = absl::Seconds(40);
  // How long newcomers wait for room until the job goes on with those that stay, and gives up what it is to leave anyway,
  // which may be what others wait for; and until it starts again for that if too few stay. The latter is long beside what
  // the others' newcomers take to load, after which these make room. Where a node goes away it is as short as the first.
  absl::Duration room_patience = absl::Seconds(10);
  absl::Duration restart_patience = absl::Minutes(1);
  // How long the members on a node that goes away wait there for newcomers elsewhere, at most, and which part of the
  // time that is left: then the others go on without them first.
  absl::Duration leaving_patience = absl::Seconds(6);
  int leaving_part = 6;
  // How long after a supervisor's begin members may take to join again; until then their jobs stay as they are.
  absl::Duration rejoin_patience = absl::Seconds(30);
};

// Start one replica on each of `nodes`, as the members of `group`.
struct LaunchGroup {
  int64_t group = 0;
  std::vector<std::string> nodes;
};

// Start one replica on `node`, for this place in the plan with the number `group`.
struct LaunchNewcomer {
  std::string replica_id;
  int64_t group = 0;
  int rank = 0;
  std::string node;
};

struct StopOrder {
  std::string replica_id;
  std::string node;
  std::string reason;
  // Without a grace period: nothing that it still does is of use.
  bool at_once = false;
};

// Something to tell the user.
struct Event {
  bool warning = false;
  std::string reason;
  std::string message;
  std::string node;
  std::string replica_id;
};

// What the job waits for now. Every job that is not finished waits for something that will come.
enum class WaitsFor { kNothing, kReplicas, kAllocation, kRoom, kRetryTime };

struct Outcome {
  Job job;
  std::optional<LaunchGroup> launch;
  std::vector<LaunchNewcomer> newcomers;
  // Whether the last one of job.plans is to be told to the replicas: its members, and all members of the
  // current group.
  bool offer = false;
  // Replicas whose end was dealt with (Replica::end_handled).
  std::vector<std::string> ends_handled;
  std::vector<StopOrder> stops;
  std::vector<Event> events;
  // Two nodes whose replicas do not reach each other: no job is to have replicas on both for a while.
  std::optional<std::pair<std::string, std::string>> apart;
  WaitsFor waits_for = WaitsFor::kNothing;
};

// One step of `job`. `replicas`: what is known of its replicas, of all groups.
Outcome Advance(const Job& job, const std::vector<Replica>& replicas, const Desired& desired, absl::Time now,
                const Policy& policy);

// Replicas train as the group with this number, which was offered: it is the current one. nullopt: there is
// no such plan. The caller gives the replicas that are now members (ids, by rank) their new group and rank.
struct Entered {
  Job job;
  std::vector<std::string> members;
  std::vector<Event> events;
};
std::optional<Entered> EnterGroup(const Job& job, int64_t group);

// What a change in place cost one replica (v1::RescaleTimes).
struct RescaleCost {
  int64_t group = 0;
  absl::Duration agree;
  absl::Duration rebuild;
  absl::Duration synchronize;
  absl::Duration first_step;
};

// Takes over the first times that come for the current group, if a change in place brought it about. False:
// nothing has changed.
bool ObserveRescale(const RescaleCost& times, Job* job, Event* event);

// The current group, which has been launched, trains: ends the re-scale that brought it about, if it is one.
void EndRescale(absl::Time now, Job* job);

// Whether another Advance() on the outcome's job would change nothing.
bool Converged(const Job& before, const Outcome& outcome);

}  // namespace adaptdl::jobs

#endif  // ADAPTDL_LIBS_JOBS_STATE_MACHINE_H_
