#include "libs/elastic/job/team.h"

#include <string>
#include <vector>

#include "adaptdl/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/elastic/control/fake_control_plane.h"
#include "tests/libs/elastic/test_host.h"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NoStates final : public Group::States {
 public:
  absl::Status SendAll(comm::Communicator&) override { return absl::OkStatus(); }
  absl::Status ReceiveAll(comm::Communicator&, int) override { return absl::OkStatus(); }
  void SaveStep(StateMap*) override {}
  absl::Status LoadStep(const StateMap&) override { return absl::OkStatus(); }
  void OnNewGroup(bool) override {}
};

// A replica that is alone, and whose group nobody plans.
class TeamTest : public testing::Test {
 protected:
  TeamTest() { EXPECT_TRUE(team_.group().Form().ok()); }

  TestHost host_;
  FakeControlPlane control_{{.group = 1}};
  NoStates states_;
  TrainingWatch watch_{{.least_patience = 10, .seconds = host_.clock()}};
  Ending ending_{&host_, &control_};
  Team team_{&control_, TransportOfOne(), &states_, {.seconds = host_.clock()}, &watch_, &ending_};
};

TEST_F(TeamTest, GathersWhileItsStepIsGood) {
  EXPECT_TRUE(team_.leads());
  EXPECT_THAT(team_.Gather("text"), ElementsAre("text"));
  EXPECT_EQ(team_.SumOf(5), 5);
  EXPECT_LT(watch_.waiting_since(), 0);
  team_.step().Void();
  EXPECT_THAT(team_.Gather("text"), IsEmpty());
  EXPECT_EQ(team_.SumOf(5), 0);
}

TEST_F(TeamTest, AFailureThatCannotBeMendedEndsTheProcess) {
  EXPECT_EQ(ExitCodeOf([&] { team_.RecoverStep(absl::UnavailableError("lost")); }), kExitPeerLost);
  team_.step().NoteFailedExchange(absl::UnavailableError("lost"));
  EXPECT_EQ(ExitCodeOf([&] { team_.Gather("text"); }), kExitPeerLost)
      << "whoever comes to a collective first takes it from there";
}

TEST_F(TeamTest, AFencedReplicaGathersNothing) {
  ending_.Fence();
  EXPECT_EQ(ExitCodeOf([&] { team_.Gather("text"); }), kExitPeerLost);
}

TEST_F(TeamTest, TellsOfGroupChangesUntilNobodyListens) {
  std::vector<bool> heard;
  team_.OnGroupChange(this, [&](bool keeps_step) { heard.push_back(keeps_step); });
  team_.TellGroupChange(true);
  team_.OnGroupChange(this, nullptr);
  team_.TellGroupChange(false);
  EXPECT_THAT(heard, ElementsAre(true));
}

TEST_F(TeamTest, APlanCountsOnceAllHoldOne) {
  team_.OnAgreed({2}, 3);
  EXPECT_FALSE(team_.TakeAllHoldPlans());
  team_.OnAgreed({3}, 3);
  EXPECT_TRUE(team_.TakeAllHoldPlans());
  EXPECT_FALSE(team_.TakeAllHoldPlans());
  double signal = 1;
  team_.Offer(/*in_step=*/true, absl::MakeSpan(&signal, 1));
  EXPECT_EQ(signal, 0);
  team_.group().OnPlan({.next = {.group = 2}, .reason = "test"});
  team_.Offer(/*in_step=*/true, absl::MakeSpan(&signal, 1));
  EXPECT_EQ(signal, 1);
}

TEST_F(TeamTest, APlanIsHeldOnceAllAreReadyForIt) {
  bool ready = false;
  std::vector<int> asked;
  team_.OnPlanned(this, [&](int size) {
    asked.push_back(size);
    return ready;
  });
  const auto holds_plan = [&] {
    double signal = -1;
    team_.Offer(/*in_step=*/true, absl::MakeSpan(&signal, 1));
    return signal == 1;
  };
  EXPECT_FALSE(holds_plan());
  EXPECT_THAT(asked, IsEmpty());
  team_.group().OnPlan({.next = {.group = 2, .rank = 0, .world_size = 3}, .reason = "test"});
  EXPECT_FALSE(holds_plan());
  ready = true;
  EXPECT_TRUE(holds_plan());
  EXPECT_THAT(asked, ElementsAre(3, 3));
  ready = false;
  team_.OnPlanned(this, nullptr);
  EXPECT_TRUE(holds_plan());
}

}  // namespace
}  // namespace adaptdl::elastic
