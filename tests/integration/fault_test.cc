// Killing any part of a cluster in mid-training costs time, never the job or its accuracy.

#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/test_cluster.h"
#include "tests/integration/training_data.h"

namespace adaptdl::integration {
namespace {

using ::testing::Contains;
using ::testing::Not;

constexpr int kEpochs = 2;
constexpr int kSteps = 250;
constexpr double kAccuracy = 93.0;
constexpr absl::Duration kPatience = absl::Minutes(6);

class FaultTest : public testing::Test {
 protected:
  // Trains on `nodes` (or wherever the allocator says, if empty) up to the middle of the first epoch.
  void TrainHalfway(TestCluster& cluster, const std::vector<std::string>& nodes) {
    const absl::Status started = cluster.Start();
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_TRUE(cluster.Submit(cluster.MnistJob("job", MnistArguments(kEpochs))).ok());
    if (!nodes.empty()) {
      const absl::Status allocated = cluster.Allocate("job", nodes);
      ASSERT_TRUE(allocated.ok()) << allocated;
    }
    const auto halfway = cluster.WaitForJob("job", StepsReached(60), kPatience);
    ASSERT_TRUE(halfway.ok()) << halfway.status() << "\n" << cluster.Logs("job");
    before_ = halfway->status();
  }

  void ExpectTrained(TestCluster& cluster) {
    const auto finished = cluster.WaitForJob("job", Finished, kPatience);
    ASSERT_TRUE(finished.ok()) << finished.status() << "\n" << cluster.Logs("job");
    after_ = finished->status();
    EXPECT_EQ(after_.phase(), v1::JOB_PHASE_SUCCEEDED) << after_.ShortDebugString();
    EXPECT_GE(cluster.TestAccuracy("job"), kAccuracy) << cluster.Logs("job");
    EXPECT_EQ(after_.progress().optimizer_steps(), kSteps);
  }

  v1::JobStatus before_;
  v1::JobStatus after_;
};

TEST_F(FaultTest, ReplicaKilled) {
  TestCluster cluster({.workers = 2, .allocator = false});
  ASSERT_NO_FATAL_FAILURE(TrainHalfway(cluster, {"node-0", "node-1"}));
  const std::vector<pid_t> replicas = cluster.Trainers("bin/adaptdl-mnist");
  ASSERT_EQ(replicas.size(), 2u);
  kill(replicas[0], SIGKILL);
  ExpectTrained(cluster);
  EXPECT_GT(after_.group(), before_.group());
  EXPECT_EQ(after_.failures(), 1);
  EXPECT_THAT(cluster.EventReasons("job"), Contains("ReplicaFailed"));
}

TEST_F(FaultTest, WorkerKilledAndStartedAgainReattaches) {
  TestCluster cluster({.workers = 2, .allocator = false});
  ASSERT_NO_FATAL_FAILURE(TrainHalfway(cluster, {"node-0", "node-1"}));
  cluster.worker(1).Kill();
  cluster.StartWorker(1);
  ExpectTrained(cluster);
  EXPECT_EQ(after_.group(), before_.group()) << "the replicas should have gone on";
  EXPECT_EQ(after_.restarts(), 0);
}

TEST_F(FaultTest, WorkerKilledForGoodMovesTheJob) {
  TestCluster cluster({.workers = 2, .allocator = true, .orphan_timeout = absl::Seconds(2)});
  ASSERT_NO_FATAL_FAILURE(TrainHalfway(cluster, {}));
  ASSERT_FALSE(before_.allocation().empty());
  const int index = before_.allocation(0) == "node-0" ? 0 : 1;
  cluster.worker(index).Kill();
  ExpectTrained(cluster);
  EXPECT_GT(after_.group(), before_.group());
  EXPECT_EQ(after_.failures(), 0) << "a lost node is not the job's fault";
  EXPECT_THAT(cluster.EventReasons("job"), Contains("NodeLost"));
}

TEST_F(FaultTest, AllocatorKilled) {
  TestCluster cluster({.workers = 2});
  ASSERT_NO_FATAL_FAILURE(TrainHalfway(cluster, {}));
  cluster.allocator().Kill();
  const auto went_on =
      cluster.WaitForJob("job", StepsReached(before_.progress().optimizer_steps() + 20), absl::Minutes(2));
  ASSERT_TRUE(went_on.ok()) << went_on.status();
  ASSERT_TRUE(cluster.StartAllocator().ok());
  ExpectTrained(cluster);
}

TEST_F(FaultTest, AutoscalerKilled) {
  TestCluster cluster({.workers = 2, .autoscaler = true});
  ASSERT_NO_FATAL_FAILURE(TrainHalfway(cluster, {}));
  const std::string of_worker = absl::StrCat("--state-dir=", cluster.folder(), "/autoscaler/");
  const std::vector<pid_t> workers = FindProcesses(of_worker);
  ASSERT_EQ(workers.size(), 2u);
  cluster.autoscaler().Kill();
  ASSERT_TRUE(cluster.StartAutoscaler().ok());
  ExpectTrained(cluster);
  EXPECT_EQ(FindProcesses(of_worker), workers) << "it should have found its workers again";
}

TEST_F(FaultTest, SupervisorKilled) {
  TestCluster cluster({.workers = 2, .allocator = false});
  ASSERT_NO_FATAL_FAILURE(TrainHalfway(cluster, {"node-0", "node-1"}));
  cluster.supervisor().Kill();
  const absl::Status restarted = cluster.StartSupervisor();
  ASSERT_TRUE(restarted.ok()) << restarted;
  ExpectTrained(cluster);
  EXPECT_EQ(after_.group(), before_.group()) << "the replicas should have gone on";
  EXPECT_EQ(after_.restarts(), 0);
}

}  // namespace
}  // namespace adaptdl::integration
