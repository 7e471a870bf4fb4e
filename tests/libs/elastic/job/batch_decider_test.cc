#include "libs/elastic/job/batch_decider.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/elastic/control/fake_control_plane.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;

class BatchDeciderTest : public testing::Test {
 protected:
  BatchDeciderTest() { decider_.SetMembership({.group = 3, .rank = 0, .world_size = 2}); }

  std::vector<double> Offered() {
    std::vector<double> signals(decider_.num_signals());
    decider_.Offer(/*in_step=*/true, absl::MakeSpan(signals));
    return signals;
  }

  // A step of an adaptive loader that begins with 8 samples.
  void Step(int64_t batch) {
    decider_.OnStep({.batch_size = batch,
                     .init_batch_size = 8,
                     .atomic_batch_size = batch / 2,
                     .micro_batches = 1,
                     .limits = {.max_batch_size = 1024, .min_local = 1, .max_local = 512}});
  }

  // Steps that take the same time whatever their size.
  void Profile() {
    for (int i = 0; i < 6; ++i) {
      profile_.AddOptimizerStep({1, 2, 4}, 1.0, 0);
      profile_.AddOptimizerStep({1, 2, 8}, 1.01, 0);
    }
  }

  StepProfile profile_;
  FakeControlPlane control_{{}};
  BatchDecider decider_{{.period = absl::Seconds(10), .hints = {.first_after = 1e9}}, &profile_, &control_};
};

TEST_F(BatchDeciderTest, AProposalIsOfferedUntilItIsAgreedOn) {
  EXPECT_THAT(Offered(), ElementsAre(0, 0));
  decider_.Propose({.atomic_batch_size = 16, .accumulation_steps = 2}, /*group=*/3);
  EXPECT_THAT(Offered(), ElementsAre(16, 3));
  decider_.OnAgreed({0, 0}, 2);
  EXPECT_EQ(decider_.chosen().micro_batches, 0);
  EXPECT_THAT(Offered(), ElementsAre(16, 3));
  decider_.OnAgreed({16, 3}, 2);
  EXPECT_EQ(decider_.chosen().atomic_batch_size, 16);
  EXPECT_EQ(decider_.chosen().micro_batches, 3);
  EXPECT_EQ(decider_.chosen().replicas, 2);
  EXPECT_THAT(Offered(), ElementsAre(0, 0));
}

TEST_F(BatchDeciderTest, AProposalForOtherReplicasIsDropped) {
  decider_.Propose({.atomic_batch_size = 16}, /*group=*/3);
  decider_.SetMembership({.group = 4, .rank = 0, .world_size = 3});
  EXPECT_THAT(Offered(), ElementsAre(0, 0));
  decider_.SetMembership({.group = 3, .rank = 0, .world_size = 2});
  EXPECT_THAT(Offered(), ElementsAre(0, 0)) << "for good";
}

TEST_F(BatchDeciderTest, SizesThatNoFloatHoldsAreNotProposed) {
  decider_.Propose({.atomic_batch_size = int64_t{1} << 24}, /*group=*/3);
  EXPECT_THAT(Offered(), ElementsAre(0, 0));
}

TEST_F(BatchDeciderTest, DecidesOnceItKnowsEnough) {
  decider_.Decide();
  Step(8);
  Profile();
  decider_.Decide();
  EXPECT_THAT(Offered(), ElementsAre(0, 0)) << "gradients say nothing yet";
  decider_.SetGradientStatistics(std::nan(""), 1);
  decider_.Decide();
  EXPECT_THAT(Offered(), ElementsAre(0, 0)) << "nor do such";
  decider_.SetGradientStatistics(1e-6, 1);
  decider_.Decide();
  EXPECT_THAT(Offered(), ElementsAre(16, 1)) << "four times as much at most";
}

TEST_F(BatchDeciderTest, ABatchSizeThatStaysIsNotDecidedOn) {
  decider_.OnStep({.batch_size = 8, .init_batch_size = 8});
  Profile();
  decider_.SetGradientStatistics(1e-6, 1);
  decider_.Decide();
  EXPECT_THAT(Offered(), ElementsAre(0, 0));
}

TEST_F(BatchDeciderTest, LooksForABetterBatchNowAndThenOnRankZero) {
  Step(8);
  Profile();
  decider_.SetGradientStatistics(1e-6, 1);
  decider_.SetMembership({.group = 3, .rank = 1, .world_size = 2});
  decider_.Tick(100);
  EXPECT_THAT(Offered(), ElementsAre(0, 0));
  decider_.SetMembership({.group = 3, .rank = 0, .world_size = 2});
  decider_.Tick(100);
  EXPECT_THAT(Offered(), ElementsAre(16, 1));
  decider_.OnAgreed({16, 1}, 2);
  // The steps so far took twelve seconds: a quarter of that is to pass.
  Step(32);
  decider_.Tick(101);
  EXPECT_THAT(Offered(), ElementsAre(0, 0));
  decider_.Tick(104);
  EXPECT_GT(Offered()[0], 16);
}

TEST_F(BatchDeciderTest, OneLoaderAdaptsAtATime) {
  const int a = 0, b = 0;
  EXPECT_TRUE(decider_.StartAdapting(&a));
  EXPECT_TRUE(decider_.StartAdapting(&a));
  EXPECT_FALSE(decider_.StartAdapting(&b));
  decider_.StopAdapting(&b);
  EXPECT_FALSE(decider_.StartAdapting(&b));
  decider_.StopAdapting(&a);
  EXPECT_TRUE(decider_.StartAdapting(&b));
}

TEST_F(BatchDeciderTest, OneModelLeads) {
  EXPECT_TRUE(decider_.ClaimLead());
  EXPECT_FALSE(decider_.ClaimLead());
}

TEST_F(BatchDeciderTest, GoesOnFromWhatWasSaved) {
  decider_.OnAgreed({16, 3}, 2);
  decider_.SetGradientStatistics(2, 5);
  nlohmann::json job;
  decider_.Save(&job);
  BatchDecider other({}, &profile_, &control_);
  other.Load(job);
  EXPECT_EQ(other.chosen().atomic_batch_size, 16);
  EXPECT_EQ(other.chosen().micro_batches, 3);
  EXPECT_EQ(other.chosen().replicas, 2);
  nlohmann::json again;
  other.Save(&again);
  EXPECT_EQ(again, job);
}

}  // namespace
}  // namespace adaptdl::elastic
