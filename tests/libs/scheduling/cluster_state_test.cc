#include "libs/scheduling/cluster_state.h"

#include "gtest/gtest.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

TEST(ClusterState, CountsRoomByTheScarcestResource) {
  ClusterView view = View({Node("a", 4000, 2)}, {Job("x")});
  view.jobs[0].request = {{kCpu, 1000}, {kGpu, 1}};
  ClusterState state(view, {{}});
  EXPECT_EQ(state.RoomFor(0, 0, Room::kAny), 2);
  state.Add(0, 0, 1);
  EXPECT_EQ(state.RoomFor(0, 0, Room::kAny), 1);
  EXPECT_EQ(state.Capacity(0, 0), 2);
  EXPECT_DOUBLE_EQ(state.DominantShare(0), 0.5);
  state.Remove(0, 0, 1);
  EXPECT_TRUE(state.IsIdle(0));
  EXPECT_TRUE(state.placement(0).empty());
}

TEST(ClusterState, KeepsClaimsApartFromWhatIsPlaced) {
  ClusterView view = View({Node("a", 4000)}, {Job("x"), Job("y")});
  ClusterState state(view, {{{0, 3}}, {}});
  EXPECT_EQ(state.RoomFor(1, 0, Room::kUnclaimed), 1);
  EXPECT_EQ(state.RoomFor(1, 0, Room::kSpareCores), 3);
  EXPECT_EQ(state.RoomFor(1, 0, Room::kAny), 4);
  // What is placed uses up the claim first.
  state.Add(0, 0, 2);
  EXPECT_EQ(state.RoomFor(1, 0, Room::kUnclaimed), 1);
  EXPECT_EQ(state.RoomFor(1, 0, Room::kSpareCores), 2);
  EXPECT_EQ(state.RoomFor(1, 0, Room::kAny), 2);
  state.DropClaims(0);
  EXPECT_EQ(state.RoomFor(1, 0, Room::kUnclaimed), 2);
  EXPECT_EQ(state.Clear(0), (Placement{{0, 2}}));
  for (const Room room : {Room::kUnclaimed, Room::kSpareCores, Room::kAny}) {
    EXPECT_EQ(state.RoomFor(1, 0, room), 4);
  }
}

TEST(ClusterState, DrainingNodesHaveNoRoomButKeepWhatIsPlaced) {
  ClusterView view = View({Node("a", 4000)}, {Job("x")});
  view.nodes[0].draining = true;
  ClusterState state(view, {{{0, 1}}});
  EXPECT_EQ(state.RoomFor(0, 0, Room::kAny), 0);
  EXPECT_FALSE(state.Fits(0, {{0, 1}}));
  state.Add(0, 0, 1);
  EXPECT_EQ(state.replicas_on(0, 0), 1);
  const int added = state.AddNode(view.nodes[0].capacity);
  EXPECT_EQ(state.RoomFor(0, added, Room::kAny), 4);
}

TEST(Resources, AreDescribedWithTheirUnits) {
  EXPECT_EQ(Describe({{kCpu, 4000}, {kGpu, 1}, {kMemory, 1 << 30}}), "4000m CPU, 1 GPU, 1024 MiB of memory");
  EXPECT_EQ(Describe({}), "nothing");
  EXPECT_EQ(TimesThatFit({{kCpu, 300}}, {{kCpu, 1000}}, 10), 3);
  EXPECT_EQ(TimesThatFit({{"example.com/fpga", 1}}, {{kCpu, 1000}}, 10), 0);
  EXPECT_EQ(TimesThatFit({}, {}, 10), 10);
}

}  // namespace
}  // namespace adaptdl::scheduling
