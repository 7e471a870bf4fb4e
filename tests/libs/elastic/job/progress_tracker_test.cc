#include "libs/elastic/job/progress_tracker.h"

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
  progress.FinishPass();
  EXPECT_DOUBLE_EQ(progress.Report(/*finished_epochs=*/2).fraction, 0.5);
  EXPECT_DOUBLE_EQ(progress.Report(/*finished_epochs=*/9).fraction, 1);
}

TEST(ProgressTrackerTest, ThroughputFollowsSlowly) {
  ProgressTracker progress;
  progress.AddThroughput(100);
  EXPECT_DOUBLE_EQ(progress.Report(0).throughput, 100);
  progress.AddThroughput(200);
  EXPECT_DOUBLE_EQ(progress.Report(0).throughput, 105);
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
