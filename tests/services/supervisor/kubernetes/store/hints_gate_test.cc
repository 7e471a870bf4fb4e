#include "services/supervisor/kubernetes/store/hints_gate.h"

#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

v1::Hints Hints() {
  v1::Hints hints;
  hints.set_init_batch_size(128);
  hints.set_max_profiled_replicas(2);
  v1::PerfParams* perf = hints.mutable_perf_params();
  perf->set_alpha_c(0.1);
  perf->set_beta_c(0.01);
  perf->set_alpha_n(0.2);
  perf->set_beta_n(0.05);
  perf->set_alpha_r(0.1);
  perf->set_beta_r(0.02);
  perf->set_gamma(1.5);
  hints.mutable_grad_params()->set_norm(0.5);
  hints.mutable_grad_params()->set_var(2);
  return hints;
}

TEST(HintsGateTest, NoiseOfTheFitIsNoNews) {
  const v1::Hints before = Hints();
  EXPECT_FALSE(HintsMoved(before, before, 4));
  v1::Hints now = before;
  now.mutable_perf_params()->set_beta_c(0.0101);
  now.mutable_perf_params()->set_beta_n(0.051);
  now.mutable_grad_params()->set_var(2.05);
  EXPECT_FALSE(HintsMoved(before, now, 4));
}

TEST(HintsGateTest, AnotherSpeedIsNews) {
  v1::Hints now = Hints();
  now.mutable_perf_params()->set_beta_c(0.012);
  EXPECT_TRUE(HintsMoved(Hints(), now, 4));
}

TEST(HintsGateTest, ANetworkThatOnlyMoreReplicasWouldFeelIsNews) {
  v1::Hints now = Hints();
  now.mutable_perf_params()->set_beta_n(0.5);
  // One replica exchanges nothing, and two do not pay for a third.
  EXPECT_FALSE(HintsMoved(Hints(), now, 1));
  EXPECT_TRUE(HintsMoved(Hints(), now, 2));
}

TEST(HintsGateTest, AnotherNoiseScaleIsNews) {
  v1::Hints now = Hints();
  now.mutable_grad_params()->set_norm(0.45);
  EXPECT_TRUE(HintsMoved(Hints(), now, 4));
  // Both together say the same.
  now.mutable_grad_params()->set_var(1.8);
  EXPECT_FALSE(HintsMoved(Hints(), now, 4));
}

TEST(HintsGateTest, WhatIsNoEstimateIsNewsAlways) {
  v1::Hints now = Hints();
  now.set_max_profiled_replicas(3);
  EXPECT_TRUE(HintsMoved(Hints(), now, 4));
  now = Hints();
  now.clear_perf_params();
  EXPECT_TRUE(HintsMoved(Hints(), now, 4));
  EXPECT_TRUE(HintsMoved(now, Hints(), 4));
  EXPECT_FALSE(HintsMoved(now, now, 0));
}

}  // namespace
}  // namespace adaptdl::supervisor
