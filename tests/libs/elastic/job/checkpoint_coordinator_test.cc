#include "libs/elastic/job/checkpoint_coordinator.h"

#include <optional>
#include <stdexcept>
#include <string>

#include "gtest/gtest.h"
#include "libs/elastic/control/fake_control_plane.h"
#include "nlohmann/json.hpp"
#include "tests/libs/elastic/temp_folder.h"
#include "tests/libs/elastic/test_host.h"

namespace adaptdl::elastic {
namespace {

class CheckpointCoordinatorTest : public testing::Test {
 protected:
  ~CheckpointCoordinatorTest() override {
    if (checkpoints_) checkpoints_->Close();
  }

  CheckpointCoordinator& Make(absl::Duration period, int64_t period_steps = 0, int rank = 0) {
    checkpoints_.emplace(
        CheckpointCoordinator::Options{.folder = folder_.path(),
                                       .period = period,
                                       .period_steps = period_steps,
                                       .seconds = host_.clock(),
                                       .on_superseded = [this](const std::string&) { superseded_ = true; }},
        &progress_, &watch_, &control_);
    checkpoints_->SetMembership({.group = group_, .rank = rank, .world_size = 2});
    checkpoints_->Start();
    return *checkpoints_;
  }

  bool Offered(bool in_step = false) {
    double signal = 0;
    checkpoints_->Offer(in_step, absl::MakeSpan(&signal, 1));
    return signal > 0;
  }

  bool Save(const std::string& value) {
    return checkpoints_->Save([&](StateMap* states) { *states = {{"state", value}}; });
  }

  TempFolder folder_;
  TestHost host_;
  ProgressTracker progress_;
  TrainingWatch watch_{{.least_patience = 10, .seconds = host_.clock()}};
  FakeControlPlane control_{{}};
  int64_t group_ = 1;
  bool superseded_ = false;
  std::optional<CheckpointCoordinator> checkpoints_;
};

TEST_F(CheckpointCoordinatorTest, ARequestStandsUntilItIsSettled) {
  CheckpointCoordinator& checkpoints = Make(absl::Hours(1));
  EXPECT_FALSE(Offered());
  checkpoints.Request("test");
  EXPECT_TRUE(Offered());
  EXPECT_FALSE(checkpoints.agreed());
  checkpoints.OnAgreed({1}, 2);
  EXPECT_TRUE(checkpoints.agreed());
  checkpoints.Settle();
  EXPECT_FALSE(checkpoints.agreed());
  EXPECT_FALSE(Offered());
}

TEST_F(CheckpointCoordinatorTest, ItsPeriodIsOverAfterSoMuchTimeWithSteps) {
  CheckpointCoordinator& checkpoints = Make(absl::Seconds(30));
  host_.now += 40;
  EXPECT_FALSE(Offered()) << "there is nothing new to save";
  EXPECT_TRUE(Offered(/*in_step=*/true));
  progress_.CountStep(1);
  EXPECT_TRUE(Offered());
  EXPECT_TRUE(Save("x"));
  EXPECT_TRUE(checkpoints.AwaitWritten().ok());
  EXPECT_FALSE(Offered(/*in_step=*/true));
  host_.now += 29;
  EXPECT_FALSE(Offered(/*in_step=*/true));
  host_.now += 1;
  EXPECT_TRUE(Offered(/*in_step=*/true));
}

TEST_F(CheckpointCoordinatorTest, OrAfterSoManySteps) {
  Make(absl::ZeroDuration(), /*period_steps=*/3);
  progress_.CountStep(1);
  EXPECT_FALSE(Offered(/*in_step=*/true));
  progress_.CountStep(1);
  EXPECT_FALSE(Offered());
  EXPECT_TRUE(Offered(/*in_step=*/true)) << "with the step that is about to be taken";
}

TEST_F(CheckpointCoordinatorTest, OnlyRankZeroWrites) {
  CheckpointCoordinator& checkpoints = Make(absl::ZeroDuration(), /*period_steps=*/1, /*rank=*/1);
  progress_.CountStep(1);
  EXPECT_FALSE(Offered());
  EXPECT_TRUE(checkpoints.behind());
  EXPECT_FALSE(Save("x"));
  EXPECT_FALSE(checkpoints.behind()) << "rank 0 has written it";
  EXPECT_TRUE(checkpoints.AwaitWritten().ok());
  EXPECT_TRUE(checkpoints.LoadNewest()->empty());
  checkpoints.SetMembership({.group = 2, .rank = 0, .world_size = 1});
  EXPECT_TRUE(Save("y"));
  EXPECT_TRUE(checkpoints.AwaitWritten().ok());
}

TEST_F(CheckpointCoordinatorTest, TheNewestIsLoadedAgain) {
  progress_.CountStep(1);
  CheckpointCoordinator& checkpoints = Make(absl::Hours(1));
  EXPECT_TRUE(checkpoints.LoadNewest()->empty());
  EXPECT_TRUE(Save("x"));
  checkpoints.Close();
  EXPECT_EQ(Make(absl::Hours(1)).LoadNewest()->at("state"), "x");
  ASSERT_EQ(control_.checkpoints().size(), 1u);
  EXPECT_EQ(control_.checkpoints()[0].first, 1);
  EXPECT_TRUE(control_.checkpoints()[0].second.ok());
}

TEST_F(CheckpointCoordinatorTest, AStateThatThrowsCostsTheCheckpoint) {
  CheckpointCoordinator& checkpoints = Make(absl::Hours(1));
  EXPECT_FALSE(checkpoints.Save([](StateMap*) { throw std::runtime_error("cannot be saved"); }));
  ASSERT_EQ(control_.checkpoints().size(), 1u);
  EXPECT_FALSE(control_.checkpoints()[0].second.ok());
}

TEST_F(CheckpointCoordinatorTest, ANewerGroupsCheckpointSupersedesThisReplica) {
  group_ = 5;
  Make(absl::Hours(1));
  Save("newer");
  checkpoints_->Close();
  group_ = 4;
  CheckpointCoordinator& late = Make(absl::Hours(1));
  Save("older");
  (void)late.AwaitWritten();
  EXPECT_TRUE(superseded_);
  late.Close();
  group_ = 6;
  EXPECT_EQ(Make(absl::Hours(1)).LoadNewest()->at("state"), "newer");
}

TEST_F(CheckpointCoordinatorTest, NothingIsWrittenOnceItIsCancelled) {
  checkpoints_.emplace(CheckpointCoordinator::Options{.folder = folder_.path(), .seconds = host_.clock()},
                       &progress_, &watch_, &control_);
  checkpoints_->Cancel();
  checkpoints_->SetMembership({.group = 1, .rank = 0, .world_size = 1});
  Save("x");
  EXPECT_TRUE(absl::IsCancelled(checkpoints_->AwaitWritten()));
  checkpoints_->Close();
  EXPECT_TRUE(Make(absl::Hours(1)).LoadNewest()->empty());
}

TEST_F(CheckpointCoordinatorTest, KnowsAfterARestartWhatWasSaved) {
  progress_.CountStep(1);
  Make(absl::ZeroDuration(), /*period_steps=*/2);
  Save("x");
  nlohmann::json job;
  checkpoints_->SaveTo(&job);
  checkpoints_->Close();
  CheckpointCoordinator& next = Make(absl::ZeroDuration(), /*period_steps=*/2);
  EXPECT_TRUE(next.behind());
  next.LoadFrom(job);
  EXPECT_FALSE(next.behind());
  EXPECT_FALSE(Offered(/*in_step=*/true));
}

}  // namespace
}  // namespace adaptdl::elastic
