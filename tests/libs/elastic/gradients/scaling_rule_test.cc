#include "adaptdl/scaling_rule.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;
using ::testing::SizeIs;

std::vector<std::unique_ptr<ScalingRule>> AllRules() {
  std::vector<std::unique_ptr<ScalingRule>> rules;
  rules.push_back(std::make_unique<AdaScale>());
  rules.push_back(std::make_unique<AdamScale>());
  rules.push_back(std::make_unique<LinearScale>());
  rules.push_back(std::make_unique<SqrtScale>());
  rules.push_back(std::make_unique<LEGW>(0, 1000));
  return rules;
}

TEST(Gain, LiesBetweenOneAndTheScale) {
  EXPECT_NEAR(Gain(1, 2, 2), 1.5, 1e-12);
  EXPECT_NEAR(Gain(1, 2, 4), 2, 1e-12);
  EXPECT_NEAR(Gain(1, 2, 10), 2.5, 1e-12);
  EXPECT_NEAR(Gain(1, 2, .5), .6, 1e-12);
  EXPECT_NEAR(Gain(0, 2, 10), 10, 1e-12);
  EXPECT_NEAR(Gain(-3, 2, 10), 10, 1e-12);
  EXPECT_NEAR(Gain(1, -2, 10), 1, 1e-5);
  EXPECT_NEAR(Gain(0, 0, 10), 10, 1e-12);
}

TEST(ScalingRule, EveryRuleLeavesTheInitialBatchSizeAlone) {
  for (const auto& rule : AllRules()) {
    SCOPED_TRACE(rule->name());
    EXPECT_THAT(rule->Factors({.sqr = {1, 0, -1}, .var = {2, -1, 0}}), ElementsAre(1, 1, 1));
  }
}

TEST(ScalingRule, NoRuleExceedsTheScale) {
  for (const auto& rule : AllRules()) {
    SCOPED_TRACE(rule->name());
    const auto factors = rule->Factors({.scale = 8, .sqr = {1, 0, -1, 1e9}, .var = {2, -1, 0, 1e-9}});
    EXPECT_THAT(factors, AllOf(SizeIs(4), Each(AllOf(Ge(1), Le(8 * (1 + 1e-12))))));
  }
}

TEST(AdamScale, TakesAnyPower) {
  const StepContext step = {.scale = 4, .sqr = {1}, .var = {2}};
  EXPECT_THAT(AdamScale().Factors(step), ElementsAre(DoubleNear(std::sqrt(2), 1e-12)));
  EXPECT_THAT(AdamScale(.25).Factors(step), ElementsAre(DoubleNear(std::pow(2, .25), 1e-12)));
}

TEST(LEGW, WarmsUpOverMoreEpochsWithLargerBatches) {
  LEGW rule(10, 1000);
  StepContext step = {.sqr = {1, 1}, .var = {1, 1}, .progress = 5, .init_batch_size = 100};
  for (const double scale : {1, 4, 9}) {
    step.scale = scale;
    EXPECT_THAT(rule.Factors(step), Each(DoubleNear(5 / (100 * std::sqrt(scale)), 1e-12)));
  }
  step.progress = 1e6;
  EXPECT_THAT(rule.Factors(step), ElementsAre(3, 3));
}

TEST(LEGW, WithoutWarmUpStartsAtOnce) {
  EXPECT_THAT(LEGW(0, 1000).Factors({.scale = 4, .sqr = {1}, .var = {1}}), ElementsAre(2));
}

// As a program would write it.
class CubeRoot final : public ScalingRule {
 public:
  std::string name() const override { return "cube-root"; }
  void Initialize(int64_t init_batch_size, int parameter_groups) override {
    init_batch_size_ = init_batch_size;
    groups_ = static_cast<size_t>(parameter_groups);
  }
  std::vector<double> Factors(const StepContext& step) override {
    EXPECT_EQ(step.init_batch_size, init_batch_size_);
    return std::vector<double>(groups_, std::cbrt(step.scale));
  }

 private:
  int64_t init_batch_size_ = 0;
  size_t groups_ = 0;
};

TEST(ScalingRule, ProgramsWriteTheirOwn) {
  CubeRoot cube_root;
  ScalingRule& rule = cube_root;
  rule.Initialize(32, 2);
  EXPECT_THAT(rule.Factors({.scale = 8, .sqr = {1, 1}, .var = {1, 1}, .init_batch_size = 32}),
              ElementsAre(2, 2));
}

}  // namespace
}  // namespace adaptdl
