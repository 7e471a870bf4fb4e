#include "libs/elastic/job/step_meter.h"

#include "gtest/gtest.h"
#include "tests/libs/elastic/test_host.h"

namespace adaptdl::elastic {
namespace {

constexpr int64_t kBatch = 8;

class StepMeterTest : public testing::Test {
 protected:
  // A step of micro-batches of so many seconds.
  StepMeter::StepTime Step(const std::vector<double>& micro_batches, bool typical = true, double sync = 0) {
    for (size_t i = 0; i < micro_batches.size(); ++i) {
      meter_.BeginMicroBatch();
      host_.now += micro_batches[i];
      if (i + 1 < micro_batches.size()) meter_.FinishMicroBatch();
    }
    meter_.AddSync(sync);
    const auto time = meter_.FinishStep({1, 2, kBatch}, typical);
    meter_.DropTimes();
    meter_.Resume();
    return time;
  }

  TestHost host_;
  StepMeter meter_{host_.clock()};
};

TEST_F(StepMeterTest, TheFirstStepSaysNothing) {
  const auto first = Step({9});
  EXPECT_TRUE(first.first);
  EXPECT_FALSE(first.profiled);
  EXPECT_TRUE(Step({1}).profiled);
  EXPECT_EQ(meter_.profile().AddedSeconds(), 1);
}

TEST_F(StepMeterTest, MicroBatchesAreProfiledByThemselves) {
  Step({1});
  for (int i = 0; i < 5; ++i) EXPECT_DOUBLE_EQ(Step({1, 1, 2}, /*typical=*/true, /*sync=*/0.5).seconds, 4);
  const ProfileEntry entry = meter_.profile().Entries().at({1, 2, kBatch});
  EXPECT_NEAR(entry.accum_step_time / entry.accum_count, 1, 1e-9);
  EXPECT_NEAR(entry.optim_step_time / entry.optim_count, 2, 1e-9);
  EXPECT_NEAR(entry.optim_sync_time / entry.optim_count, 0.5, 1e-9);
}

TEST_F(StepMeterTest, StepsThatAreNotTypicalAreNotProfiled) {
  Step({1});
  const auto time = Step({5}, /*typical=*/false);
  EXPECT_EQ(time.seconds, 5);
  EXPECT_FALSE(time.profiled);
  EXPECT_FALSE(Step({0}).profiled) << "a clock that stands still";
}

TEST_F(StepMeterTest, TimeBetweenStepsCountsTowardsTheNext) {
  Step({1});
  host_.now += 3;
  EXPECT_EQ(Step({1}).seconds, 4);
  meter_.Pause();
  host_.now += 100;
  EXPECT_EQ(Step({1}).seconds, 1);
}

TEST_F(StepMeterTest, DroppedTimesCountForNothing) {
  Step({1});
  meter_.BeginMicroBatch();
  host_.now += 7;
  meter_.FinishMicroBatch();
  meter_.DropTimes();
  meter_.Resume();
  EXPECT_EQ(Step({1}).seconds, 1);
}

}  // namespace
}  // namespace adaptdl::elastic
