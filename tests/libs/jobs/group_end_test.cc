#include "libs/jobs/group_end.h"

#include <csignal>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/libs/jobs/replicas.h"

namespace adaptdl::jobs {
namespace {

TEST(FateTest, ExitCodesMeanWhatTheContractSays) {
  EXPECT_EQ(FateOf(Running(0)), Fate::kLive);
  EXPECT_EQ(FateOf(Exited(0, 0)), Fate::kDone);
  EXPECT_EQ(FateOf(Asked(Exited(0, 0))), Fate::kDone);
  EXPECT_EQ(FateOf(Exited(0, 1)), Fate::kFailed);
  EXPECT_EQ(FateOf(Exited(0, 127)), Fate::kFailed);
  EXPECT_EQ(FateOf(Exited(0, 75)), Fate::kPeerLost);
  EXPECT_EQ(FateOf(Lost(0)), Fate::kLost);
  EXPECT_EQ(FateOf(Lost(0, LossCause::kVanished)), Fate::kLost);
  EXPECT_EQ(FateOf(Lost(0, LossCause::kNotStarted)), Fate::kFailed);
}

TEST(FateTest, StoppingUnaskedIsAFailure) {
  EXPECT_EQ(FateOf(Exited(0, 143)), Fate::kStoppedUnasked);
  EXPECT_EQ(FateOf(Killed(0, SIGTERM)), Fate::kFailed);
  EXPECT_EQ(FateOf(Killed(0, SIGKILL)), Fate::kFailed);
}

TEST(FateTest, StoppingOnRequestOrWithTheNodeIsNone) {
  for (const Replica& replica : {Exited(0, 143), Killed(0, SIGTERM), Killed(0, SIGKILL), Exited(0, 75)}) {
    EXPECT_EQ(FateOf(Asked(replica)), Fate::kStopped);
    EXPECT_EQ(FateOf(Leaving(replica)), Fate::kStopped);
  }
}

TEST(FateTest, CrashWhileStoppingIsStillACrash) {
  EXPECT_EQ(FateOf(Asked(Killed(0, SIGSEGV))), Fate::kFailed);
  EXPECT_EQ(FateOf(Asked(Exited(0, 1))), Fate::kFailed);
  // A launch that never happened because the group was stopped is nobody's fault.
  EXPECT_EQ(FateOf(Asked(Lost(0, LossCause::kNotStarted))), Fate::kLost);
}

TEST(FateTest, SignalsAreToldInWords) {
  EXPECT_EQ(DescribeEnd(Killed(0, SIGABRT)), "was killed by signal 6 (Aborted)");
  EXPECT_EQ(DescribeEnd(Killed(0, SIGRTMAX)), "was killed by signal " + std::to_string(SIGRTMAX));
}

TEST(JudgeGroupTest, CompletesOnlyWhenAllMembersFinished) {
  EXPECT_TRUE(ClassifyGroupEnd({Exited(0, 0), Exited(1, 0)}, 2).completed);
  EXPECT_FALSE(ClassifyGroupEnd({Exited(0, 0)}, 2).completed);
  const GroupEnd mixed = ClassifyGroupEnd({Exited(0, 0), Asked(Exited(1, 143))}, 2);
  EXPECT_FALSE(mixed.completed);
  EXPECT_FALSE(mixed.own_failure);
}

TEST(JudgeGroupTest, LostPeerCountsOnlyWhenNothingExplainsIt) {
  EXPECT_TRUE(ClassifyGroupEnd({Exited(0, 75), Exited(1, 75)}, 2).own_failure);
  EXPECT_TRUE(ClassifyGroupEnd({Exited(0, 75), Asked(Exited(1, 143))}, 2).own_failure);
  EXPECT_TRUE(ClassifyGroupEnd({Exited(0, 75), Exited(1, 0)}, 2).own_failure);
  EXPECT_FALSE(ClassifyGroupEnd({Exited(0, 75), Lost(1)}, 2).own_failure);
  EXPECT_FALSE(ClassifyGroupEnd({Exited(0, 75)}, 2).own_failure);
  EXPECT_FALSE(ClassifyGroupEnd({Exited(0, 75), Leaving(Exited(1, 143))}, 2).own_failure);
}

// The shim of a node that has lost its worker stops its replica, and the whole group stops at the same step.
TEST(JudgeGroupTest, UnaskedStopCountsOnlyWhenNothingExplainsIt) {
  EXPECT_TRUE(ClassifyGroupEnd({Exited(0, 143), Exited(1, 143)}, 2).own_failure);
  EXPECT_TRUE(ClassifyGroupEnd({Exited(0, 143), Asked(Exited(1, 143))}, 2).own_failure);
  EXPECT_FALSE(ClassifyGroupEnd({Lost(0), Exited(1, 143)}, 2).own_failure);
  EXPECT_FALSE(ClassifyGroupEnd({Leaving(Exited(0, 143)), Exited(1, 143)}, 2).own_failure);
}

TEST(JudgeGroupTest, FailureIsAttributedOnceAndToTheCulprit) {
  const GroupEnd end = ClassifyGroupEnd({Exited(0, 75), Exited(1, 3), Asked(Exited(2, 143))}, 3);
  EXPECT_TRUE(end.own_failure);
  EXPECT_EQ(end.replica_id, Exited(1, 3).id);
  EXPECT_NE(end.message.find("code 3"), std::string::npos);
}

TEST(JudgeGroupTest, CommandThatDoesNotExistIsNamed) {
  Replica replica = Lost(0, LossCause::kNotStarted);
  replica.message = "command not found: trane";
  const GroupEnd end = ClassifyGroupEnd({replica}, 1);
  EXPECT_TRUE(end.own_failure);
  EXPECT_NE(end.message.find("command not found: trane"), std::string::npos);
}

TEST(JudgeGroupTest, LostNodesAndPreemptionAreNotTheJobsFault) {
  EXPECT_FALSE(ClassifyGroupEnd({Lost(0), Asked(Exited(1, 143))}, 2).own_failure);
  EXPECT_FALSE(ClassifyGroupEnd({Leaving(Exited(0, 143)), Asked(Exited(1, 143))}, 2).own_failure);
  EXPECT_FALSE(ClassifyGroupEnd({Asked(Killed(0, SIGKILL)), Asked(Killed(1, SIGKILL))}, 2).own_failure);
}

}  // namespace
}  // namespace adaptdl::jobs
