// The whole transition table: every combination of phase, what is seen of the replicas, the desired
// allocation, cancellation, retry time, preemptibility and failures so far, against the table of
// docs/job-life.md and against what must hold whatever happens.

#include <csignal>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/jobs/group_end.h"
#include "libs/jobs/state_machine.h"
#include "tests/libs/jobs/replicas.h"

namespace adaptdl::jobs {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

// What is seen of a group of two.
struct Observation {
  std::string name;
  std::vector<Replica> replicas;
  bool any_live;
  // Some member neither lives nor finished.
  bool loss;
  // All have ended, and it was the job's own fault.
  bool own_failure;
};

Replica OldGroup(Replica replica) {
  replica.group = 1;
  replica.id += "-old";
  return replica;
}

std::vector<Observation> Observations() {
  const auto not_started = [](int rank) { return Lost(rank, LossCause::kNotStarted); };
  return {
      {"no replica", {}, false, true, false},
      {"a replica of an older group", {OldGroup(Running(0))}, true, true, false},
      {"group and a replica of an older one",
       {Running(0), Running(1), OldGroup(Running(0))},
       true,
       false,
       false},
      {"all launching", {Launching(0), Launching(1)}, true, false, false},
      {"one runs", {Running(0), Launching(1)}, true, false, false},
      {"all run", {Running(0), Running(1)}, true, false, false},
      {"one finished, one launching", {Exited(0, 0), Launching(1)}, true, false, false},
      {"one finished, one runs", {Exited(0, 0), Running(1)}, true, false, false},
      {"all finished", {Exited(0, 0), Exited(1, 0)}, false, false, false},
      {"one crashed, one runs", {Exited(0, 1), Running(1)}, true, true, false},
      {"one crashed, one finished", {Exited(0, 1), Exited(1, 0)}, false, true, true},
      {"all crashed", {Exited(0, 1), Exited(1, 1)}, false, true, true},
      {"one killed, one runs", {Killed(0, SIGKILL), Running(1)}, true, true, false},
      {"143 unasked, one runs", {Exited(0, 143), Running(1)}, true, true, false},
      {"all 143 unasked", {Exited(0, 143), Exited(1, 143)}, false, true, true},
      {"all stopping", {Asked(Running(0)), Asked(Running(1))}, true, false, false},
      {"one stopped, one stopping", {Asked(Exited(0, 143)), Asked(Running(1))}, true, true, false},
      {"all stopped", {Asked(Exited(0, 143)), Asked(Exited(1, 143))}, false, true, false},
      {"one finished, one stopped", {Asked(Exited(0, 0)), Asked(Exited(1, 143))}, false, true, false},
      {"all killed after the grace period", {Asked(Killed(0, 9)), Asked(Killed(1, 9))}, false, true, false},
      {"75, one runs", {Exited(0, 75), Running(1)}, true, true, false},
      {"all 75", {Exited(0, 75), Exited(1, 75)}, false, true, true},
      {"75, one stopped for it", {Exited(0, 75), Asked(Exited(1, 143))}, false, true, true},
      {"75, one lost", {Exited(0, 75), Lost(1)}, false, true, false},
      {"75, one crashed", {Exited(0, 75), Exited(1, 1)}, false, true, true},
      {"one lost, one runs", {Lost(0), Running(1)}, true, true, false},
      {"one lost, one stopped", {Lost(0), Asked(Exited(1, 143))}, false, true, false},
      {"all lost", {Lost(0), Lost(1)}, false, true, false},
      {"one missing, one runs", {Running(1)}, true, true, false},
      {"could not start, one runs", {not_started(0), Running(1)}, true, true, false},
      {"could not start", {not_started(0), not_started(1)}, false, true, true},
      {"node leaving stopped one, one runs", {Leaving(Exited(0, 143)), Running(1)}, true, true, false},
      {"nodes leaving stopped all", {Leaving(Exited(0, 143)), Leaving(Exited(1, 143))}, false, true, false},
  };
}

struct DesiredCase {
  std::string name;
  Desired desired;
};

std::vector<DesiredCase> DesiredCases() {
  Desired same = Wants({"n1", "n2"});
  Desired same_away = same;
  same_away.nodes_ready = false;
  Desired other = Wants({"n1"});
  Desired other_no_room = other;
  other_no_room.room = false;
  Desired other_away = other;
  other_away.nodes_ready = false;
  Desired unschedulable;
  unschedulable.unschedulable = true;
  return {{"same", same},
          {"same, a node is away", same_away},
          {"other", other},
          {"other, no room yet", other_no_room},
          {"other, a node is away", other_away},
          {"none", Desired()},
          {"unschedulable", unschedulable}};
}

struct Case {
  Job job;
  Observation seen;
  DesiredCase desired;

  bool wants_none() const { return desired.desired.nodes.empty(); }
  bool can_launch() const { return !wants_none() && desired.desired.nodes_ready && desired.desired.room; }
  bool must_move() const {
    return job.preemptible && desired.desired.nodes != job.allocation &&
           (wants_none() || desired.desired.nodes_ready);
  }
  std::string Name() const {
    return absl::StrCat(PhaseName(job.phase), " | ", seen.name, " | desired ", desired.name,
                        job.cancel_requested ? " | cancel" : "", job.suspended ? " | held" : "",
                        job.retry_time > kNow    ? " | back-off"
                        : job.retry_time == kNow ? " | retry now"
                                                 : "",
                        job.preemptible ? "" : " | non-preemptible", " | failures ", job.failures);
  }
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  const auto phases = {Phase::kPending,   Phase::kStarting, Phase::kRunning,  Phase::kStopping,
                       Phase::kSucceeded, Phase::kFailed,   Phase::kCancelled};
  for (Phase phase : phases) {
    for (const Observation& seen : Observations()) {
      for (const DesiredCase& desired : DesiredCases()) {
        for (bool cancel : {false, true}) {
          for (absl::Time retry : {absl::InfinitePast(), kNow, kNow + absl::Seconds(1)}) {
            for (bool preemptible : {true, false}) {
              for (int failures : {0, 3}) {
                for (bool suspended : {false, true}) {
                  Job job;
                  job.preemptible = preemptible;
                  job.phase = phase;
                  job.group = 2;
                  job.failures = failures;
                  job.cancel_requested = cancel;
                  job.suspended = suspended;
                  job.retry_time = retry;
                  if (phase == Phase::kStarting || phase == Phase::kRunning || phase == Phase::kStopping) {
                    job.allocation = {"n1", "n2"};
                  }
                  if (phase == Phase::kRunning) job.running_since = kNow - absl::Seconds(10);
                  cases.push_back({job, seen, desired});
                }
              }
            }
          }
        }
      }
    }
  }
  return cases;
}

// One row of the table: where it applies, and what comes out. The first row that applies counts.
struct Row {
  std::string name;
  std::set<Phase> phases;
  std::function<bool(const Case&)> when;
  std::function<Phase(const Case&)> next;
  bool launches = false;
  WaitsFor waits_for = WaitsFor::kReplicas;
};

std::function<Phase(const Case&)> To(Phase phase) {
  return [phase](const Case&) { return phase; };
}
Phase Stay(const Case& c) { return c.job.phase; }
bool Always(const Case&) { return true; }

std::vector<Row> Table() {
  const std::set<Phase> kTerminal = {Phase::kSucceeded, Phase::kFailed, Phase::kCancelled};
  const std::set<Phase> kActive = {Phase::kStarting, Phase::kRunning};
  const std::set<Phase> kPending = {Phase::kPending};
  const std::set<Phase> kStopping = {Phase::kStopping};
  const auto live = [](const Case& c) { return c.seen.any_live; };
  const auto cancel = [](const Case& c) { return c.job.cancel_requested; };
  const auto held = [](const Case& c) { return c.job.suspended; };
  const auto all_done = [](const Case& c) { return c.seen.name == "all finished"; };
  return {
      {"finished jobs stay so", kTerminal, Always, Stay, false, WaitsFor::kNothing},

      {"P1 an old replica lives", kPending, live, To(Phase::kPending)},
      {"P2 cancelled", kPending, cancel, To(Phase::kCancelled), false, WaitsFor::kNothing},
      {"P2b held", kPending, held, To(Phase::kPending), false, WaitsFor::kAllocation},
      {"P3 back-off", kPending, [](const Case& c) { return c.job.retry_time > kNow; }, To(Phase::kPending),
       false, WaitsFor::kRetryTime},
      {"P4 no allocation", kPending, [](const Case& c) { return c.wants_none(); }, To(Phase::kPending), false,
       WaitsFor::kAllocation},
      {"P5 no room", kPending, [](const Case& c) { return !c.can_launch(); }, To(Phase::kPending), false,
       WaitsFor::kRoom},
      {"P6 launch", kPending, Always, To(Phase::kStarting), true},

      {"A1 a member is gone", kActive, [](const Case& c) { return c.seen.loss; }, To(Phase::kStopping)},
      {"A2 cancelled", kActive, cancel, To(Phase::kStopping)},
      {"A3 all finished", kActive, all_done, To(Phase::kSucceeded), false, WaitsFor::kNothing},
      {"A3a held", kActive, held, To(Phase::kStopping)},
      {"A4 moved by the allocator", kActive, [](const Case& c) { return c.must_move(); },
       To(Phase::kStopping)},
      {"A5 all started",
       {Phase::kStarting},
       [](const Case& c) {
         for (const Replica& replica : c.seen.replicas) {
           if (replica.state == ReplicaState::kLaunching) return false;
         }
         return true;
       },
       To(Phase::kRunning)},
      {"A6 steady", kActive, Always, Stay},

      {"S1 a member lives", kStopping, live, To(Phase::kStopping)},
      {"S2 cancelled", kStopping, cancel, To(Phase::kCancelled), false, WaitsFor::kNothing},
      {"S3 all finished", kStopping, all_done, To(Phase::kSucceeded), false, WaitsFor::kNothing},
      {"S4 one failure too many", kStopping,
       [](const Case& c) { return c.seen.own_failure && c.job.failures >= c.job.max_restarts; },
       To(Phase::kFailed), false, WaitsFor::kNothing},
      {"S5 own failure", kStopping, [](const Case& c) { return c.seen.own_failure; }, To(Phase::kPending),
       false, WaitsFor::kRetryTime},
      {"S6 not its fault", kStopping, Always, To(Phase::kPending), false, WaitsFor::kAllocation},
  };
}

const Row& RowOf(const std::vector<Row>& table, const Case& c) {
  for (const Row& row : table) {
    if (row.phases.count(c.job.phase) > 0 && row.when(c)) return row;
  }
  ADD_FAILURE() << "no row for " << c.Name();
  return table.front();
}

TEST(TransitionTableTest, EveryCombinationGoesWhereTheTableSays) {
  const std::vector<Row> table = Table();
  std::set<std::string> used;
  for (const Case& c : AllCases()) {
    const Row& row = RowOf(table, c);
    used.insert(row.name);
    const Outcome outcome = Advance(c.job, c.seen.replicas, c.desired.desired, kNow, Policy());
    ASSERT_EQ(PhaseName(outcome.job.phase), PhaseName(row.next(c))) << row.name << ": " << c.Name();
    ASSERT_EQ(outcome.launch.has_value(), row.launches) << row.name << ": " << c.Name();
    ASSERT_EQ(outcome.waits_for, row.waits_for) << row.name << ": " << c.Name();
  }
  EXPECT_EQ(used.size(), table.size()) << "a row applies nowhere";
}

TEST(TransitionTableTest, InvariantsHoldEverywhere) {
  for (const Case& c : AllCases()) {
    SCOPED_TRACE(c.Name());
    const Outcome outcome = Advance(c.job, c.seen.replicas, c.desired.desired, kNow, Policy());
    const Job& after = outcome.job;
    // Terminal phases absorb, and end a job's claims.
    if (IsTerminal(c.job.phase)) {
      ASSERT_EQ(after.phase, c.job.phase);
    }
    if (IsTerminal(after.phase)) {
      ASSERT_TRUE(after.allocation.empty());
      ASSERT_FALSE(outcome.launch.has_value());
    }
    // The group grows by one with a launch, and only then.
    ASSERT_EQ(after.group, c.job.group + (outcome.launch.has_value() ? 1 : 0));
    if (outcome.launch.has_value()) {
      ASSERT_FALSE(c.seen.any_live);
      ASSERT_EQ(outcome.launch->group, after.group);
      ASSERT_EQ(outcome.launch->nodes, after.allocation);
      ASSERT_FALSE(c.job.cancel_requested || c.job.suspended);
    }
    // A job that goes on has not failed too often.
    if (!IsTerminal(after.phase)) {
      ASSERT_LE(after.failures, c.job.max_restarts);
    }
    ASSERT_LE(after.failures, c.job.failures + 1);
    // Only living replicas are stopped, and each is told once.
    std::set<std::string> stoppable;
    for (const Replica& replica : c.seen.replicas) {
      if (IsLive(replica) && !replica.stop_requested) stoppable.insert(replica.id);
    }
    for (const StopOrder& stop : outcome.stops) ASSERT_EQ(stoppable.erase(stop.replica_id), 1u);
    // A job that stops or has ended tells all that live.
    if (after.phase == Phase::kStopping || IsTerminal(after.phase)) {
      ASSERT_TRUE(stoppable.empty());
    }
    // A job that may not be preempted is never stopped for the allocator's sake.
    if (!c.job.preemptible && after.phase == Phase::kStopping && c.job.phase == Phase::kRunning) {
      ASSERT_TRUE(c.job.cancel_requested || c.job.suspended || c.seen.loss);
    }
  }
}

// Gives the job what it says it waits for, and looks whether that moves it.
TEST(TransitionTableTest, EveryUnfinishedJobHasAWayOn) {
  for (const Case& c : AllCases()) {
    SCOPED_TRACE(c.Name());
    const Outcome outcome = Advance(c.job, c.seen.replicas, c.desired.desired, kNow, Policy());
    if (IsTerminal(outcome.job.phase)) continue;
    std::vector<Replica> replicas = c.seen.replicas;
    if (outcome.launch.has_value()) continue;  // The new members are what it waits for.
    Desired desired = Wants({"n1"});
    absl::Time now = kNow + absl::Minutes(2);
    switch (outcome.waits_for) {
      case WaitsFor::kReplicas: {
        bool any = false;
        for (Replica& replica : replicas) {
          if (!IsLive(replica)) continue;
          any = true;
          replica.state = ReplicaState::kLost;
        }
        // STOPPING with nobody left to stop moves by itself.
        ASSERT_TRUE(any || outcome.job.phase == Phase::kStopping);
        break;
      }
      case WaitsFor::kAllocation:
      case WaitsFor::kRoom:
        break;
      case WaitsFor::kRetryTime:
        ASSERT_GE(outcome.job.retry_time, kNow);
        now = outcome.job.retry_time;
        break;
      case WaitsFor::kNothing:
        FAIL();
    }
    Job job = outcome.job;
    job.suspended = false;  // A person may resume it.
    const Outcome next = Advance(job, replicas, desired, now, Policy());
    ASSERT_TRUE(next.job.phase != outcome.job.phase || next.launch.has_value());
  }
}

}  // namespace
}  // namespace adaptdl::jobs
