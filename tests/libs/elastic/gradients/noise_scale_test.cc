#include "libs/elastic/gradients/noise_scale.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "adaptdl/scaling_rule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/goodput/model.h"

namespace adaptdl::elastic {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Pointwise;

using Outcome = NoiseScale::Outcome;
using Plan = NoiseScale::Plan;
using Numbers = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void ExpectPlan(const Plan& plan, const Plan& expected) {
  EXPECT_EQ(plan.norms, expected.norms);
  EXPECT_EQ(plan.compare, expected.compare);
  EXPECT_EQ(plan.keep, expected.keep);
}

void ExpectSameAverages(const NoiseScale& a, const NoiseScale& b) {
  EXPECT_THAT(a.raw_sqr_avg(), Pointwise(DoubleEq(), b.raw_sqr_avg()));
  EXPECT_THAT(a.raw_var_avg(), Pointwise(DoubleEq(), b.raw_var_avg()));
}

// One group, `count` gradients of which the mean has `total` and each has `local` as squared norm.
Outcome UpdateMean(NoiseScale& noise, double local, double total, int64_t count = 2, double scale = 2) {
  const Numbers locals = {local * static_cast<double>(count)};
  const Numbers totals = {total};
  return noise.Update({.count = count, .scale = scale, .local_sqr = locals, .total_sqr = totals});
}

Outcome UpdatePair(NoiseScale& noise, double current, double previous, double dot) {
  const Numbers currents = {current};
  const Numbers previouses = {previous};
  const Numbers dots = {dot};
  return noise.Update({.total_sqr = currents, .previous_sqr = previouses, .previous_dot = dots});
}

Outcome UpdateFirstOfPair(NoiseScale& noise, double current) {
  const Numbers currents = {current};
  return noise.Update({.total_sqr = currents});
}

TEST(Accumulation, SumsUnscaledNormsByWeight) {
  Accumulation accumulation(2);
  EXPECT_FALSE(accumulation.SetBatchScale(.5));
  accumulation.Add({4, 8}, 3, 2);
  accumulation.Add({1, 1}, 1, 1);
  EXPECT_EQ(accumulation.count(), 2);
  EXPECT_EQ(accumulation.weight(), 4);
  EXPECT_THAT(accumulation.local_sqr(), ElementsAre(4, 7));
  EXPECT_EQ(accumulation.scale(), 1);
  accumulation.Reset();
  EXPECT_EQ(accumulation.count(), 0);
  EXPECT_EQ(accumulation.weight(), 0);
  EXPECT_THAT(accumulation.local_sqr(), ElementsAre(0, 0));
}

TEST(Accumulation, ANewBatchSizeDropsWhatWasAdded) {
  Accumulation accumulation(1);
  EXPECT_FALSE(accumulation.SetBatchScale(1));
  accumulation.Add({1});
  EXPECT_FALSE(accumulation.SetBatchScale(1 + 1e-6));
  EXPECT_EQ(accumulation.count(), 1);
  EXPECT_TRUE(accumulation.SetBatchScale(2));
  EXPECT_EQ(accumulation.count(), 0);
  EXPECT_FALSE(accumulation.SetBatchScale(3));
}

TEST(NoiseScale, BeforeTheFirstEstimateLargerBatchesAreWorthNothing) {
  const NoiseScale noise({.groups = 2});
  EXPECT_THAT(noise.raw_sqr_avg(), ElementsAre(1, 1));
  EXPECT_THAT(noise.raw_var_avg(), ElementsAre(0, 0));
  EXPECT_EQ(noise.weight(), 0);
  EXPECT_NEAR(noise.Gain(8), 1, 1e-6);
}

TEST(NoiseScale, NonFiniteStepsChangeNothing) {
  NoiseScale noise({});
  UpdateMean(noise, 3, 2);
  const std::string before = noise.Save();
  EXPECT_EQ(UpdateMean(noise, 3, kNan), Outcome::kNotFinite);
  EXPECT_EQ(UpdateMean(noise, 3, kInfinity), Outcome::kNotFinite);
  EXPECT_EQ(UpdateMean(noise, kInfinity, 2), Outcome::kNotFinite);
  EXPECT_EQ(UpdateFirstOfPair(noise, kNan), Outcome::kNotFinite);
  EXPECT_EQ(noise.Save(), before);
}

TEST(NoiseScale, NonFiniteStepsDoNotEndTheDifferencedPhase) {
  NoiseScale noise({});
  UpdateFirstOfPair(noise, 2);
  UpdatePair(noise, 2, 2, 1);
  const std::string before = noise.Save();
  EXPECT_EQ(UpdateMean(noise, 3, kNan), Outcome::kNotFinite);
  EXPECT_EQ(noise.Save(), before);
}

TEST(NoiseScale, APreviousGradientThatIsNotFiniteIsPassedOver) {
  NoiseScale noise({});
  UpdateMean(noise, 3, 2);
  const double weight = noise.weight();
  EXPECT_EQ(UpdatePair(noise, 2, kInfinity, 1), Outcome::kSkipped);
  EXPECT_EQ(UpdatePair(noise, 2, 2, kNan), Outcome::kSkipped);
  EXPECT_EQ(noise.weight(), weight);
}

TEST(NoiseScale, MeansOfSeveralGradientsReplaceDifferencedEstimates) {
  NoiseScale noise({});
  EXPECT_EQ(UpdateFirstOfPair(noise, 5), Outcome::kSkipped);
  EXPECT_EQ(UpdatePair(noise, 5, 5, 1), Outcome::kUpdated);
  EXPECT_TRUE(noise.differenced());
  EXPECT_NEAR(noise.raw_sqr_avg()[0], 1, 1e-12);
  EXPECT_NEAR(noise.raw_var_avg()[0], 4, 1e-12);
  EXPECT_EQ(UpdateMean(noise, 7, 5), Outcome::kUpdated);
  EXPECT_FALSE(noise.differenced());
  EXPECT_NEAR(noise.raw_sqr_avg()[0], 3, 1e-12);
  EXPECT_NEAR(noise.raw_var_avg()[0], 4, 1e-12);
}

// A pass that does not come out even ends with a step of one gradient, whether it is compared or not.
TEST(NoiseScale, AStepOfOneGradientAmongOthersThrowsNothingAway) {
  NoiseScale with_tails({});
  NoiseScale without({});
  for (int step = 0; step < 300; ++step) {
    UpdateMean(with_tails, step % 2 == 0 ? 3 : 5, 2);
    UpdateMean(without, step % 2 == 0 ? 3 : 5, 2);
    if (step % 10 == 9) UpdateFirstOfPair(with_tails, 5);
  }
  ExpectSameAverages(with_tails, without);
  EXPECT_DOUBLE_EQ(with_tails.weight(), without.weight());
  // Compared ones are dropped, and what was there before them stays.
  const double weight = without.weight();
  UpdatePair(with_tails, 5, 5, 100);
  EXPECT_GT(with_tails.raw_sqr_avg()[0], without.raw_sqr_avg()[0] + .1);
  UpdateMean(with_tails, 3, 2);
  UpdateMean(without, 3, 2);
  EXPECT_NEAR(with_tails.raw_sqr_avg()[0], without.raw_sqr_avg()[0], 1e-3);
  EXPECT_GT(with_tails.weight(), weight - .01);
}

// The same as from a step of its own size, however large the one before it was.
TEST(NoiseScale, AShortStepOfAPairWeighsLittle) {
  NoiseScale noise({});
  for (int step = 0; step < 100; ++step) UpdatePair(noise, 3, 3, 1);
  const double before = noise.raw_sqr_avg()[0];
  const Numbers current = {300};
  const Numbers previous = {3};
  const Numbers dot = {20};
  noise.Update({.scale = 1.0 / 64,
                .total_sqr = current,
                .previous_sqr = previous,
                .previous_dot = dot,
                .previous_scale = 1});
  EXPECT_NEAR(noise.raw_sqr_avg()[0], before, .01);
}

TEST(NoiseScale, LossScalesOfBothGradientsOfAPairAreTakenOut) {
  NoiseScale plain({});
  UpdatePair(plain, 5, 3, 1);
  NoiseScale scaled({});
  const Numbers current = {5 * 64.0 * 64};
  const Numbers previous = {3 * 128.0 * 128};
  const Numbers dot = {64.0 * 128};
  scaled.Update({.total_sqr = current,
                 .previous_sqr = previous,
                 .previous_dot = dot,
                 .loss_scale = 64,
                 .previous_loss_scale = 128});
  ExpectSameAverages(plain, scaled);
}

TEST(NoiseScale, WeightsOfUnequalMicroBatchesAreTakenOut) {
  NoiseScale plain({});
  UpdateMean(plain, 3, 2);
  NoiseScale weighted({});
  const Numbers local = {3 * 40};
  const Numbers total = {2};
  weighted.Update({.count = 2, .scale = 2, .local_sqr = local, .local_weight = 40, .total_sqr = total});
  ExpectSameAverages(plain, weighted);
}

TEST(NoiseScale, TellsWhenTheScaleChanges) {
  NoiseScale noise({});
  EXPECT_FALSE(noise.ScaleChanged(2));
  EXPECT_FALSE(noise.ScaleChanged(2));
  EXPECT_FALSE(noise.ScaleChanged(2 + 1e-6));
  EXPECT_TRUE(noise.ScaleChanged(4));
  EXPECT_EQ(noise.prev_scale(), 4);
  EXPECT_FALSE(noise.ScaleChanged(4));
}

TEST(NoiseScale, ProgressIsTheSumOfGains) {
  NoiseScale noise({});
  UpdateMean(noise, 3, 2);
  noise.Advance(noise.Gain(2));
  noise.Advance(noise.Gain(4));
  EXPECT_DOUBLE_EQ(noise.progress(), noise.Gain(2) + noise.Gain(4));
}

TEST(NoiseScale, GainIsThatOfTheGoodputModel) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> estimate(-2, 10);
  for (int round = 0; round < 200; ++round) {
    NoiseScale noise({});
    UpdateMean(noise, estimate(random), estimate(random));
    const goodput::GoodputFunction goodput({.alpha_c = 1}, {noise.sqr_avg(), noise.var_avg()}, 32);
    for (const int scale : {1, 2, 7, 100}) {
      const double gain = noise.Gain(scale);
      EXPECT_GE(gain, 1 - 1e-12);
      EXPECT_LE(gain, scale * (1 + 1e-12));
      EXPECT_NEAR(gain, goodput.Gain(32.0 * scale), 1e-12 * scale);
      EXPECT_NEAR(gain / scale, goodput.Efficiency(32.0 * scale), 1e-12);
    }
  }
}

TEST(NoiseScale, PlansToMeasureEveryStep) {
  const NoiseScale noise({});
  ExpectPlan(noise.PlanStep(2, true), {.norms = true});
  ExpectPlan(noise.PlanStep(1, false), {.norms = true, .keep = true});
  ExpectPlan(noise.PlanStep(1, true), {.norms = true, .compare = true, .keep = true});
}

TEST(NoiseScale, PlansToMeasureOneStepInAPeriod) {
  NoiseScale noise({.period = 3});
  for (int round = 0; round < 3; ++round) {
    ExpectPlan(noise.PlanStep(2, false), {});
    noise.Update({.count = 2, .scale = 2});
    ExpectPlan(noise.PlanStep(2, false), {});
    ExpectPlan(noise.PlanStep(1, false), {.keep = true});
    noise.Update({.count = 2, .scale = 2});
    // Until it succeeds.
    ExpectPlan(noise.PlanStep(2, false), {.norms = true});
    EXPECT_EQ(UpdateMean(noise, 3, kNan), Outcome::kNotFinite);
    ExpectPlan(noise.PlanStep(1, false), {.norms = true, .keep = true});
    EXPECT_EQ(UpdateFirstOfPair(noise, 1), Outcome::kSkipped);
    ExpectPlan(noise.PlanStep(1, true), {.norms = true, .compare = true});
    EXPECT_EQ(UpdatePair(noise, 1, 1, .5), Outcome::kUpdated);
  }
}

// The past has the same weight after as many batches, however few of them were measured.
TEST(NoiseScale, MakesItsFirstEstimatesInEveryStep) {
  NoiseScale noise({.period = 4, .first_estimates = 2});
  for (int i = 0; i < 2; ++i) {
    ExpectPlan(noise.PlanStep(2, false), {.norms = true});
    ExpectPlan(noise.PlanStep(1, true), {.norms = true, .compare = true, .keep = true});
    UpdateMean(noise, 3, 2);
  }
  ExpectPlan(noise.PlanStep(2, false), {});
  NoiseScale loaded({.period = 4, .first_estimates = 2});
  ASSERT_TRUE(loaded.Load(noise.Save()).ok());
  ExpectPlan(loaded.PlanStep(2, false), {});
}

// So that a mean that happens to be near 0 does not promise that any batch pays.
TEST(NoiseScale, BoundsTheGradientByHowMuchItsEstimatesScatter) {
  NoiseScale noise({});
  EXPECT_EQ(noise.sqr_bound(), noise.sqr_avg());
  // An estimate of 2 * 2 - 3 = 1.
  UpdateMean(noise, 3, 2);
  EXPECT_DOUBLE_EQ(noise.sqr_bound(), 3);
  // 5 and -3 in turn.
  NoiseScale scattered({});
  for (int i = 0; i < 400; ++i) UpdateMean(scattered, i % 2 == 0 ? 1 : 9, 3);
  EXPECT_NEAR(scattered.sqr_avg(), 1, 0.02);
  EXPECT_NEAR(scattered.sqr_bound(), 1 + 2 * 4 / std::sqrt(400.0), 0.1);
  NoiseScale loaded({});
  ASSERT_TRUE(loaded.Load(scattered.Save()).ok());
  EXPECT_DOUBLE_EQ(loaded.sqr_bound(), scattered.sqr_bound());
  // One that has fallen does not scatter: the bound is soon as near as the mean itself, which remembers it longest.
  NoiseScale fallen({.smoothing = 0.99});
  for (int i = 0; i < 300; ++i) UpdateMean(fallen, 3000, 2000);
  for (int i = 0; i < 500; ++i) UpdateMean(fallen, 3, 2);
  EXPECT_LT(fallen.sqr_bound(), 1.5 * fallen.sqr_avg());
  // Alike estimates leave no doubt.
  NoiseScale sure({});
  for (int i = 0; i < 100; ++i) UpdateMean(sure, 3, 2);
  EXPECT_NEAR(sure.sqr_bound(), 1, 1e-6);
}

// A lucky estimate must not scale a learning rate by all of the batch.
TEST(NoiseScale, GainsAreDoubtedAsLongAsEstimatesAreFew) {
  NoiseScale noise({.groups = 2});
  EXPECT_DOUBLE_EQ(noise.CertainGain(64), 1);
  // Estimates of sqr of 0 and 1, of var of 12 and 11.
  const Numbers local = {24, 24};
  const Numbers total = {6, 6.5};
  noise.Update({.count = 2, .scale = 2, .local_sqr = {local}, .local_weight = 2, .total_sqr = total});
  for (const double scale : {1.0, 2.0, 64.0}) {
    const NoiseScale::Certain certain = noise.CertainAt(scale);
    for (size_t group = 0; group < 2; ++group) {
      const double sqr = noise.raw_sqr_avg()[group];
      const double var = noise.raw_var_avg()[group];
      EXPECT_NEAR(certain.sqr[group] + certain.var[group] / scale, std::max(sqr + var / scale, 1.0), 1e-12);
      EXPECT_GE(certain.sqr[group], sqr - 1e-12);
      EXPECT_GE(certain.var[group], 0);
      EXPECT_LE(Gain(certain.sqr[group], certain.var[group], scale),
                1.001 + .25 * (Gain(sqr, var, scale) - 1));
    }
    EXPECT_LE(noise.CertainGain(scale), 1.001 + .25 * (noise.Gain(scale) - 1));
  }
  for (int i = 0; i < 20000; ++i) {
    noise.Update({.count = 2, .scale = 2, .local_sqr = {local}, .local_weight = 2, .total_sqr = total});
  }
  for (const double scale : {1.0, 2.0, 64.0}) {
    EXPECT_NEAR(noise.CertainGain(scale), noise.Gain(scale), .01 * scale);
    const NoiseScale::Certain certain = noise.CertainAt(scale);
    EXPECT_NEAR(Gain(certain.sqr[0], certain.var[0], scale), scale, .01 * scale);
  }
}

TEST(NoiseScale, GainsOfTinyGradientsAreDoubtedToo) {
  NoiseScale noise({});
  for (int step = 0; step < 1000; ++step) UpdateMean(noise, 1e-12, 1e-12);
  EXPECT_LT(noise.CertainGain(64), 2);
  const NoiseScale::Certain certain = noise.CertainAt(64);
  EXPECT_LT(Gain(certain.sqr[0], certain.var[0], 64), 2);
  NoiseScale none({});
  for (int step = 0; step < 1000; ++step) UpdateMean(none, 0, 0);
  EXPECT_LT(none.CertainGain(64), 2);
  EXPECT_LT(Gain(none.CertainAt(64).sqr[0], none.CertainAt(64).var[0], 64), 2);
}

// Steps that are too large turn the gradient each time. That is no noise.
TEST(NoiseScale, GradientsThatTurnAreWorthNoLargerSteps) {
  NoiseScale noise({});
  for (int step = 0; step < 1000; ++step) UpdatePair(noise, 1, 1, -.9);
  EXPECT_GT(noise.Gain(64), 60);
  EXPECT_LT(noise.CertainGain(1), 1 + 1e-9);
  const Numbers current = {1};
  const Numbers dot = {-.9};
  NoiseScale large({});
  for (int step = 0; step < 100; ++step) {
    large.Update({.scale = 64,
                  .total_sqr = current,
                  .previous_sqr = current,
                  .previous_dot = dot,
                  .previous_scale = 64});
  }
  EXPECT_GT(large.Gain(64), 60);
  EXPECT_LT(large.CertainGain(64), 8);
}

TEST(NoiseScale, MeasuringFewerStepsKeepsTheHorizon) {
  NoiseScale every({});
  NoiseScale fifth({.period = 5});
  for (int step = 0; step < 1000; ++step) {
    const double local = step < 600 ? 7 : 3;
    const int64_t count = 4;
    const double scale = step % 10 < 5 ? 2 : 3;
    UpdateMean(every, local, 2, count, scale);
    if (fifth.PlanStep(count, false).norms) {
      EXPECT_EQ(step % 5, 4);
      UpdateMean(fifth, local, 2, count, scale);
    } else {
      fifth.Update({.count = count, .scale = scale});
    }
    if (step % 5 == 4) {
      EXPECT_NEAR(every.weight(), fifth.weight(), 1e-12);
    }
  }
  EXPECT_NEAR(every.raw_sqr_avg()[0], fifth.raw_sqr_avg()[0], .01);
}

TEST(NoiseScale, MeasuringFewerPairsKeepsTheHorizon) {
  NoiseScale every({});
  NoiseScale fourth({.period = 4});
  bool kept = false;
  UpdateFirstOfPair(every, 3);
  for (int step = 0; step < 400; ++step) {
    UpdatePair(every, 3, 3, 1);
    const Plan plan = fourth.PlanStep(1, kept);
    if (plan.compare) {
      EXPECT_EQ(step % 4, 3);
      EXPECT_EQ(UpdatePair(fourth, 3, 3, 1), Outcome::kUpdated);
      EXPECT_NEAR(every.weight(), fourth.weight(), 1e-12);
    } else {
      fourth.Update({});
    }
    kept = plan.keep;
  }
}

NoiseScale Experienced() {
  NoiseScale noise({.groups = 2, .period = 2});
  const Numbers local = {1.0 / 3, 2};
  const Numbers total = {.1, -1e-17};
  for (int step = 0; step < 5; ++step) {
    noise.ScaleChanged(.7);
    noise.Update({.count = 3, .scale = .7});
    noise.Update({.count = 3, .scale = .7, .local_sqr = local, .total_sqr = total});
    noise.Advance(noise.Gain(.7));
  }
  noise.Update({.count = 1, .scale = .7});
  return noise;
}

TEST(NoiseScaleSave, GoesOnExactlyWhereItWas) {
  NoiseScale saved = Experienced();
  NoiseScale loaded({.groups = 2, .period = 2});
  ASSERT_TRUE(loaded.Load(saved.Save()).ok());
  EXPECT_EQ(loaded.Save(), saved.Save());
  EXPECT_EQ(loaded.progress(), saved.progress());
  EXPECT_EQ(loaded.prev_scale(), .7);
  EXPECT_EQ(loaded.raw_sqr_avg(), saved.raw_sqr_avg());
  EXPECT_EQ(loaded.raw_var_avg(), saved.raw_var_avg());
  const Numbers total = {1, 2};
  const Numbers dot = {.5, .25};
  for (NoiseScale* noise : {&saved, &loaded}) {
    ExpectPlan(noise->PlanStep(1, true), {.norms = true, .compare = true});
    noise->Update({.scale = 3, .total_sqr = total, .previous_sqr = total, .previous_dot = dot});
  }
  EXPECT_EQ(loaded.Save(), saved.Save());
}

TEST(NoiseScaleSave, ReadsWhatOlderVersionsSaved) {
  const std::string older =
      R"({"differenced":true,"prev_scale":0.0,"progress":7.0,"skipped_scale":0.0,"skipped_steps":0,)"
      R"("sqr_sum":[0.5],"var_sum":[1.5],"version":1,"weight":0.25})";
  NoiseScale noise({});
  ASSERT_TRUE(noise.Load(older).ok());
  EXPECT_THAT(noise.raw_sqr_avg(), ElementsAre(2));
  EXPECT_THAT(noise.raw_var_avg(), ElementsAre(6));
  EXPECT_EQ(noise.weight(), .25);
  EXPECT_EQ(noise.progress(), 7);
  // It was differenced: better estimates replace it.
  UpdateMean(noise, 3, 2);
  EXPECT_NEAR(noise.raw_sqr_avg()[0], 1, 1e-9);
}

TEST(NoiseScaleSave, AFreshStateComesBackFresh) {
  NoiseScale loaded({});
  ASSERT_TRUE(loaded.Load(NoiseScale({}).Save()).ok());
  EXPECT_THAT(loaded.raw_sqr_avg(), ElementsAre(1));
  EXPECT_THAT(loaded.raw_var_avg(), ElementsAre(0));
}

TEST(NoiseScaleSave, AnotherNumberOfGroupsIsRefused) {
  NoiseScale noise({.groups = 3});
  const std::string before = noise.Save();
  EXPECT_EQ(noise.Load(Experienced().Save()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(noise.Save(), before);
}

TEST(NoiseScaleSave, DamagedTextIsRefusedAndChangesNothing) {
  NoiseScale noise({.groups = 2});
  const std::string before = noise.Save();
  const std::string good = Experienced().Save();
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_EQ(noise.Load(good.substr(0, length)).code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(noise.Load(std::string(100000, '[')).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(noise.Load("null").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(noise.Save(), before);
}

TEST(NoiseScaleSave, NumbersOutOfRangeAreRefused) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> fields = {
      {"version", {"2", "null", "\"1\""}},
      {"progress", {"-1", "null", "1e999", "\"3\"", "[]"}},
      {"prev_scale", {"-0.5", "null"}},
      {"differenced", {"0", "null"}},
      {"sqr_sum", {"[1, null]", "[1]", "7", "[1, \"2\"]", "[[1], [2]]"}},
      {"var_sum", {"[1, null]", "[1]", "{}"}},
      {"weight", {"1.5", "-0.1", "null", "1e-320"}},
      {"skipped_steps", {"-1", "0.5", "1e300", "null"}},
      {"skipped_scale", {"-1", "null"}},
  };
  NoiseScale noise({.groups = 2});
  const std::string before = noise.Save();
  for (const auto& [name, values] : fields) {
    for (const std::string& value : values) {
      const std::string good = Experienced().Save();
      const size_t begin = good.find("\"" + name + "\":") + name.size() + 3;
      const size_t end = good[begin] == '[' ? good.find(']', begin) + 1 : good.find_first_of(",}", begin);
      const std::string bad = good.substr(0, begin) + value + good.substr(end);
      EXPECT_EQ(noise.Load(bad).code(), absl::StatusCode::kDataLoss) << bad;
    }
  }
  EXPECT_EQ(noise.Save(), before);
}

}  // namespace
}  // namespace adaptdl::elastic
