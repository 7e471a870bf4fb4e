// Whose fault was it? The table of docs/job-life.md, row by row: what the node says of an end, and whether
// that counts against max_restarts.

#include <csignal>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/jobs/group_end.h"
#include "libs/jobs/node_health.h"
#include "libs/jobs/state_machine.h"
#include "tests/libs/jobs/replicas.h"

namespace adaptdl::jobs {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(3600);

Replica Blamed(Cause cause, Replica replica) {
  replica.cause = cause;
  return replica;
}

struct Row {
  std::string name;
  Replica end;
  bool counts;
  // Whether the next attempt waits, longer each time.
  bool waits;
  Sign of_node;
  // Whether the job's program has run before.
  bool has_run = true;
};

const std::vector<Row>& Rows() {
  const auto not_started = [](Cause cause) { return Blamed(cause, Lost(0, LossCause::kNotStarted)); };
  static const std::vector<Row> rows = {
      {"storage: folders can't be made", not_started(Cause::kStorage), false, true, Sign::kNone},
      {"storage: failed while it did not work", Blamed(Cause::kStorage, Exited(0, 1)), false, true,
       Sign::kNone},
      {"storage: bus error of a mapped file", Blamed(Cause::kStorage, Killed(0, SIGBUS)), false, true,
       Sign::kNone},
      {"node: no free GPU, own disk, no process", not_started(Cause::kNode), false, true, Sign::kBad},
      {"node: account, control group", Blamed(Cause::kNode, Exited(0, 126)), false, true, Sign::kBad},
      {"node: shim died", Blamed(Cause::kNode, Lost(0, LossCause::kVanished)), false, true, Sign::kBad},
      {"node: no worker came back", Blamed(Cause::kNode, Exited(0, 143)), false, true, Sign::kBad},
      {"node: fell silent", Lost(0, LossCause::kNode), false, false, Sign::kNone},
      {"preemption: launch refused", not_started(Cause::kPreemption), false, false, Sign::kNone},
      {"preemption: stopped by the node", Blamed(Cause::kPreemption, Exited(0, 143)), false, false,
       Sign::kNone},
      {"preemption: failed when stopped", Blamed(Cause::kPreemption, Exited(0, 1)), false, false,
       Sign::kNone},
      {"preemption: killed at the end", Blamed(Cause::kPreemption, Killed(0, SIGKILL)), false, false,
       Sign::kNone},
      {"image: program missing, never ran", Blamed(Cause::kImage, Exited(0, 127)), true, true, Sign::kBad,
       /*has_run=*/false},
      {"image: program missing, ran before", Blamed(Cause::kImage, Exited(0, 127)), false, true, Sign::kBad},
      {"job: can't be started as specified", Blamed(Cause::kJob, Exited(0, 126)), true, true, Sign::kBad},
      {"job: not started, of an older worker", not_started(Cause::kUnknown), true, true, Sign::kBad},
      {"job: failed", Exited(0, 1), true, true, Sign::kBad},
      {"job: killed, out of memory", Killed(0, SIGKILL), true, true, Sign::kBad},
      {"job: gave up without a reason", Exited(0, 75), true, true, Sign::kNone},
      {"job: stopped unasked", Exited(0, 143), true, true, Sign::kNone},
  };
  return rows;
}

Job RunningJob(bool has_run) {
  Job job;
  job.phase = Phase::kRunning;
  job.group = 2;
  job.allocation = {"n1"};
  job.max_restarts = 0;
  job.running_since = kStart;
  if (has_run) job.start_time = kStart;
  return job;
}

Job End(Job job, Replica end) {
  end.cause = WhoseFault(end.cause, job);
  const Desired desired = Wants({"n1"});
  for (int i = 0; i < 2; ++i) job = Advance(job, {end}, desired, kStart + absl::Seconds(5), Policy()).job;
  return job;
}

TEST(CausesTest, OnlyTheJobsOwnCounts) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.name);
    const Job job = End(RunningJob(row.has_run), row.end);
    EXPECT_EQ(job.failures, row.counts ? 1 : 0);
    EXPECT_EQ(job.phase, row.counts ? Phase::kFailed : Phase::kPending) << job.message;
    if (row.counts) continue;
    EXPECT_EQ(job.retry_time > kStart, row.waits) << job.message;
  }
}

TEST(CausesTest, NodesAreJudgedByTheirOwnFaults) {
  for (const Row& row : Rows()) EXPECT_EQ(SignOf(row.end), row.of_node) << row.name;
}

TEST(CausesTest, WhoFollowsAMemberThatIsNotToBlameIsNotEither) {
  for (const Row& row : Rows()) {
    if (row.counts) continue;
    Replica end = row.end;
    end.cause = WhoseFault(end.cause, RunningJob(row.has_run));
    for (const int code : {75, 143}) {
      const GroupEnd group_end = ClassifyGroupEnd({end, Exited(1, code)}, 2);
      EXPECT_FALSE(group_end.own_failure) << row.name << ": " << group_end.message;
    }
  }
}

TEST(CausesTest, AnOwnFailureCountsWhateverElseHappened) {
  EXPECT_TRUE(ClassifyGroupEnd({Blamed(Cause::kStorage, Exited(0, 1)), Exited(1, 1)}, 2).own_failure);
}

TEST(CausesTest, AStorageThatDoesNotWorkForLongEndsNoJob) {
  Job job = RunningJob(true);
  absl::Time now = kStart;
  const Desired desired = Wants({"n1"});
  std::vector<absl::Duration> waits;
  for (int attempt = 0; attempt < 9; ++attempt) {
    Replica end = Blamed(Cause::kStorage, Lost(0, LossCause::kNotStarted));
    end.group = job.group;
    for (int i = 0; i < 2; ++i) job = Advance(job, {end}, desired, now, Policy()).job;
    ASSERT_EQ(job.phase, Phase::kPending) << job.message;
    waits.push_back(job.retry_time - now);
    now = job.retry_time;
    job = Advance(job, {}, desired, now, Policy()).job;
    ASSERT_EQ(job.phase, Phase::kStarting);
  }
  EXPECT_EQ(job.failures, 0);
  EXPECT_EQ(waits[0], absl::Seconds(1));
  EXPECT_EQ(waits[3], absl::Seconds(8));
  EXPECT_EQ(waits[8], absl::Seconds(60));
  // What ran well begins anew.
  Replica runs = Running(0);
  runs.group = job.group;
  job = Advance(job, {runs}, desired, now, Policy()).job;
  ASSERT_EQ(job.phase, Phase::kRunning);
  now += Policy().healthy_after;
  Replica end = Blamed(Cause::kStorage, Exited(0, 1));
  end.group = job.group;
  for (int i = 0; i < 2; ++i) job = Advance(job, {end}, desired, now, Policy()).job;
  EXPECT_EQ(job.retry_time - now, absl::Seconds(1));
}

TEST(CausesTest, WhoStopsForANodeThatGoesIsNotSaidToHaveStoppedUnasked) {
  Job job = RunningJob(true);
  job.allocation = {"n1", "n2"};
  const Outcome outcome =
      Advance(job, {Exited(0, 143), Leaving(Running(1))}, Wants({"n1"}), kStart, Policy());
  EXPECT_EQ(outcome.job.message.find("nobody had asked"), std::string::npos) << outcome.job.message;
  EXPECT_NE(outcome.job.message.find("stopped with its group"), std::string::npos) << outcome.job.message;
}

}  // namespace
}  // namespace adaptdl::jobs
