#include "libs/elastic/job/step_agreement.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/elastic/job/step_in_progress.h"
#include "libs/elastic/job/stop_request.h"
#include "tests/libs/elastic/test_host.h"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;

class Pair final : public SignalSource {
 public:
  size_t num_signals() const override { return 2; }
  void Offer(bool in_step, absl::Span<double> signals) override {
    signals[0] = 5;
    signals[1] = in_step ? 1 : 0;
  }
  void OnAgreed(absl::Span<const double> sums, int members) override {
    agreed.assign(sums.begin(), sums.end());
    agreed.push_back(members);
  }
  std::vector<double> agreed;
};

TEST(StepAgreementTest, EachSourceHasItsNumbersToItself) {
  LoopSignal loop;
  Pair pair;
  StepAgreement agreement({&loop, &pair});
  loop.Set(7, 2);
  EXPECT_THAT(agreement.Local(), ElementsAre(7, 2, 5, 1, 1));
  EXPECT_THAT(agreement.Local(/*in_step=*/false), ElementsAre(7, 2, 5, 0, 1));
  const std::vector<double> sums = {21, 4, 15, 2, 3};
  agreement.AgreeOn(sums);
  EXPECT_EQ(loop.first(), 21);
  EXPECT_EQ(loop.second(), 4);
  EXPECT_THAT(pair.agreed, ElementsAre(15, 2, 3));
  EXPECT_EQ(agreement.last(), sums);
  loop.Forget();
  EXPECT_EQ(loop.first(), 0);
  EXPECT_EQ(loop.second(), 0);
}

class StopRequestTest : public testing::Test {
 protected:
  double Offered() {
    double signal = 0;
    stop_.Offer(/*in_step=*/true, absl::MakeSpan(&signal, 1));
    return signal;
  }

  TestHost host_;
  StopRequest stop_{absl::Seconds(20), host_.clock()};
};

TEST_F(StopRequestTest, IsAgreedOnOnceAnyReplicaWasAsked) {
  EXPECT_EQ(Offered(), 0);
  stop_.Request("test");
  EXPECT_EQ(Offered(), 1);
  stop_.OnAgreed({0}, 3);
  EXPECT_FALSE(stop_.agreed());
  stop_.OnAgreed({1}, 3);
  stop_.OnAgreed({0}, 3);
  EXPECT_TRUE(stop_.agreed()) << "what was agreed on stays so until it is done";
  stop_.Settle();
  EXPECT_FALSE(stop_.agreed());
}

TEST_F(StopRequestTest, IsOverdueWhenOthersKeepThisReplicaWaitingForTooLong) {
  EXPECT_FALSE(stop_.TakeOverdue(/*waiting_since=*/0));
  stop_.Request("test");
  host_.now = 130;
  EXPECT_FALSE(stop_.TakeOverdue(/*waiting_since=*/-1)) << "it computes";
  EXPECT_FALSE(stop_.TakeOverdue(/*waiting_since=*/115)) << "it has begun to wait since";
  stop_.Request("again");
  EXPECT_TRUE(stop_.TakeOverdue(/*waiting_since=*/90)) << "the first request counts";
  EXPECT_FALSE(stop_.TakeOverdue(/*waiting_since=*/90)) << "it is said once";
}

TEST_F(StopRequestTest, IsNotOverdueOnceItIsUnderWay) {
  stop_.Request("test");
  stop_.Settle();
  host_.now = 200;
  EXPECT_FALSE(stop_.TakeOverdue(/*waiting_since=*/100));
}

TEST(StepInProgressTest, IsOpenFromItsSamplesToItsResults) {
  StepInProgress step;
  EXPECT_FALSE(step.open());
  step.Begin();
  EXPECT_TRUE(step.open());
  EXPECT_TRUE(step.MarkTaken());
  EXPECT_FALSE(step.MarkTaken()) << "a second model's";
  EXPECT_FALSE(step.open());
  EXPECT_TRUE(step.taken());
  step.Close();
  EXPECT_FALSE(step.taken());
  EXPECT_FALSE(step.open());
}

TEST(StepInProgressTest, CannotBeginAnewOnceSomethingIsOnItsWay) {
  StepInProgress step;
  step.Begin();
  EXPECT_FALSE(step.exchanging());
  step.BeginExchange();
  EXPECT_TRUE(step.exchanging());
  step.AbandonExchange();
  EXPECT_FALSE(step.exchanging());
  step.BeginExchange();
  step.MarkExchanged();
  step.AbandonExchange();
  EXPECT_TRUE(step.exchanging()) << "it is there";
  EXPECT_TRUE(step.exchanged());
  step.ClearExchange();
  EXPECT_FALSE(step.exchanging());
}

TEST(StepInProgressTest, IsVoidUntilItsNextAttempt) {
  StepInProgress step;
  step.Begin();
  step.BeginExchange();
  step.Void();
  EXPECT_TRUE(step.is_void());
  EXPECT_FALSE(step.exchanging());
  step.Restart();
  EXPECT_FALSE(step.is_void());
  step.Void();
  step.EndLoop();
  EXPECT_FALSE(step.is_void());
  EXPECT_FALSE(step.open());
}

TEST(StepInProgressTest, AFailureIsTakenOnce) {
  StepInProgress step;
  EXPECT_TRUE(step.TakeFailure().ok());
  step.NoteFailedExchange(absl::UnavailableError("lost"));
  EXPECT_TRUE(absl::IsUnavailable(step.TakeFailure()));
  EXPECT_TRUE(step.TakeFailure().ok());
}

}  // namespace
}  // namespace adaptdl::elastic
