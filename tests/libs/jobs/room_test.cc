// Changes of a replica set in place for which there is no room: who goes on with less, who starts again, and who waits.

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/jobs/world.h"

namespace adaptdl::jobs {
namespace {

using ::testing::ElementsAre;

TEST(RoomTest, RoomThatOthersWaitForIsGivenUpFirst) {
  World world;
  world.places = 1;
  world.Start({"n1", "n2"});
  world.Want({"n2", "n3"});
  world.GoOn();
  world.places = 0;  // Others hold all that is free.
  world.Want({"n2", "n1"});
  EXPECT_FALSE(world.plan().offered);
  world.Pass(world.policy_.room_patience);
  EXPECT_TRUE(world.plan().offered);
  EXPECT_EQ(world.plan().members.size(), 1u);
  world.Enter(world.plan().group);
  EXPECT_FALSE(world.plan().offered);
  world.places = 1;
  world.GoOn();
}

// To a node that is held for ever: it goes by its checkpoint, and waits there.
TEST(RoomTest, WhoIsToLeaveAllItsNodesTrainsOnForAMinuteIfThereIsNoRoom) {
  World world;
  world.Start({"n1", "n2"});
  world.places = 0;
  world.Want({"n3"});
  world.Pass(world.policy_.restart_patience - absl::Seconds(1));
  EXPECT_EQ(world.job().phase, Phase::kRescaling);
  EXPECT_FALSE(world.plan().offered);
  world.Pass(absl::Seconds(1));
  EXPECT_EQ(world.job().phase, Phase::kStopping);
}

TEST(RoomTest, WhereANodeGoesAwayItDoesNotTrainOnForLong) {
  World world;
  world.Start({"n1", "n2"});
  world.places = 0;
  world.Find(world.Ids()[1])->node_deadline = world.now() + absl::Seconds(120);
  world.Want({"n3"});
  world.Pass(world.policy_.room_patience - absl::Seconds(1));
  EXPECT_EQ(world.job().phase, Phase::kRescaling);
  world.Pass(absl::Seconds(1));
  EXPECT_EQ(world.job().phase, Phase::kStopping);
}

TEST(RoomTest, WhoOnlyGrowsWaitsForRoomForEver) {
  World world(2);
  world.Start({"n1", "n2"});
  world.places = 0;
  world.Want({"n1", "n2", "n3"});
  world.Pass(10 * world.policy_.restart_patience);
  EXPECT_EQ(world.job().phase, Phase::kRescaling);
  world.places = 2;
  world.GoOn();
  EXPECT_THAT(world.job().allocation, ElementsAre("n1", "n2", "n3"));
  EXPECT_EQ(world.job().restarts, 0);
}

TEST(RoomTest, OneThatIsToGoFirstDoesNotWaitForRoom) {
  World world;
  world.Start({"n1", "n2"});
  world.places = 0;
  world.Want({"n2", "n3"});
  EXPECT_FALSE(world.plan().offered);
  world.goes_first = true;
  world.Settle();
  EXPECT_TRUE(world.plan().offered);
  EXPECT_EQ(world.plan().members.size(), 1u);
  world.goes_first = false;
  world.Enter(world.plan().group);
  world.places = 2;
  world.GoOn();
  EXPECT_THAT(world.job().allocation, ElementsAre("n2", "n3"));
  EXPECT_EQ(world.job().restarts, 0);
  world.places = 0;
  world.Want({"n1"});
  world.goes_first = true;
  world.Settle();
  EXPECT_EQ(world.job().phase, Phase::kStopping) << "to other nodes only: by its checkpoint";
}

TEST(RoomTest, OneThatNeedsAllItHasWaitsForRoomLonger) {
  for (const bool first : {false, true}) {
    World world(2);
    world.Start({"n1", "n2"});
    world.places = 0;
    world.Want({"n2", "n3"});
    world.Pass(world.policy_.restart_patience - absl::Seconds(1));
    EXPECT_EQ(world.job().phase, Phase::kRescaling);
    EXPECT_FALSE(world.plan().offered);
    world.goes_first = first;
    world.Pass(absl::Seconds(first ? 0 : 1));
    EXPECT_EQ(world.job().phase, Phase::kStopping);
  }
}

}  // namespace
}  // namespace adaptdl::jobs
