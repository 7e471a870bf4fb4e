#include "libs/elastic/job/step_meter.h"

#include <atomic>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "libs/device/guarded_device.h"
#include "tests/libs/device/device_memory.h"
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
    meter_.FinishStep({.key = {1, 2, kBatch}, .samples = kBatch, .typical = typical});
    const auto times = meter_.TakeTimes();
    meter_.DropTimes();
    meter_.Resume();
    EXPECT_EQ(times.size(), 1);
    return times.at(0);
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

TEST_F(StepMeterTest, TellsWaitingForSamplesAndForReplicasFromTheRest) {
  Step({1});
  // Two micro-batches, whose samples take 2 and 1 seconds, and a loader that reads before the first one begins.
  host_.now += 0.5;
  meter_.BeginMicroBatch();
  host_.now += 2;
  meter_.MarkRead();
  host_.now += 3;
  meter_.FinishMicroBatch();
  meter_.BeginMicroBatch();
  host_.now += 1;
  meter_.MarkRead();
  host_.now += 4;
  meter_.AddSync(0.25);
  meter_.FinishStep({.key = {1, 2, kBatch}, .samples = kBatch});
  const StepMeter::StepTime time = meter_.TakeTimes().at(0);
  EXPECT_DOUBLE_EQ(time.seconds, 10.5);
  EXPECT_DOUBLE_EQ(time.data, 3.5);
  EXPECT_DOUBLE_EQ(time.sync, 0.25);
  meter_.DropTimes();
  meter_.Resume();
  EXPECT_EQ(Step({1}).data, 0) << "nobody has said when its samples were there";
}

TEST_F(StepMeterTest, PartsAreNeverMoreThanTheStep) {
  Step({1});
  meter_.BeginMicroBatch();
  host_.now += 2;
  meter_.MarkRead();
  meter_.AddSync(9);
  meter_.FinishStep({.key = {1, 2, kBatch}, .samples = kBatch});
  const StepMeter::StepTime time = meter_.TakeTimes().at(0);
  EXPECT_EQ(time.data, 2);
  EXPECT_EQ(time.sync, 0);
}

TEST_F(StepMeterTest, SamplesOfAStepThatBeginsAnewCountForNothing) {
  Step({1});
  meter_.BeginMicroBatch();
  host_.now += 7;
  meter_.MarkRead();
  meter_.DropTimes();
  meter_.Resume();
  EXPECT_EQ(Step({1}).data, 0);
}

TEST_F(StepMeterTest, TellsEachStepOnceAndItsSamples) {
  EXPECT_EQ(Step({1}).samples, kBatch);
  EXPECT_TRUE(meter_.TakeTimes().empty());
}

// Steps on a device whose streams run behind the caller's back.
class StepMeterOnDeviceTest : public testing::Test {
 protected:
  static constexpr double kWork = 20;

  StepMeterOnDeviceTest() {
    meter_.UseDevice(&device_, [this] { return stream_->get(); });
  }
  ~StepMeterOnDeviceTest() override { meter_.UseDevice(nullptr, nullptr); }

  // Puts a step's work on the stream, and goes on.
  void Step() {
    meter_.BeginMicroBatch();
    device_.Enqueue(stream_->get(), [this] { device_seconds_ = device_seconds_ + kWork; });
    meter_.FinishStep({.key = {1, 1, kBatch}});
    meter_.Resume();
  }

  TestHost host_;
  // Of the device's clock, which stands still but for its work.
  std::atomic<double> device_seconds_{0};
  device::GuardedDevice device_{[this] { return device_seconds_.load(); }};
  std::unique_ptr<device::OwnedStream> stream_ = device_.CreateStream().value();
  StepMeter meter_{host_.clock()};
};

TEST_F(StepMeterOnDeviceTest, TimesAreTheDevicesAndNobodyWaitsForThem) {
  const int64_t waits = device::Device::WaitsOfThread();
  device_.Pause();
  for (int i = 0; i < 3; ++i) Step();
  EXPECT_TRUE(meter_.TakeTimes().empty()) << "the caller is three steps ahead";
  EXPECT_EQ(device::Device::WaitsOfThread(), waits);
  device_.Resume();
  device::Synchronize(device_, stream_->get());
  const auto times = meter_.TakeTimes();
  ASSERT_EQ(times.size(), 3);
  EXPECT_TRUE(times[0].first);
  for (const auto& time : times) {
    EXPECT_EQ(time.seconds, kWork) << "the caller's clock stands still";
  }
  EXPECT_GT(meter_.profile().AddedSeconds(), 0);
}

// What a device waits for is what its work does not cover.
TEST_F(StepMeterOnDeviceTest, WaitingForSamplesIsWhatTheDeviceHasNothingToDo) {
  constexpr double kCopy = 3;
  Step();
  const int64_t waits = device::Device::WaitsOfThread();
  meter_.BeginMicroBatch();
  // However long the caller takes to read them, the device has work meanwhile: but for the samples' way onto it.
  host_.now += 1000;
  device_.Enqueue(stream_->get(), [this] { device_seconds_ = device_seconds_ + kCopy; });
  meter_.MarkRead();
  device_.Enqueue(stream_->get(), [this] { device_seconds_ = device_seconds_ + kWork; });
  meter_.FinishStep({.key = {1, 1, kBatch}});
  EXPECT_EQ(device::Device::WaitsOfThread(), waits);
  device::Synchronize(device_, stream_->get());
  const auto times = meter_.TakeTimes();
  ASSERT_EQ(times.size(), 2);
  EXPECT_EQ(times[0].data, 0);
  EXPECT_EQ(times[1].data, kCopy);
  EXPECT_EQ(times[1].seconds, kCopy + kWork);
}

TEST_F(StepMeterOnDeviceTest, ADeviceThatGoesTakesWhatWasNotKnownWithIt) {
  device_.Pause();
  Step();
  meter_.UseDevice(nullptr, nullptr);
  device_.Resume();
  EXPECT_TRUE(meter_.TakeTimes().empty());
  meter_.BeginMicroBatch();
  host_.now += 2;
  meter_.FinishStep({.key = {1, 1, kBatch}});
  EXPECT_EQ(meter_.TakeTimes().at(0).seconds, 2);
}

}  // namespace
}  // namespace adaptdl::elastic
