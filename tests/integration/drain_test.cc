// A node that is told to go: its jobs move while they train, and only what nobody could move is stopped.

#include <signal.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/test_cluster.h"
#include "tests/integration/training_data.h"

namespace adaptdl::integration {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kEpochs = 3;
constexpr int kSteps = 375;
constexpr absl::Duration kPatience = absl::Minutes(6);

class DrainTest : public testing::Test {
 protected:
  void StartJob(TestCluster& cluster, int epochs = kEpochs) {
    const absl::Status started = cluster.Start();
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_TRUE(cluster.Submit(cluster.MnistJob("job", MnistArguments(epochs))).ok());
  }
  v1::JobStatus StatusOnce(TestCluster& cluster, const JobPredicate& predicate) {
    const auto job = cluster.WaitForJob("job", predicate, kPatience);
    EXPECT_TRUE(job.ok()) << job.status() << "\n" << cluster.Logs("job");
    return job.ok() ? job->status() : v1::JobStatus();
  }
  void ExpectUndisturbed(TestCluster& cluster) {
    const v1::JobStatus status = StatusOnce(cluster, Finished);
    EXPECT_EQ(status.phase(), v1::JOB_PHASE_SUCCEEDED) << status.ShortDebugString();
    EXPECT_EQ(status.restarts(), 0);
    EXPECT_EQ(status.failures(), 0);
    EXPECT_EQ(status.progress().optimizer_steps(), kSteps);
    const std::vector<std::string> events = cluster.EventReasons("job");
    EXPECT_THAT(events, Contains("NodePreempted"));
    for (const std::string bad : {"ReplicaFailed", "ReplicaLost", "GroupStopped", "NodeLost"}) {
      EXPECT_THAT(events, Not(Contains(bad)));
    }
  }
};

TEST_F(DrainTest, SurvivorsTrainOnAsTheSameProcesses) {
  TestCluster cluster({.workers = 2, .allocator = false, .drain_on_terminate = true});
  ASSERT_NO_FATAL_FAILURE(StartJob(cluster));
  ASSERT_TRUE(cluster.Allocate("job", {"node-0", "node-1"}).ok());
  StatusOnce(cluster, StepsReached(20));
  const std::vector<pid_t> before = cluster.Trainers("bin/adaptdl-mnist");
  ASSERT_EQ(before.size(), 2u);

  cluster.worker(1).Signal(SIGTERM);
  ASSERT_TRUE(cluster.WaitForNodes(1, kPatience).ok());
  ASSERT_TRUE(cluster.Allocate("job", {"node-0"}).ok());  // what the allocator would say
  EXPECT_EQ(cluster.worker(1).Wait(kPatience), 0);
  const v1::JobStatus status = StatusOnce(cluster, RunningWith(1));
  EXPECT_EQ(status.rescales(), 1) << status.ShortDebugString();
  const std::vector<pid_t> after = cluster.Trainers("bin/adaptdl-mnist");
  ASSERT_EQ(after.size(), 1u);
  EXPECT_THAT(before, Contains(after[0]));
  ExpectUndisturbed(cluster);
}

TEST_F(DrainTest, TheOnlyReplicaMovesToAnotherNodeWhileItTrains) {
  TestCluster cluster({.workers = 2, .drain_on_terminate = true});
  ASSERT_NO_FATAL_FAILURE(StartJob(cluster));
  const v1::JobStatus before = StatusOnce(cluster, StepsReached(20));
  const int leaving = *before.allocation().rbegin() == "node-0" ? 0 : 1;
  cluster.worker(leaving).Signal(SIGTERM);
  EXPECT_EQ(cluster.worker(leaving).Wait(kPatience), 0);
  ExpectUndisturbed(cluster);
}

TEST_F(DrainTest, WhatNobodyMovesIsStoppedNearTheEndAndGoesOnElsewhere) {
  TestCluster cluster(
      {.workers = 2, .allocator = false, .drain_on_terminate = true, .terminate_timeout = absl::Seconds(6)});
  // Long enough for the end to come before its own, on any machine.
  constexpr int kTimes = 3;
  ASSERT_NO_FATAL_FAILURE(StartJob(cluster, kTimes * kEpochs));
  ASSERT_TRUE(cluster.Allocate("job", {"node-1"}).ok());
  StatusOnce(cluster, StepsReached(20));
  cluster.worker(1).Signal(SIGTERM);
  EXPECT_EQ(cluster.worker(1).Wait(kPatience), 0);
  ASSERT_TRUE(cluster.Allocate("job", {"node-0"}).ok());
  const v1::JobStatus status = StatusOnce(cluster, Finished);
  EXPECT_EQ(status.phase(), v1::JOB_PHASE_SUCCEEDED) << status.ShortDebugString();
  EXPECT_EQ(status.restarts(), 1);
  EXPECT_EQ(status.failures(), 0);
  EXPECT_EQ(status.progress().optimizer_steps(), kTimes * kSteps) << "no step was lost";
}

}  // namespace
}  // namespace adaptdl::integration
