#include "services/worker/replica_end.h"

#include <csignal>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace adaptdl::worker {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'000);

ExitRecord Exited(int code) { return {.exit_code = code}; }
ExitRecord Killed(int signal) { return {.signal = signal}; }

TEST(ReplicaEnd, HasAKind) {
  EXPECT_EQ(KindOfEnd(Exited(0)), "succeeded");
  EXPECT_EQ(KindOfEnd(Exited(1)), "failed");
  EXPECT_EQ(KindOfEnd(Exited(75)), "peer_lost");
  EXPECT_EQ(KindOfEnd(Exited(143)), "stopped");
  EXPECT_EQ(KindOfEnd(Killed(SIGTERM)), "stopped");
  EXPECT_EQ(KindOfEnd(Killed(SIGKILL)), "killed");
  EXPECT_EQ(KindOfEnd({.lost = true}), "lost");
}

TEST(ReplicaEnd, OnlyFailuresThatNothingExplainsMayBeTheStorages) {
  EXPECT_TRUE(IsUnexplainedFailure(Exited(1)));
  EXPECT_TRUE(IsUnexplainedFailure(Killed(SIGBUS)));
  EXPECT_FALSE(IsUnexplainedFailure(Killed(SIGKILL)));
  EXPECT_FALSE(IsUnexplainedFailure(Exited(0)));
  EXPECT_FALSE(IsUnexplainedFailure(Exited(143)));
  EXPECT_FALSE(IsUnexplainedFailure({.exit_code = 1, .cause = Cause::kJob}));
  EXPECT_FALSE(IsUnexplainedFailure({.lost = true}));
}

TEST(ReplicaEnd, WhatWasNotStartedIsLostUnlessTheJobIsToBlame) {
  v1::Replica replica;
  SetEnded(NotStarted(absl::ResourceExhaustedError("disk full"), Cause::kNode, kNow), &replica);
  EXPECT_TRUE(HasEnded(replica));
  EXPECT_EQ(replica.state(), v1::REPLICA_STATE_LOST);
  EXPECT_EQ(replica.message(), "disk full");
  EXPECT_EQ(replica.end_cause(), v1::END_CAUSE_NODE);
  EXPECT_EQ(replica.end_time().seconds(), 1'000);

  SetEnded(NotStarted(absl::InvalidArgumentError("relative"), Cause::kJob, kNow), &replica);
  EXPECT_EQ(replica.state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(replica.exit_code(), 126);
  EXPECT_EQ(replica.end_cause(), v1::END_CAUSE_JOB);
}

TEST(ReplicaEnd, WhatWasCalledOffWasStopped) {
  const ExitRecord record = CalledOff("the job was deleted", kNow);
  EXPECT_EQ(KindOfEnd(record), "stopped");
  EXPECT_EQ(record.message, "stopped before it was started: the job was deleted");
  EXPECT_EQ(record.end_time, kNow);
}

TEST(ReplicaEnd, AStartThatNobodySawIsNotTold) {
  v1::Replica replica;
  EXPECT_FALSE(HasEnded(replica));
  SetEnded({.signal = SIGKILL, .end_time = kNow}, &replica);
  EXPECT_EQ(replica.signal(), SIGKILL);
  EXPECT_FALSE(replica.has_start_time());
  EXPECT_EQ(replica.end_time().seconds(), 1'000);
}

}  // namespace
}  // namespace adaptdl::worker
