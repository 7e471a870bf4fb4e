#include "libs/elastic/job/progress_tracker.h"

#include <cmath>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

TEST(ProgressTrackerTest, CountsStepsAndWhatTheyAreWorth) {
  ProgressTracker progress;
  progress.CountStep(1);
  progress.CountStep(2.5);
  EXPECT_EQ(progress.optimizer_steps(), 2);
  EXPECT_EQ(progress.scale_invariant_steps(), 3.5);
  EXPECT_EQ(progress.last_gain(), 2.5);
}

TEST(ProgressTrackerTest, TheWholeIsUnknownWithoutEpochs) {
  ProgressTracker progress;
  progress.SetLoop({.loop_fraction = 0.5, .loop_steps = 10});
  EXPECT_LT(progress.Report(0).fraction, 0);
  EXPECT_EQ(progress.Report(0).total_scale_invariant_steps, 0);
}

TEST(ProgressTrackerTest, ReportsThePartOfAllEpochsThatIsDone) {
  ProgressTracker progress;
  progress.SetTotalEpochs(4);
  progress.SetLoop(
      {.batch_size = 64, .atomic_batch_size = 8, .micro_batches = 2, .loop_fraction = 0.5, .loop_steps = 10});
  const Progress report = progress.Report(/*finished_epochs=*/1);
  EXPECT_DOUBLE_EQ(report.fraction, 1.5 / 4);
  EXPECT_EQ(report.total_scale_invariant_steps, 40);
  EXPECT_EQ(report.epoch, 1);
  EXPECT_EQ(report.total_batch_size, 64);
  EXPECT_EQ(report.local_batch_size, 8);
  EXPECT_EQ(report.accumulation_steps, 1);
  // The last batch of an epoch, of what was left.
  progress.SetLoop(
      {.batch_size = 64, .atomic_batch_size = 3, .micro_batches = 1, .typical = false, .loop_fraction = 1});
  EXPECT_EQ(progress.Report(1).local_batch_size, 8);
  EXPECT_EQ(progress.Report(1).accumulation_steps, 1);
  progress.FinishPass();
  EXPECT_DOUBLE_EQ(progress.Report(/*finished_epochs=*/2).fraction, 0.5);
  EXPECT_DOUBLE_EQ(progress.Report(/*finished_epochs=*/9).fraction, 1);
}

TEST(ProgressTrackerTest, WhatStepsAreLikeIsAMeanOfTheLastOnes) {
  ProgressTracker progress;
  EXPECT_FALSE(progress.Report(0).step_times.has_value());
  progress.AddStep(100, {.compute = 2, .sync = 1, .data = 0});
  EXPECT_DOUBLE_EQ(progress.Report(0).throughput, 100);
  progress.AddStep(200, {.compute = 4, .sync = 0, .data = 1});
  EXPECT_DOUBLE_EQ(progress.Report(0).throughput, 150);
  EXPECT_DOUBLE_EQ(progress.Report(0).step_times->compute, 3);
  EXPECT_DOUBLE_EQ(progress.Report(0).step_times->sync, 0.5);
  EXPECT_DOUBLE_EQ(progress.Report(0).step_times->data, 0.5);
  for (int i = 0; i < 98; ++i) progress.AddStep(150, {.compute = 3});
  progress.AddStep(250, {.compute = 3});
  EXPECT_NEAR(progress.Report(0).throughput, 155, 0.01) << "the newest counts for a twentieth";
}

TEST(ProgressTrackerTest, StepsOfAnotherGroupCountUntilThereIsOneOfThis) {
  ProgressTracker progress;
  for (int i = 0; i < 30; ++i) progress.AddStep(100, {.compute = 1});
  progress.RestartMeans();
  EXPECT_DOUBLE_EQ(progress.Report(0).throughput, 100);
  EXPECT_DOUBLE_EQ(progress.Report(0).step_times->compute, 1);
  progress.AddStep(300, {.compute = 4});
  EXPECT_DOUBLE_EQ(progress.Report(0).throughput, 300);
  EXPECT_DOUBLE_EQ(progress.Report(0).step_times->compute, 4);
}

TEST(ProgressTrackerTest, TheNoiseScaleIsTheBatchAtWhichNoiseAndSignalAreAlike) {
  ProgressTracker progress;
  EXPECT_EQ(progress.Report(0).gradient_noise_scale, 0);
  // With 32 samples there is four times as much noise as signal: with 128 as much.
  progress.SetGradients(
      {.sqr = 0.5, .var = 2, .init_batch_size = 32, .scale = 4, .learning_rate_factor = 1.6});
  const Progress report = progress.Report(0);
  EXPECT_DOUBLE_EQ(report.gradient_noise_scale, 128);
  // Pollux, section 3.1: (noise scale + initial batch size) / (noise scale + batch size).
  EXPECT_DOUBLE_EQ(report.efficiency, (128.0 + 32) / (128.0 + 128));
  EXPECT_DOUBLE_EQ(report.learning_rate_factor, 1.6);
}

TEST(ProgressTrackerTest, WhatGradientsDoNotTellIsUnknown) {
  ProgressTracker progress;
  progress.SetGradients({.sqr = 1, .var = 1, .scale = 2, .learning_rate_factor = 2});
  for (const double sqr : {-1.0, std::nan(""), HUGE_VAL}) {
    progress.SetGradients({.sqr = sqr, .var = 1, .scale = 2});
    EXPECT_EQ(progress.Report(0).gradient_noise_scale, 0);
    EXPECT_EQ(progress.Report(0).efficiency, 0);
    EXPECT_EQ(progress.Report(0).learning_rate_factor, 2) << "that of the last step that had one";
  }
  progress.SetGradients({.sqr = 0, .var = 1, .scale = 2});
  EXPECT_EQ(progress.Report(0).gradient_noise_scale, 0) << "it is beyond all bounds";
  EXPECT_DOUBLE_EQ(progress.Report(0).efficiency, 1);
  progress.SetGradients({.sqr = 1e-300, .var = 1e149, .scale = 2});
  EXPECT_EQ(progress.Report(0).gradient_noise_scale, 0);
}

TEST(ProgressTrackerTest, AStepThatIsLeftOutSaysNothingOfTheGain) {
  ProgressTracker progress;
  progress.CountStep(1.5);
  progress.CountStep(0);
  EXPECT_EQ(progress.Report(0).gain, 1.5);
}

TEST(ProgressTrackerTest, GoesOnFromWhatWasSaved) {
  ProgressTracker before;
  before.CountStep(3);
  before.SetLoop({.loop_fraction = 0.25});
  before.SetSurplus(0.5);
  nlohmann::json job;
  before.Save(&job);
  ProgressTracker after;
  after.Load(job);
  EXPECT_EQ(after.optimizer_steps(), 1);
  EXPECT_EQ(after.scale_invariant_steps(), 3);
  EXPECT_EQ(after.surplus(), 0.5);
  after.SetTotalEpochs(1);
  EXPECT_DOUBLE_EQ(after.Report(0).fraction, 0.25);
}

TEST(ProgressTrackerTest, StepsOfOldCheckpointsWereWorthOneEach) {
  ProgressTracker progress;
  progress.Load({{"optimizer_steps", 7}});
  EXPECT_EQ(progress.scale_invariant_steps(), 7);
}

TEST(ProgressTrackerTest, TakesAnothersStepOver) {
  ProgressTracker one, other;
  one.CountStep(2);
  nlohmann::json step;
  one.SaveStep(&step);
  other.LoadStep(step);
  EXPECT_EQ(other.optimizer_steps(), 1);
  EXPECT_EQ(other.scale_invariant_steps(), 2);
  EXPECT_EQ(other.last_gain(), 2);
}

}  // namespace
}  // namespace adaptdl::elastic
