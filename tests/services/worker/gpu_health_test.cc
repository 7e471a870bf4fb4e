#include "services/worker/gpu_health.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::worker {
namespace {

using ::testing::HasSubstr;

class GpuHealthTest : public testing::Test {
 protected:
  // Samples of one kind, ten seconds apart, for so long; the first one at once.
  void Observe(const GpuSample& sample, absl::Duration duration = absl::ZeroDuration()) {
    for (const absl::Time end = now_ + duration; now_ <= end; now_ += absl::Seconds(10))
      health_.Observe(sample, now_);
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  GpuHealth health_{GpuHealthPolicy{}};
};

TEST_F(GpuHealthTest, ALostOneStaysLost) {
  Observe({});
  EXPECT_EQ(health_.problem(), "");
  Observe({.lost = "GPU is lost (NVML 15)"});
  EXPECT_THAT(health_.problem(), HasSubstr("GPU is lost (NVML 15)"));
  Observe({}, absl::Hours(1));
  EXPECT_THAT(health_.problem(), HasSubstr("restart of the worker"));
}

TEST_F(GpuHealthTest, NewMemoryErrorsCountAndOldOnesDont) {
  Observe({.uncorrected_errors = 3});
  Observe({.uncorrected_errors = 3});
  Observe({});  // it was not to be had
  EXPECT_EQ(health_.problem(), "");
  Observe({.uncorrected_errors = 5});
  const std::string problem = health_.problem();
  EXPECT_THAT(problem, HasSubstr("2 new uncorrected memory errors"));
  Observe({.uncorrected_errors = 9});
  EXPECT_EQ(health_.problem(), problem);
}

TEST_F(GpuHealthTest, CountsFromZeroWhenTheDriverWasLoadedAgain) {
  Observe({.uncorrected_errors = 7});
  Observe({.uncorrected_errors = 0});
  EXPECT_EQ(health_.problem(), "");
  Observe({.uncorrected_errors = 1});
  EXPECT_THAT(health_.problem(), HasSubstr("1 new"));
}

TEST_F(GpuHealthTest, HeatCountsOnlyWhenItLastsAndIsForgottenWhenItIsOver) {
  const GpuSample hot = {.slowdown = "hardware thermal slowdown"};
  Observe(hot, absl::Minutes(4));
  EXPECT_EQ(health_.problem(), "");
  EXPECT_EQ(health_.slowdown(), "hardware thermal slowdown");
  Observe(hot, absl::Minutes(2));
  EXPECT_THAT(health_.problem(), HasSubstr("slowed down by heat for 5m (hardware thermal slowdown)"));
  Observe({}, absl::Seconds(50));
  EXPECT_THAT(health_.problem(), HasSubstr("heat"));
  Observe({}, absl::Seconds(20));
  EXPECT_EQ(health_.problem(), "");
  EXPECT_EQ(health_.slowdown(), "");
  Observe(hot, absl::Minutes(4));
  EXPECT_EQ(health_.problem(), "");
}

TEST_F(GpuHealthTest, AMomentWithoutSlowdownDoesNotEndIt) {
  for (int minute = 0; minute < 6; ++minute) {
    Observe({.slowdown = "software thermal slowdown"}, absl::Seconds(40));
    Observe({});
  }
  EXPECT_THAT(health_.problem(), HasSubstr("heat"));
}

TEST_F(GpuHealthTest, WhatStaysIsToldBeforeHeat) {
  Observe({.slowdown = "hardware slowdown"}, absl::Minutes(6));
  health_.Lose("the driver does not answer for it");
  EXPECT_THAT(health_.problem(), HasSubstr("does not answer"));
}

}  // namespace
}  // namespace adaptdl::worker
