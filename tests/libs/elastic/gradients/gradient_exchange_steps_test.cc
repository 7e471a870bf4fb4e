// Steps in a row: what is compared between them, how often the host waits, and what becomes of a step that
// comes to nothing.

#include <cmath>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/device/guarded_device.h"
#include "libs/elastic/gradients/gradient_exchange.h"
#include "tests/libs/elastic/gradients/exchange_member.h"

namespace adaptdl::elastic {
namespace {

using device::DataType;
using ::testing::ElementsAre;

const ModelTensors::Layout kStepsLayout = {
    .parameters = {{2, DataType::kFloat32, 0}, {3, DataType::kFloat32, 1}}, .num_groups = 2};
const Gradients kFirst = {Numbers{1, 2}, Numbers{3, -4, 5}};
const Gradients kSecond = {Numbers{-1, 4}, Numbers{1, 1, 2}};

ExchangeMember Alone(DeviceKind kind, const ModelTensors::Layout& layout = kStepsLayout) {
  return ExchangeMember(kind, std::move(comm::CreateInProcessGroup(1).front()), layout);
}

class Steps : public testing::TestWithParam<DeviceKind> {
 protected:
  bool asynchronous() const { return GetParam() != DeviceKind::kCpu; }
};

// --- One replica compares steps in a row ---

TEST_P(Steps, InARowAreCompared) {
  ExchangeMember member = Alone(GetParam());
  member.plan = {.norms = true, .compare = true, .keep = true};
  member.pass.batch_scale = 2;
  auto result = member.Step({{1, kFirst}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->pair) << "nothing to compare with";
  EXPECT_THAT(result->total_sqr, ElementsAre(5, 50));
  for (int again = 0; again < 2; ++again) {
    member.exchange().ClearGradients();
    member.pass.batch_scale = 3;
    result = member.Step({{1, again == 0 ? kSecond : kFirst}});
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->pair);
    EXPECT_FALSE(result->measured);
    EXPECT_THAT(result->pair->current_sqr, again == 0 ? ElementsAre(17, 6) : ElementsAre(5, 50));
    EXPECT_THAT(result->pair->previous_sqr, again == 0 ? ElementsAre(5, 50) : ElementsAre(17, 6));
    EXPECT_THAT(result->pair->dot, ElementsAre(7, 9));
    EXPECT_EQ(result->pair->previous_scale, again == 0 ? 2 : 3);
  }
}

TEST_P(Steps, OfOneReplicaThatMeasureNothingNeedNotBeToldOfGradients) {
  ExchangeMember member = Alone(GetParam());
  for (const NoiseScale::Plan& plan :
       {NoiseScale::Plan{}, NoiseScale::Plan{.norms = true}, NoiseScale::Plan{.keep = true}}) {
    member.plan = plan;
    EXPECT_TRUE(member.exchange().BeginPass());
    EXPECT_EQ(member.exchange().looks_at_gradients(), plan.norms || plan.keep);
    // Nothing came of it: the next one is a pass of its own.
    member.exchange().AbandonPass();
  }
  member.plan = {};
  member.exchange().BeginPass();
  member.exchange().EndPass();
  EXPECT_TRUE(member.exchange().has_result());
  const auto result = member.exchange().TakeResult();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->measured);
  EXPECT_EQ(result->micro_batches, 1);
  EXPECT_FALSE(member.exchange().has_result());
  member.plan = {.norms = true};
  const auto measured = member.Step({{1, kFirst}});
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_THAT(measured->total_sqr, ElementsAre(5, 50));
}

TEST_P(Steps, WithAnotherLossScaleAreNotComparedIfGradientsStayMultiplied) {
  ExchangeMember member = Alone(GetParam());
  member.plan = {.norms = true, .compare = true, .keep = true};
  member.pass.keeps_loss_scale = true;
  for (const double scale : {2.0, 2.0, 4.0}) {
    member.exchange().ClearGradients();
    const bool same = scale == member.pass.loss_scale;
    member.pass.loss_scale = scale;
    const auto result = member.Step({{1, kFirst}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->pair.has_value(), same);
    if (!same) continue;
    EXPECT_THAT(result->pair->dot, ElementsAre(5 / 4.0, 50 / 4.0));
  }
}

TEST_P(Steps, WhatOneOfTwoLacksIsZeroThere) {
  ExchangeMember member = Alone(GetParam());
  member.plan = {.norms = true, .compare = true, .keep = true};
  const Gradients some = {std::nullopt, Numbers{1, 1, 1}};
  const Gradients others = {Numbers{2, 2}, std::nullopt};
  ASSERT_TRUE(member.Step({{1, some}}).ok());
  member.exchange().ClearGradients();
  const auto result = member.Step({{1, others}});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->pair);
  EXPECT_THAT(result->pair->current_sqr, ElementsAre(8, 0));
  EXPECT_THAT(result->pair->previous_sqr, ElementsAre(0, 3));
  EXPECT_THAT(result->pair->dot, ElementsAre(0, 0));
}

// A CPU holds on to gradients as they are, finds out that they were changed, and copies them from then on.
TEST_P(Steps, GradientsThatAProgramChangesAreComparedAsTheyWere) {
  for (const bool counted : {true, false}) {
    ExchangeMember member = Alone(GetParam());
    member.plan = {.norms = true, .compare = true, .keep = true};
    std::vector<std::optional<GradientPair>> pairs;
    for (const Gradients& gradients : {kFirst, kSecond, kFirst}) {
      member.exchange().ClearGradients();
      auto result = member.Step({{1, gradients}});
      ASSERT_TRUE(result.ok()) << result.status();
      pairs.push_back(result->pair);
      // As clipping does.
      member.model().Overwrite(0, {100, 100}, counted);
      member.model().Overwrite(1, {100, 100, 100}, counted);
    }
    EXPECT_EQ(pairs[1].has_value(), asynchronous()) << "it is found out, and costs one comparison";
    ASSERT_TRUE(pairs[2]);
    EXPECT_THAT(pairs[2]->previous_sqr, ElementsAre(17, 6));
  }
}

TEST_P(Steps, NormsAreOfWhatAdamApplies) {
  for (const int size : {1, 2}) {
    ExchangeGroup group(GetParam(), size, kStepsLayout);
    group.Run([&](ExchangeMember& member, size_t /*rank*/) {
      // p = 2 sqrt(v) + 1, so that g / p of the first parameter is (1/5, 2/3), and of the other as it is.
      member.model().SetMoments(0, {4, 1}, {.root_factor = 2, .epsilon = 1});
      const auto result = member.Step({{.5 / size, kFirst}, {.5 / size, kFirst}});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_NEAR(result->total_sqr[0], .04 + 4.0 / 9, 1e-6);
      EXPECT_NEAR(result->local_sqr[0], .04 + 4.0 / 9, 1e-6);
      EXPECT_NEAR(result->total_sqr[1], 50, 1e-5);
    });
  }
}

// --- How often the host waits for a device ---

TEST_P(Steps, OfSeveralReplicasWaitOnce) {
  ExchangeGroup group(GetParam(), 2, kStepsLayout, {.buckets = {.bytes = 1}});
  group.Run([&](ExchangeMember& member, size_t /*rank*/) {
    for (const bool measured : {true, false, true}) {
      for (const bool checked : {false, true}) {
        member.plan = {.norms = measured};
        member.pass.check_finite = checked;
        member.exchange().ClearGradients();
        const auto passes = member.model().Prepare(kFirst);
        member.pass.weight = .5;
        const int64_t waits = member.WaitsIn([&] {
          member.model().Backward(member.exchange(), passes);
          ASSERT_TRUE(member.exchange().TakeResult().ok());
        });
        EXPECT_EQ(waits, asynchronous() ? 1 : 0);
      }
    }
  });
}

TEST_P(Steps, OfOneReplicaWaitOnlyForWhatTheyMeasure) {
  ExchangeMember member = Alone(GetParam());
  const auto waits_with = [&](const NoiseScale::Plan& plan, bool checked) {
    member.plan = plan;
    member.pass.check_finite = checked;
    member.exchange().ClearGradients();
    const auto passes = member.model().Prepare(kFirst);
    return member.WaitsIn([&] {
      member.model().Backward(member.exchange(), passes);
      ASSERT_TRUE(member.exchange().TakeResult().ok());
    });
  };
  EXPECT_EQ(waits_with({}, false), 0);
  EXPECT_EQ(waits_with({.norms = true}, false), asynchronous() ? 1 : 0);
  EXPECT_EQ(waits_with({.keep = true}, false), 0);
  EXPECT_EQ(waits_with({.norms = true, .compare = true, .keep = true}, false), asynchronous() ? 1 : 0);
  EXPECT_EQ(waits_with({}, true), asynchronous() ? 1 : 0);
  EXPECT_EQ(waits_with({}, false), 0);
}

// The host puts a whole step on a device that does nothing meanwhile.
TEST(GuardedSteps, AStepThatMeasuresNothingGoesOnBehindTheCallersBack) {
  ExchangeMember member = Alone(DeviceKind::kGuarded);
  member.plan = {};
  member.pass.loss_scale = 4;
  ASSERT_TRUE(member.Step({{1, kFirst}}).ok());
  member.exchange().ClearGradients();
  const auto passes = member.model().Prepare(kSecond);
  auto& device = static_cast<device::GuardedDevice&>(member.device());
  device.Pause();
  member.model().Backward(member.exchange(), passes);
  EXPECT_TRUE(member.exchange().TakeResult().ok());
  device.Resume();
  EXPECT_THAT(member.Averages(), ElementsAre(Numbers{-.25, 1}, Numbers{.25, .25, .5}));
}

// Buckets are on their way while the backward pass goes on: the first is sent before the last gradient is
// there.
TEST_P(Steps, BucketsAreSentWhileTheBackwardPassRuns) {
  for (const bool overlap : {true, false}) {
    ExchangeGroup group(GetParam(), 2, kStepsLayout, {.buckets = {.bytes = 1}, .overlap = overlap});
    group.Run([&](ExchangeMember& member, size_t /*rank*/) {
      const auto prepared = member.model().Prepare(kFirst);
      member.pass.weight = .5;
      GradientExchange& exchange = member.exchange();
      auto first = prepared;
      first.gradients[0].reset();
      EXPECT_TRUE(exchange.BeginPass());
      member.model().Backward(exchange, first);
      EXPECT_EQ(member.sent, overlap ? 1 : 0);
      auto rest = prepared;
      rest.gradients[1].reset();
      member.model().Backward(exchange, rest);
      exchange.EndPass();
      EXPECT_EQ(member.sent, 1);
      ASSERT_TRUE(exchange.TakeResult().ok());
      EXPECT_THAT(member.Averages(), ElementsAre(Numbers{1, 2}, Numbers{3, -4, 5}));
    });
  }
}

// --- Steps that come to nothing ---

TEST_P(Steps, BegunAnewForgetWhatTheyHad) {
  for (const int size : {1, 2}) {
    ExchangeGroup group(GetParam(), size, kStepsLayout);
    group.Run([&](ExchangeMember& member, size_t /*rank*/) {
      // Half of its samples are gone through when memory runs out; they are dealt out anew.
      member.pass.weight = .5 / size;
      member.pass.last = false;
      member.model().Backward(member.exchange(), kFirst);
      EXPECT_TRUE(member.exchange().accumulating());
      ++member.pass.attempt;
      const auto result = member.Step({{.5 / size, kSecond}, {.5 / size, kSecond}});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_THAT(member.Averages(), ElementsAre(Numbers{-1, 4}, Numbers{1, 1, 2}));
      EXPECT_EQ(result->micro_batches, 2 * size);
      EXPECT_THAT(result->local_sqr, ElementsAre(17, 6));
    });
  }
}

TEST_P(Steps, ThatAreVoidExchangeNothing) {
  ExchangeGroup group(GetParam(), 2, kStepsLayout);
  group.Run([&](ExchangeMember& member, size_t /*rank*/) {
    member.pass.is_void = true;
    member.model().Backward(member.exchange(), kFirst);
    EXPECT_EQ(member.sent, 0);
    EXPECT_TRUE(member.told.empty());
    EXPECT_FALSE(member.model().GradientNumbers(0));
    member.pass.is_void = false;
    ++member.pass.attempt;
    ASSERT_TRUE(member.Step({{.5, kSecond}}).ok());
  });
}

TEST_P(Steps, OfALostMemberFailOnTheOthers) {
  ExchangeGroup group(GetParam(), 2, kStepsLayout, {.buckets = {.bytes = 1}});
  group.Run([&](ExchangeMember& member, size_t rank) {
    ASSERT_TRUE(member.Step({{.5, kFirst}}).ok());
    if (rank == 1) {
      member.communicator().Abort("gone");
      return;
    }
    member.exchange().ClearGradients();
    member.RunPasses({{.5, kFirst}});
    ASSERT_EQ(member.told.size(), 2u);
    EXPECT_EQ(member.told.back().code(), absl::StatusCode::kUnavailable);
    EXPECT_FALSE(member.exchange().failed_here());
    // The step is void, and the group is another.
    member.exchange().OnNewGroup(/*keeps_result=*/false);
    EXPECT_TRUE(member.exchange().TakeDropped());
    EXPECT_FALSE(member.exchange().TakeDropped());
    EXPECT_FALSE(member.model().GradientNumbers(0));
  });
}

TEST_P(Steps, KeepTheirResultOverAChangeOfTheGroup) {
  ExchangeMember member = Alone(GetParam());
  member.RunPasses({{1, kFirst}});
  member.exchange().OnNewGroup(/*keeps_result=*/true);
  EXPECT_FALSE(member.exchange().TakeDropped());
  const auto result = member.exchange().TakeResult();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->total_sqr, ElementsAre(5, 50));
}

TEST_P(Steps, OfTwoBackwardPassesAreRefused) {
  for (const int size : {1, 2}) {
    ExchangeGroup group(GetParam(), size, kStepsLayout);
    group.Run([&](ExchangeMember& member, size_t /*rank*/) {
      const MicroBatchPass pass{1.0 / size, kFirst};
      member.RunPasses({pass});
      member.RunPasses({pass});
      EXPECT_TRUE(member.exchange().failed_here());
      EXPECT_THAT(std::string(member.exchange().TakeResult().status().message()),
                  testing::HasSubstr("backward() ran twice"));
    });
  }
}

TEST_P(Steps, RefuseGradientsThatWereChangedBetweenTheirPasses) {
  ExchangeMember member = Alone(GetParam());
  member.pass.last = false;
  member.pass.weight = .5;
  member.model().Backward(member.exchange(), kFirst);
  member.model().Overwrite(0, {0, 0}, /*counted=*/true);
  member.pass.last = true;
  member.model().Backward(member.exchange(), kFirst);
  EXPECT_TRUE(absl::IsFailedPrecondition(member.exchange().TakeResult().status()));
}

INSTANTIATE_TEST_SUITE_P(On, Steps, testing::ValuesIn(DeviceKinds()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace adaptdl::elastic
