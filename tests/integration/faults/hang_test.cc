// A replica that is there and does nothing is not waited for: the others go on from memory, and another one
// takes its place.

#include <signal.h>
#include <sys/types.h>

#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/faults/training_cluster.h"

namespace adaptdl::integration {
namespace {

using ::testing::Contains;

class HangTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(training_.Start({"node-0", "node-1", "node-2"}));
    group_ = training_.group();
  }

  // The others have gone on without it, and it was replaced.
  void ExpectReplaced(pid_t pid, absl::Time since) {
    const auto without =
        training_.cluster().WaitForJob("job", RunningAfterGroup(group_), training_.kPatience);
    ASSERT_TRUE(without.ok()) << without.status() << "\n" << training_.cluster().Logs("job");
    std::cout << "the others went on after " << absl::FormatDuration(absl::Now() - since) << std::endl;
    ASSERT_NO_FATAL_FAILURE(training_.AwaitTrainingOn(3));
    EXPECT_THAT(training_.Replicas(), testing::Not(Contains(pid)));
    EXPECT_THAT(training_.cluster().EventReasons("job"), Contains("ReplicaLost"));
    training_.ExpectOneTraining();
  }

  TrainingCluster training_{{.workers = 3, .allocator = false}};
  int64_t group_ = 0;
};

TEST_F(HangTest, AFrozenReplicaIsReplaced) {
  const pid_t victim = training_.Replicas().at(1);
  ASSERT_EQ(kill(victim, SIGSTOP), 0);
  ExpectReplaced(victim, absl::Now());
}

// Its process lives, and sends heartbeats.
TEST_F(HangTest, AReplicaWhoseTrainingHangsIsReplaced) {
  const pid_t victim = training_.Replicas().at(1);
  std::ofstream(absl::StrCat(training_.folder(), "/", victim, ".hang")).close();
  ExpectReplaced(victim, absl::Now());
}

}  // namespace
}  // namespace adaptdl::integration
