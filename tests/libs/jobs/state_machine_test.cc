#include "libs/jobs/state_machine.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/jobs/replicas.h"

namespace adaptdl::jobs {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

class StateMachineTest : public ::testing::Test {
 protected:
  // A job whose group 2 runs on n1 and n2.
  static Job RunningJob() {
    Job job;
    job.phase = Phase::kRunning;
    job.group = 2;
    job.allocation = {"n1", "n2"};
    job.running_since = kStart;
    return job;
  }
  Outcome Step(const Job& job, const std::vector<Replica>& replicas,
               absl::Time now = kStart + absl::Seconds(5)) {
    return Advance(job, replicas, desired_, now, policy_);
  }
  // The job after all of `replicas` have ended.
  Job End(const Job& job, const std::vector<Replica>& replicas, absl::Time now = kStart + absl::Seconds(5)) {
    return Step(Step(job, replicas, now).job, replicas, now).job;
  }

  static inline const absl::Time kStart = absl::FromUnixSeconds(3600);
  Desired desired_ = Wants({"n1", "n2"});
  Policy policy_;
};

TEST_F(StateMachineTest, LaunchesWhatTheAllocatorDecided) {
  Job job;
  desired_.reason = "goodput 1.8";
  const Outcome outcome = Step(job, {});
  ASSERT_TRUE(outcome.launch.has_value());
  EXPECT_EQ(outcome.launch->group, 1);
  EXPECT_EQ(outcome.job.restarts, 0);
  EXPECT_THAT(outcome.events, Contains(Field(&Event::message, HasSubstr("goodput 1.8"))));
}

// Defect 25 of the reference: the loss of some replicas left the job RUNNING for ever.
TEST_F(StateMachineTest, Defect25LossOfSomeReplicasRestartsTheGroup) {
  for (Phase phase : {Phase::kStarting, Phase::kRunning, Phase::kStopping}) {
    Job job = RunningJob();
    job.phase = phase;
    const Outcome stop = Step(job, {Running(0), Lost(1)});
    EXPECT_EQ(stop.job.phase, Phase::kStopping);
    ASSERT_EQ(stop.stops.size(), 1u);
    EXPECT_EQ(stop.stops[0].replica_id, Running(0).id);
    const std::vector<Replica> ended = {Asked(Exited(0, 143)), Lost(1)};
    const Outcome pending = Step(stop.job, ended);
    EXPECT_EQ(pending.job.phase, Phase::kPending);
    const Outcome again = Step(pending.job, ended);
    EXPECT_EQ(again.job.phase, Phase::kStarting);
    EXPECT_EQ(again.job.group, 3);
    EXPECT_EQ(again.job.failures, 0);
    EXPECT_EQ(again.job.restarts, 1);
  }
}

// The other half of defect 25: all replicas exit with 143 while the allocation stays.
TEST_F(StateMachineTest, Defect25AllReplicasExitingWith143DoNotStayRunning) {
  const Job job = End(RunningJob(), {Exited(0, 143), Exited(1, 143)});
  EXPECT_EQ(job.phase, Phase::kPending);
  EXPECT_EQ(job.failures, 1);
}

// Defect 26: any pod failure was final, there was no retry and no back-off.
TEST_F(StateMachineTest, Defect26OwnFailuresBackOffAndEndAtTheLimit) {
  Job job = RunningJob();
  job.max_restarts = 3;
  absl::Time now = kStart + absl::Seconds(5);
  std::vector<absl::Duration> waits;
  while (!IsTerminal(job.phase)) {
    std::vector<Replica> replicas = {Exited(0, 1), Asked(Exited(1, 143))};
    for (Replica& replica : replicas) replica.group = job.group;
    job = End(job, replicas, now);
    if (IsTerminal(job.phase)) break;
    ASSERT_EQ(job.phase, Phase::kPending);
    EXPECT_EQ(job.reason, "BackOff");
    waits.push_back(job.retry_time - now);
    EXPECT_EQ(Step(job, {}, now).job.phase, Phase::kPending);
    now = job.retry_time;
    job = Step(job, {}, now).job;
    ASSERT_EQ(job.phase, Phase::kStarting);
  }
  EXPECT_EQ(job.phase, Phase::kFailed);
  EXPECT_EQ(job.failures, 4);
  EXPECT_EQ(job.reason, "MaxRestartsExceeded");
  EXPECT_THAT(job.message, HasSubstr("exited with code 1"));
  EXPECT_THAT(waits, ::testing::ElementsAre(absl::Seconds(1), absl::Seconds(2), absl::Seconds(4)));
}

TEST_F(StateMachineTest, AStartThatTakesTooLongIsAnOwnFailure) {
  Job job = Step(Job(), {}, kStart).job;
  ASSERT_EQ(job.phase, Phase::kStarting);
  job.max_restarts = 1;
  const auto members = [&](const Job& of) {
    std::vector<Replica> replicas = {Running(0), Running(1)};
    replicas[1].state = ReplicaState::kLaunching;
    for (Replica& replica : replicas) replica.group = of.group;
    return replicas;
  };
  absl::Time now = kStart + policy_.start_deadline - absl::Seconds(1);
  EXPECT_EQ(Step(job, members(job), now).job.phase, Phase::kStarting);
  for (int failures = 1; failures <= 2; ++failures) {
    now = job.starting_since + policy_.start_deadline;
    const Outcome late = Step(job, members(job), now);
    EXPECT_EQ(late.job.phase, Phase::kStopping);
    EXPECT_EQ(late.job.reason, "StartDeadlineExceeded");
    EXPECT_THAT(late.job.message, HasSubstr("n2"));
    EXPECT_EQ(late.stops.size(), 2u);
    // Both do as they are told; the failure is the job's all the same.
    std::vector<Replica> ended = {Asked(Exited(0, 143)), Asked(Exited(1, 143))};
    for (Replica& replica : ended) replica.group = job.group;
    job = Step(late.job, ended, now).job;
    EXPECT_EQ(job.failures, failures);
    EXPECT_THAT(job.message, HasSubstr("did not come to run within 10m"));
    if (failures == 2) break;
    ASSERT_EQ(job.phase, Phase::kPending);
    EXPECT_EQ(job.reason, "BackOff");
    job = Step(job, {}, job.retry_time).job;
    ASSERT_EQ(job.phase, Phase::kStarting);
  }
  EXPECT_EQ(job.phase, Phase::kFailed);
  EXPECT_EQ(job.reason, "MaxRestartsExceeded");
}

TEST_F(StateMachineTest, BackOffIsBounded) {
  Job job = RunningJob();
  job.max_restarts = 1000;
  job.failures = 500;
  job = End(job, {Exited(0, 1), Exited(1, 1)});
  EXPECT_EQ(job.retry_time, kStart + absl::Seconds(5) + policy_.max_retry_backoff);
}

TEST_F(StateMachineTest, Defect26LossesOutsideOfTheJobNeverCount) {
  Job job = RunningJob();
  job.max_restarts = 0;
  EXPECT_EQ(End(job, {Lost(0), Asked(Exited(1, 143))}).phase, Phase::kPending);
  EXPECT_EQ(End(job, {Leaving(Exited(0, 143)), Exited(1, 75)}).phase, Phase::kPending);
  EXPECT_EQ(End(job, {Lost(0, LossCause::kVanished), Exited(1, 75)}).phase, Phase::kPending);
}

TEST_F(StateMachineTest, HealthyGroupClearsFailures) {
  Job job = RunningJob();
  job.failures = 3;
  const Job late = End(job, {Exited(0, 1), Exited(1, 1)}, kStart + policy_.healthy_after);
  EXPECT_EQ(late.failures, 1);
  const Job soon = End(job, {Exited(0, 1), Exited(1, 1)}, kStart + policy_.healthy_after - absl::Seconds(1));
  EXPECT_EQ(soon.phase, Phase::kFailed);
}

TEST_F(StateMachineTest, RescaleStopsAndStartsTheNextGroup) {
  desired_.nodes = {"n1"};
  const Outcome stop = Step(RunningJob(), {Running(0), Running(1)});
  EXPECT_EQ(stop.job.phase, Phase::kStopping);
  EXPECT_EQ(stop.stops.size(), 2u);
  EXPECT_EQ(stop.job.running_time, absl::Seconds(5));
  const std::vector<Replica> ended = {Asked(Exited(0, 143)), Asked(Exited(1, 143))};
  const Outcome launch = Step(Step(stop.job, ended).job, ended);
  ASSERT_TRUE(launch.launch.has_value());
  EXPECT_EQ(launch.launch->nodes, std::vector<std::string>{"n1"});
}

TEST_F(StateMachineTest, RescalesAreTimedFromTheStopToTheNextRun) {
  Job job = RunningJob();
  absl::Time now = kStart;
  // Re-scales to one replica, which runs after `took`, with a launch in the middle of that time.
  const auto rescale = [&](absl::Duration took) {
    desired_.nodes = {"n1"};
    if (job.allocation == desired_.nodes) desired_.nodes = {"n2"};
    std::vector<Replica> replicas;
    for (size_t i = 0; i < job.allocation.size(); ++i) {
      replicas.push_back(Member(static_cast<int>(i), ReplicaState::kRunning, job.group));
    }
    job = Step(job, replicas, now).job;
    EXPECT_EQ(job.rescaling_since, now);
    for (Replica& replica : replicas) {
      replica.state = ReplicaState::kExited;
      replica.exit_code = 143;
      replica.stop_requested = true;
    }
    job = Step(job, replicas, now + took / 2).job;
    job = Step(job, replicas, now + took / 2).job;
    EXPECT_EQ(job.phase, Phase::kStarting);
    now += took;
    job = Step(job, {Member(0, ReplicaState::kRunning, job.group)}, now).job;
    EXPECT_EQ(job.phase, Phase::kRunning);
    EXPECT_EQ(job.rescaling_since, absl::InfinitePast());
  };
  rescale(absl::Seconds(20));
  EXPECT_EQ(job.rescale_duration, absl::Seconds(20));
  rescale(absl::Seconds(10));
  EXPECT_EQ(job.rescale_duration, absl::Seconds(15));
  rescale(absl::Seconds(5));
  EXPECT_EQ(job.rescale_duration, absl::Seconds(10));
}

TEST_F(StateMachineTest, RescalesOfProgramsThatTellTheirProgressEndWithTheFirstStep) {
  Job job = RunningJob();
  job.tells_progress = true;
  job.phase = Phase::kStarting;
  job.rescaling_since = kStart;
  const absl::Time runs = kStart + absl::Seconds(4);
  job = Step(job, {Running(0), Running(1)}, runs).job;
  ASSERT_EQ(job.phase, Phase::kRunning);
  EXPECT_EQ(job.rescaling_since, kStart);
  EXPECT_EQ(job.rescale_duration, absl::ZeroDuration());
  // Until then, the next re-scale begins anew, and giving up all replicas is none.
  Job other = job;
  desired_.nodes = {"n3"};
  EXPECT_EQ(Step(other, {Running(0), Running(1)}, runs).job.rescaling_since, runs);
  desired_.nodes = {};
  EXPECT_EQ(Step(other, {Running(0), Running(1)}, runs).job.rescaling_since, absl::InfinitePast());
  EXPECT_EQ(Step(other, {Running(0), Lost(1)}, runs).job.rescaling_since, absl::InfinitePast());
  EndRescale(kStart + absl::Seconds(6), &job);
  EXPECT_EQ(job.rescaling_since, absl::InfinitePast());
  EXPECT_EQ(job.rescale_duration, absl::Seconds(6));
  // Later steps end nothing.
  EndRescale(kStart + absl::Seconds(60), &job);
  EXPECT_EQ(job.rescale_duration, absl::Seconds(6));
}

TEST_F(StateMachineTest, OnlyRescalesAreTimed) {
  // A loss, an own failure and a preemption are none.
  EXPECT_EQ(Step(RunningJob(), {Running(0), Lost(1)}).job.rescaling_since, absl::InfinitePast());
  EXPECT_EQ(End(RunningJob(), {Exited(0, 1), Exited(1, 75)}).rescaling_since, absl::InfinitePast());
  desired_.nodes = {};
  EXPECT_EQ(Step(RunningJob(), {Running(0), Running(1)}).job.rescaling_since, absl::InfinitePast());
  // Nor is a group that did not run before.
  desired_.nodes = {"n1"};
  Job starting = RunningJob();
  starting.phase = Phase::kStarting;
  starting.running_since = absl::InfinitePast();
  EXPECT_EQ(Step(starting, {Running(0), Launching(1)}).job.rescaling_since, absl::InfinitePast());
  // What fails or is lost on the way is not worth its time.
  const Job stopping = Step(RunningJob(), {Running(0), Running(1)}).job;
  ASSERT_EQ(stopping.rescaling_since, kStart + absl::Seconds(5));
  EXPECT_EQ(Step(stopping, {Asked(Exited(0, 1)), Asked(Exited(1, 143))}).job.rescaling_since,
            absl::InfinitePast());
  EXPECT_EQ(Step(stopping, {Lost(0), Asked(Exited(1, 143))}).job.rescaling_since, absl::InfinitePast());
  const std::vector<Replica> stopped = {Asked(Exited(0, 143)), Asked(Exited(1, 143))};
  const Job pending = Step(stopping, stopped).job;
  EXPECT_EQ(pending.rescaling_since, kStart + absl::Seconds(5));
  const Job launched = Step(pending, stopped).job;
  EXPECT_EQ(launched.rescaling_since, kStart + absl::Seconds(5));
  EXPECT_EQ(Step(launched, {Member(0, ReplicaState::kLost, launched.group)}).job.rescaling_since,
            absl::InfinitePast());
  // Nor is the time for which the allocator gives it nothing.
  desired_.nodes = {};
  EXPECT_EQ(Step(pending, stopped).job.rescaling_since, absl::InfinitePast());
}

TEST_F(StateMachineTest, FinishedDuringAStopIsFinished) {
  desired_.nodes = {"n1"};
  const Job job = Step(RunningJob(), {Running(0), Running(1)}).job;
  EXPECT_EQ(Step(job, {Asked(Exited(0, 0)), Asked(Exited(1, 0))}).job.phase, Phase::kSucceeded);
  EXPECT_EQ(Step(job, {Asked(Exited(0, 0)), Asked(Exited(1, 143))}).job.phase, Phase::kPending);
}

TEST_F(StateMachineTest, CancelWinsOverEverythingButAnEarlierEnd) {
  Job job = RunningJob();
  job.cancel_requested = true;
  const Outcome stop = Step(job, {Running(0), Running(1)});
  EXPECT_EQ(stop.job.phase, Phase::kStopping);
  EXPECT_EQ(Step(stop.job, {Asked(Exited(0, 1)), Asked(Exited(1, 143))}).job.phase, Phase::kCancelled);
  Job pending;
  pending.cancel_requested = true;
  EXPECT_EQ(Step(pending, {}).job.phase, Phase::kCancelled);
}

TEST_F(StateMachineTest, TimesAndReasonsAreKept) {
  Job job = Step(Job(), {}).job;
  job = Step(job, {Member(0, ReplicaState::kRunning, 1), Member(1, ReplicaState::kRunning, 1)}, kStart).job;
  EXPECT_EQ(job.phase, Phase::kRunning);
  EXPECT_EQ(job.start_time, kStart);
  Replica first = Member(0, ReplicaState::kExited, 1);
  Replica second = Member(1, ReplicaState::kExited, 1);
  job = Step(job, {first, second}, kStart + absl::Seconds(30)).job;
  EXPECT_EQ(job.phase, Phase::kSucceeded);
  EXPECT_EQ(job.completion_time, kStart + absl::Seconds(30));
  EXPECT_EQ(job.running_time, absl::Seconds(30));
}

}  // namespace
}  // namespace adaptdl::jobs
