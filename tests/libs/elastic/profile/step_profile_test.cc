#include "libs/elastic/profile/step_profile.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/elastic/control/fake_control_plane.h"
#include "libs/elastic/profile/hints_reporter.h"
#include "nlohmann/json.hpp"
#include "tests/vectors/vectors.h"

namespace adaptdl::elastic {
namespace {

TEST(StepProfile, AggregatesLikeTheReference) {
  const auto vector = ReadVectors("dataloader.json").at("metrics_aggregation");
  StepProfile profile;
  nlohmann::json rows = vector.at("profile");
  for (auto& row : rows) {
    row["local_batch_size"] = row.at("atomic_bsz");
    for (const char* key :
         {"accum_step_time", "accum_count", "optim_step_time", "optim_sync_time", "optim_count"}) {
      if (!row.contains(key)) row[key] = 0;
    }
  }
  ASSERT_TRUE(profile.Load(rows.dump()).ok());
  const auto& expected = vector.at("fit_args");
  const auto measurements = profile.Measurements();
  ASSERT_EQ(measurements.size(), expected.at("num_nodes").size());
  for (size_t i = 0; i < measurements.size(); ++i) {
    EXPECT_EQ(measurements[i].nodes, expected.at("num_nodes").at(i));
    EXPECT_EQ(measurements[i].replicas, expected.at("num_replicas").at(i));
    EXPECT_EQ(measurements[i].atomic_batch_size, expected.at("atomic_bsz").at(i));
    EXPECT_DOUBLE_EQ(measurements[i].accum_time, expected.at("accum_step_time").at(i));
    EXPECT_DOUBLE_EQ(measurements[i].optim_time, expected.at("optim_step_time").at(i));
  }
}

TEST(StepProfile, SurvivesSavingAndAddsUpWhatItLoads) {
  StepProfile profile;
  profile.AddOptimizerStep({1, 2, 32}, 0.5, 0.1);
  profile.AddAccumulationStep({1, 2, 32}, 0.25);
  StepProfile other;
  other.AddOptimizerStep({1, 2, 32}, 0.5, 0.1);
  ASSERT_TRUE(other.Load(profile.Save()).ok());
  const ProfileEntry entry = other.Entries().at({1, 2, 32});
  // Not exactly: the older half is a second of training old.
  EXPECT_NEAR(entry.optim_count, 2, 1e-3);
  EXPECT_NEAR(entry.optim_step_time, 1.0, 1e-3);
  EXPECT_NEAR(entry.optim_sync_time, 0.2, 1e-3);
  EXPECT_NEAR(entry.accum_count, 1, 1e-3);
  EXPECT_DOUBLE_EQ(entry.measured, 1.25);
  EXPECT_DOUBLE_EQ(other.AddedSeconds(), 0.5);
  EXPECT_EQ(other.Load("{nonsense").code(), absl::StatusCode::kDataLoss);
}

TEST(StepProfile, DoesNotTrustMoreWaitingThanThereWasTime) {
  StepProfile profile;
  profile.AddOptimizerStep({1, 2, 32}, 0.5, 0.7);
  EXPECT_TRUE(profile.Measurements().empty());
  profile.AddAccumulationStep({1, 2, 32}, 0.5);
  ASSERT_EQ(profile.Measurements().size(), 1u);
  EXPECT_NEAR(profile.Measurements()[0].accum_time, 0.25, 1e-3);
}

TEST(StepProfile, NewStepsOfAConfigurationReplaceOldOnes) {
  StepProfile profile(/*half_life=*/100);
  for (int i = 0; i < 1000; ++i) profile.AddOptimizerStep({1, 2, 32}, 1, 0);
  for (int i = 0; i < 50; ++i) profile.AddOptimizerStep({1, 2, 32}, 2, 0);
  // A half-life later, half of what counts is new.
  ASSERT_EQ(profile.Measurements().size(), 1u);
  EXPECT_NEAR(profile.Measurements()[0].optim_time, 1 / (0.5 + 0.5 / 2), 0.01);
  EXPECT_NEAR(profile.Entries().at({1, 2, 32}).optim_step_time, 100 / std::log(2), 2);
}

TEST(StepProfile, ConfigurationsThatWereMeasuredLongAgoCountLess) {
  StepProfile before(/*half_life=*/100);
  for (int i = 0; i < 10; ++i) before.AddOptimizerStep({1, 1, 64}, 1, 0);
  StepProfile profile(/*half_life=*/100);
  ASSERT_TRUE(profile.Load(before.Save()).ok());
  for (int i = 0; i < 200; ++i) profile.AddOptimizerStep({1, 2, 32}, 1, 0);
  const auto measurements = profile.Measurements();
  ASSERT_EQ(measurements.size(), 2u);
  EXPECT_DOUBLE_EQ(measurements[0].weight, 0.25);
  EXPECT_DOUBLE_EQ(measurements[1].weight, 1);
  // It does not grow older while the job waits.
  StepProfile after(/*half_life=*/100);
  ASSERT_TRUE(after.Load(profile.Save()).ok());
  EXPECT_DOUBLE_EQ(after.Measurements()[0].weight, 0.25);
}

TEST(StepProfile, TakesWhatVersionsWithoutAgesSavedAsFresh) {
  const std::string old =
      R"([{"num_nodes":1,"num_replicas":2,"local_batch_size":32,"accum_step_time":0.0,"accum_count":0,)"
      R"("optim_step_time":5.0,"optim_sync_time":1.0,"optim_count":10}])";
  StepProfile profile;
  ASSERT_TRUE(profile.Load(old).ok());
  ASSERT_EQ(profile.Measurements().size(), 1u);
  EXPECT_DOUBLE_EQ(profile.Measurements()[0].optim_time, 0.5);
  EXPECT_DOUBLE_EQ(profile.Measurements()[0].accum_time, 0.4);
  EXPECT_DOUBLE_EQ(profile.Measurements()[0].weight, 1);
  EXPECT_EQ(profile.MaxProfiledReplicas(), 2);
}

TEST(StepProfile, LeavesOutliersOut) {
  StepProfile profile;
  for (int i = 0; i < 100; ++i) {
    profile.AddOptimizerStep({1, 2, 32}, i % 10 == 9 ? 51.0 : 1.0, 0.5);
    profile.AddAccumulationStep({1, 2, 32}, i % 10 == 9 ? 26.0 : 0.5);
  }
  const auto measurements = profile.Measurements();
  ASSERT_EQ(measurements.size(), 1u);
  EXPECT_NEAR(measurements[0].optim_time, 1, 1e-9);
  EXPECT_NEAR(measurements[0].accum_time, 0.5, 1e-9);
  // Times that vary by less count, all of them.
  StepProfile uneven;
  for (int i = 0; i < 100; ++i) uneven.AddOptimizerStep({1, 2, 32}, i % 2 == 0 ? 1.0 : 4.9, 0);
  EXPECT_NEAR(uneven.Entries().at({1, 2, 32}).optim_count, 100, 10);
}

TEST(StepProfile, TheFirstStepMayBeTheOutlier) {
  StepProfile profile;
  profile.AddOptimizerStep({1, 1, 64}, 60, 0);
  // Until there is another one, it is the best that is known.
  ASSERT_EQ(profile.Measurements().size(), 1u);
  for (int i = 0; i < 2; ++i) profile.AddOptimizerStep({1, 1, 64}, 1, 0);
  EXPECT_NEAR(profile.Measurements()[0].optim_time, 1, 1e-9);
  StepProfile restored;
  ASSERT_TRUE(restored.Load(profile.Save()).ok());
  EXPECT_NEAR(restored.Measurements()[0].optim_time, 1, 1e-9);
  for (int i = 0; i < 100; ++i) profile.AddOptimizerStep({1, 1, 64}, 1, 0);
  EXPECT_NEAR(profile.Measurements()[0].optim_time, 1, 1e-9);
}

TEST(StepProfile, BelievesThatAJobHasBecomeMuchSlower) {
  StepProfile profile;
  for (int i = 0; i < 100; ++i) profile.AddOptimizerStep({1, 1, 64}, 1, 0);
  for (int i = 0; i < 15; ++i) profile.AddOptimizerStep({1, 1, 64}, 10, 0);
  EXPECT_NEAR(profile.Measurements()[0].optim_time, 1, 1e-9);
  for (int i = 0; i < 20000; ++i) profile.AddOptimizerStep({1, 1, 64}, 10, 0);
  EXPECT_NEAR(profile.Measurements()[0].optim_time, 10, 1e-3);
}

class HintsReporterTest : public ::testing::Test {
 protected:
  StepProfile profile_;
  FakeControlPlane control_{GroupMembership{}};
  HintsReporter reporter_{&profile_, &control_, {.first_after = 5, .period = 30}};
};

TEST_F(HintsReporterTest, WaitsForEnoughStepsThenReportsPeriodically) {
  EXPECT_FALSE(reporter_.Tick(0));
  reporter_.SetBatchSize(64);
  profile_.AddOptimizerStep({1, 1, 64}, 4.9, 0);
  EXPECT_FALSE(reporter_.Tick(1));
  profile_.AddOptimizerStep({1, 1, 64}, 0.2, 0);
  EXPECT_TRUE(reporter_.Tick(2));
  EXPECT_FALSE(reporter_.Tick(31));
  EXPECT_TRUE(reporter_.Tick(32));
}

TEST_F(HintsReporterTest, TellsOfMoreReplicasAheadOfTime) {
  reporter_.SetBatchSize(64);
  profile_.AddOptimizerStep({1, 1, 64}, 6, 0);
  ASSERT_TRUE(reporter_.Tick(0));
  profile_.AddOptimizerStep({1, 2, 64}, 1, 0);
  EXPECT_FALSE(reporter_.Tick(10)) << "two are measured from now on";
  profile_.AddOptimizerStep({1, 2, 64}, 4, 0);
  EXPECT_FALSE(reporter_.Tick(11)) << "one step more is missing";
  profile_.AddOptimizerStep({1, 2, 64}, 1, 0);
  EXPECT_TRUE(reporter_.Tick(12));
  profile_.AddOptimizerStep({1, 1, 64}, 6, 0);
  EXPECT_FALSE(reporter_.Tick(18)) << "of fewer replicas than before the next report tells";
  EXPECT_TRUE(reporter_.Tick(42));
}

TEST_F(HintsReporterTest, SaysWhatWasMeasured) {
  reporter_.SetBatchSize(64);
  for (int i = 0; i < 100; ++i) {
    profile_.AddOptimizerStep({1, 1, 64}, 0.10, 0);
    profile_.AddOptimizerStep({1, 2, 32}, 0.07, 0.02);
  }
  ASSERT_TRUE(reporter_.Tick(0));
  const Hints hints = control_.AwaitHints();
  EXPECT_EQ(hints.init_batch_size, 64);
  EXPECT_EQ(hints.max_profiled_replicas, 2);
  EXPECT_FALSE(hints.max_batch_size.has_value());
  EXPECT_FALSE(hints.gradient_accumulation);
  EXPECT_FALSE(hints.grad_params.has_value());
  ASSERT_TRUE(hints.perf_params.has_value());
  const HintPerfParams& perf = *hints.perf_params;
  EXPECT_NEAR(perf.alpha_c + 64 * perf.beta_c, 0.10, 0.01);
  EXPECT_GE(perf.gamma, 1);
}

TEST_F(HintsReporterTest, SaysWhatTheJobMayUse) {
  reporter_.SetBatchSize(64, {.max_batch_size = 512, .min_local = 8, .max_local = 96, .accumulation = true});
  reporter_.SetGradParams({.sqr = 0.25, .var = 4});
  profile_.AddOptimizerStep({1, 1, 64}, 6, 0);
  ASSERT_TRUE(reporter_.Tick(0));
  const Hints hints = control_.AwaitHints();
  EXPECT_EQ(hints.max_batch_size, 512);
  EXPECT_EQ(hints.min_local_batch_size, 8);
  EXPECT_EQ(hints.max_local_batch_size, 96);
  EXPECT_TRUE(hints.gradient_accumulation);
  ASSERT_TRUE(hints.grad_params.has_value());
  EXPECT_EQ(hints.grad_params->norm, 0.25);
  EXPECT_EQ(hints.grad_params->var, 4);
}

TEST_F(HintsReporterTest, FollowsAJobThatGotSlower) {
  reporter_.SetBatchSize(64);
  // Ten half-lives ago one replica was fast; the job's present size is what counts, and it fits the model of
  // neither.
  for (int i = 0; i < 360; ++i) profile_.AddOptimizerStep({1, 1, 64}, 1, 0);
  for (int i = 0; i < 360; ++i) profile_.AddOptimizerStep({1, 1, 32}, 0.6, 0);
  for (int i = 0; i < 18000; ++i) profile_.AddOptimizerStep({1, 2, 32}, 2, 0);
  ASSERT_TRUE(reporter_.Tick(0));
  const HintPerfParams perf = *control_.AwaitHints().perf_params;
  EXPECT_NEAR(perf.alpha_c + 32 * perf.beta_c, 2, 0.1);
}

TEST_F(HintsReporterTest, GpuTypesAreFittedByThemselves) {
  reporter_.SetBatchSize(64);
  for (int i = 0; i < 100; ++i) profile_.AddOptimizerStep({1, 1, 64, {"A100"}}, 0.05, 0);
  for (int i = 0; i < 100; ++i) profile_.AddOptimizerStep({2, 2, 32, {"A100", "T4"}}, 0.2, 0.01);
  StepProfile restored;
  ASSERT_TRUE(restored.Load(profile_.Save()).ok());
  // On both at once: the present speed, and that of neither type.
  Hints hints = MakeHints(restored, {.init_batch_size = 64, .limits = {}, .grad_params = {}});
  EXPECT_EQ(hints.perf_params_by_gpu_type.size(), 1u);
  EXPECT_NEAR(hints.perf_params->alpha_c + 32 * hints.perf_params->beta_c, 0.19, 0.01);
  for (int i = 0; i < 100; ++i) restored.AddOptimizerStep({1, 1, 64, {"T4"}}, 0.2, 0);
  hints = MakeHints(restored, {.init_batch_size = 64, .limits = {}, .grad_params = {}});
  ASSERT_EQ(hints.perf_params_by_gpu_type.size(), 2u);
  const HintPerfParams& fast = hints.perf_params_by_gpu_type.at("A100");
  const HintPerfParams& slow = hints.perf_params_by_gpu_type.at("T4");
  EXPECT_NEAR(fast.alpha_c + 64 * fast.beta_c, 0.05, 0.005);
  EXPECT_NEAR(slow.alpha_c + 64 * slow.beta_c, 0.2, 0.02);
  EXPECT_DOUBLE_EQ(hints.perf_params->beta_c, slow.beta_c) << "it runs on T4 now";
  EXPECT_EQ(hints.max_profiled_replicas, 2);
}

TEST_F(HintsReporterTest, JobsOfCpusHaveNoGpuType) {
  reporter_.SetBatchSize(64);
  for (int i = 0; i < 100; ++i) profile_.AddOptimizerStep({1, 1, 64}, 0.1, 0);
  ASSERT_TRUE(reporter_.Tick(0));
  const Hints hints = control_.AwaitHints();
  EXPECT_TRUE(hints.perf_params.has_value());
  EXPECT_TRUE(hints.perf_params_by_gpu_type.empty());
}

}  // namespace
}  // namespace adaptdl::elastic
