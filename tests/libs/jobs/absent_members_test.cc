// Members that are there no more, or do nothing: who is given up, and when.

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/jobs/world.h"

namespace adaptdl::jobs {
namespace {

using ::testing::IsEmpty;

TEST(BrokenGroupTest, WhoDoesNotSayThatTheGroupIsBrokenIsGivenUp) {
  World world;
  world.Start({"n1", "n2", "n3"});
  const int64_t group = world.job().group;
  world.Report(&world.replicas()[0], group);
  world.Report(&world.replicas()[2], group);
  world.Hear(&world.replicas()[1]);
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  world.Pass(world.policy_.silence);
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  world.Pass(absl::Seconds(1));
  EXPECT_TRUE(world.plan().broken);
  EXPECT_EQ(world.plan().members.size(), 2u);
  EXPECT_EQ(world.stopped(), std::set<std::string>{world.replicas()[1].id});
  // Its end is no news.
  const int64_t planned = world.plan().group;
  world.End(&world.replicas()[1], 0, 9);
  EXPECT_EQ(world.plan().group, planned);
  EXPECT_EQ(world.job().failures, 0);
  // A report of the old group is answered by the plan; one of the plan is not.
  world.Pass(absl::Seconds(5));
  EXPECT_EQ(world.plan().group, planned);
  world.Report(&world.replicas()[0], planned);
  world.Report(&world.replicas()[2], planned);
  EXPECT_GT(world.plan().group, planned);
  world.GoOn();
}

TEST(BrokenGroupTest, WhoseHeartbeatIsUnknownMayHaveLostUsNotTheGroup) {
  World world;
  world.Start({"n1", "n2"});
  world.Report(&world.replicas()[0], world.job().group);
  world.Pass(world.policy_.suspicion);
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  world.Pass(world.policy_.silence - world.policy_.suspicion);
  EXPECT_EQ(world.plan().members.size(), 1u);
}

TEST(BrokenGroupTest, ALongStepIsNoReasonToGiveAMemberUp) {
  World world;
  world.Start({"n1", "n2"});
  world.Report(&world.replicas()[0], world.job().group);
  for (absl::Duration passed; passed < world.policy_.busy_suspicion; passed += absl::Seconds(2)) {
    EXPECT_EQ(world.job().phase, Phase::kRunning) << absl::FormatDuration(passed);
    world.Hear(&world.replicas()[1]);
    world.Pass(absl::Seconds(2));
  }
  EXPECT_EQ(world.stopped().size(), 1u) << "for ever it is not waited for";
}

TEST(BrokenGroupTest, WhoUsuallyTakesLongGetsLonger) {
  World world;
  world.Start({"n1", "n2"});
  world.Report(&world.replicas()[0], world.job().group);
  for (absl::Duration passed; passed < absl::Minutes(4); passed += absl::Seconds(2)) {
    world.Hear(&world.replicas()[0], {}, {}, absl::Minutes(5));
    world.Hear(&world.replicas()[1]);
    world.Pass(absl::Seconds(2));
  }
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  // It comes to its next collective, and says so.
  world.Report(&world.replicas()[1], world.job().group);
  EXPECT_EQ(world.plan().members.size(), 2u);
  EXPECT_THAT(world.stopped(), IsEmpty());
}

TEST(BrokenGroupTest, WhoDoesNothingInABrokenGroupIsGivenUpSoon) {
  World world;
  world.Start({"n1", "n2"});
  world.Report(&world.replicas()[0], world.job().group);
  world.Pass(world.policy_.suspicion);
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  world.Hear(&world.replicas()[1], {}, absl::Seconds(20), absl::Seconds(10));
  EXPECT_EQ(world.plan().members.size(), 1u);
}

// Three members of which the last two wait, as their heartbeats say.
class AbsentMemberTest : public testing::Test {
 protected:
  AbsentMemberTest() { world_.Start({"n1", "n2", "n3"}); }

  // A heartbeat of the two that wait; the first one says what `heartbeat` does.
  void Wait(absl::Duration duration, const std::function<void(Replica*)>& heartbeat) {
    for (absl::Duration waited; waited < duration; waited += absl::Seconds(2)) {
      if (!Steady()) return;
      heartbeat(&first());
      for (int i : {1, 2}) world_.Hear(&world_.replicas()[i], waited, {}, absl::Seconds(10));
      world_.Pass(absl::Seconds(2));
    }
  }
  void Works(Replica* replica) { world_.Hear(replica, {}, absl::Seconds(1), absl::Seconds(10)); }
  bool Steady() const { return world_.job().phase == Phase::kRunning; }
  Replica& first() { return world_.replicas()[0]; }

  World world_;
};

TEST_F(AbsentMemberTest, AFrozenOneIsGivenUpAfterAFewHeartbeats) {
  Works(&first());
  Wait(world_.policy_.silence + absl::Seconds(4), [](Replica*) {});
  ASSERT_FALSE(Steady());
  EXPECT_EQ(world_.plan().members.size(), 2u);
  EXPECT_TRUE(world_.plan().committed);
  EXPECT_TRUE(world_.plan().broken);
  EXPECT_EQ(world_.stopped(), std::set<std::string>{first().id});
  EXPECT_EQ(world_.killed(), world_.stopped());
  EXPECT_EQ(world_.job().failures, 0);
  // Its end is no news, and another one takes its place.
  world_.End(&first(), 0, 9);
  world_.GoOn();
  EXPECT_EQ(world_.job().allocation.size(), 3u);
  EXPECT_EQ(world_.job().restarts, 0);
}

TEST_F(AbsentMemberTest, OneThatHangsIsGivenUpWhenTheirPatienceEnds) {
  absl::Duration idle;
  Wait(absl::Seconds(14), [&](Replica* replica) {
    world_.Hear(replica, {}, idle, absl::Seconds(10));
    idle += absl::Seconds(2);
  });
  ASSERT_FALSE(Steady());
  EXPECT_EQ(world_.stopped(), std::set<std::string>{first().id});
}

TEST_F(AbsentMemberTest, OneThatWorksIsWaitedFor) {
  Wait(absl::Minutes(4), [&](Replica* replica) { Works(replica); });
  EXPECT_TRUE(Steady());
}

TEST_F(AbsentMemberTest, NobodyIsToBlameWhereAllWait) {
  absl::Duration waited;
  Wait(absl::Minutes(4),
       [&](Replica* replica) { world_.Hear(replica, waited += absl::Seconds(2), {}, absl::Seconds(10)); });
  EXPECT_TRUE(Steady());
}

TEST_F(AbsentMemberTest, SilenceDoesNotMatterWhileNobodyWaits) {
  Works(&first());
  for (int i = 0; i < 60; ++i) {
    for (int other : {1, 2}) world_.Hear(&world_.replicas()[other], {}, {}, absl::Seconds(10));
    world_.Pass(absl::Seconds(2));
  }
  EXPECT_TRUE(Steady());
}

TEST_F(AbsentMemberTest, NothingIsKnownAfterOurRestart) {
  Wait(absl::Minutes(1), [](Replica*) {});
  EXPECT_TRUE(Steady()) << "it may be on its way to us";
}

// Three members that all wait, and say where.
class StalledGroupTest : public testing::Test {
 protected:
  StalledGroupTest() { world_.Start({"n1", "n2", "n3"}); }

  struct Place {
    int64_t collective = 0;
    int step = 0;
    int peer = -1;
  };
  // Heartbeats of members that have stood there for so long.
  void Stand(const std::vector<Place>& places, absl::Duration stalled) {
    for (size_t i = 0; i < places.size(); ++i) {
      Replica& replica = world_.replicas()[i];
      replica.standing =
          Standing{world_.job().group, places[i].collective, places[i].step, places[i].peer, stalled};
    }
    for (size_t i = 0; i < places.size(); ++i) {
      world_.Hear(&world_.replicas()[i], stalled + absl::Seconds(1), {}, absl::Seconds(10));
    }
  }
  void ExpectGivenUp(int rank) {
    ASSERT_EQ(world_.job().phase, Phase::kRescaling);
    EXPECT_EQ(world_.killed(), std::set<std::string>{world_.replicas()[rank].id});
    EXPECT_EQ(world_.plan().members.size(), 2u);
    EXPECT_TRUE(world_.plan().broken);
    EXPECT_EQ(world_.job().failures, 0);
    // The others still wait until they hear of it: nobody else is to blame for that.
    world_.Pass(absl::Seconds(1));
    EXPECT_EQ(world_.killed().size(), 1u);
  }

  World world_;
};

TEST_F(StalledGroupTest, OfTwoThatDoNotReachEachOtherOneGoes) {
  // What each of the two has sent has reached the third one, which is in the next exchange.
  const std::vector<Place> places = {{7, 0, 1}, {7, 0, 0}, {8, 0, 0}};
  Stand(places, absl::Seconds(9));
  EXPECT_EQ(world_.job().phase, Phase::kRunning) << "they may be slow";
  Stand(places, absl::Seconds(10));
  ExpectGivenUp(1);
  EXPECT_EQ(world_.apart(), (std::pair<std::string, std::string>("n2", "n1")));
}

TEST_F(StalledGroupTest, WhoGetsNothingFromOneThatIsFurtherGoes) {
  Stand({{7, 1, 2}, {7, 3, 0}, {7, 2, 1}}, absl::Seconds(10));
  ExpectGivenUp(0);
  EXPECT_EQ(world_.apart(), (std::pair<std::string, std::string>("n1", "n3")));
}

TEST_F(StalledGroupTest, WhoHasStoppedBeforeItSentAnythingGoes) {
  Stand({{7, 0, 2}, {7, 0, 2}, {7, 0, -1}}, absl::Seconds(10));
  ExpectGivenUp(2);
  EXPECT_FALSE(world_.apart().has_value());
}

TEST_F(StalledGroupTest, WhoDoesNotComeToTheNextExchangeGoes) {
  Stand({{8, 0, 1}, {8, 0, -1}, {8, 0, 1}}, absl::Seconds(10));
  ExpectGivenUp(1);
}

TEST_F(StalledGroupTest, NobodyGoesWhereSomethingMoves) {
  Stand({{7, 0, 1}, {7, 0, 0}, {8, 0, 0}}, absl::Seconds(10) - absl::Nanoseconds(1));
  EXPECT_EQ(world_.job().phase, Phase::kRunning);
}

TEST_F(StalledGroupTest, NobodyGoesWhereAllWaitForSomethingElse) {
  Stand({{7, 0, -1}, {7, 0, -1}, {7, 0, -1}}, absl::Minutes(1));
  EXPECT_EQ(world_.job().phase, Phase::kRunning);
}

TEST_F(StalledGroupTest, NobodyGoesWhereOneDoesNotSay) {
  Stand({{7, 0, 1}, {7, 0, 0}}, absl::Minutes(1));
  world_.Hear(&world_.replicas()[2], absl::Minutes(1), {}, absl::Seconds(10));
  EXPECT_EQ(world_.job().phase, Phase::kRunning);
}

}  // namespace
}  // namespace adaptdl::jobs
