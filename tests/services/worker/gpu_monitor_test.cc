#include "services/worker/gpu_monitor.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "tests/services/worker/lanes.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;
using ::testing::SizeIs;

using Problems = std::map<std::string, std::string>;

class GpuMonitorTest : public testing::Test {
 protected:
  void Step(absl::Duration time) {
    clock_.Advance(time);
    monitor_.Step();
  }

  ManualClock clock_;
  ManualLanes lanes_;
  std::map<std::string, GpuSample> samples_;
  int asked_ = 0;
  std::vector<Problems> told_;
  GpuMonitor monitor_{{},
                      {"GPU-a", "GPU-b"},
                      [this](const std::string& gpu) {
                        ++asked_;
                        return samples_[gpu];
                      },
                      &clock_,
                      &lanes_,
                      [this](const Problems& problems) { told_.push_back(problems); }};
};

TEST_F(GpuMonitorTest, AsksOncePerPeriodAndSaysNothingOfHealthyOnes) {
  Step(absl::ZeroDuration());
  EXPECT_EQ(asked_, 2);
  Step(absl::Seconds(9));
  EXPECT_EQ(asked_, 2);
  Step(absl::Seconds(1));
  EXPECT_EQ(asked_, 4);
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(GpuMonitorTest, SaysOnceWhatIsWrong) {
  Step(absl::ZeroDuration());
  samples_["GPU-b"].lost = "GPU is lost";
  for (int i = 0; i < 3; ++i) Step(absl::Seconds(10));
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0], ElementsAre(Pair("GPU-b", HasSubstr("GPU is lost"))));
}

TEST_F(GpuMonitorTest, SaysWhenAGpuHasCooledDown) {
  samples_["GPU-a"].slowdown = "hardware thermal slowdown";
  for (int i = 0; i < 40; ++i) Step(absl::Seconds(10));
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0], ElementsAre(Key("GPU-a")));
  samples_["GPU-a"].slowdown = "";
  for (int i = 0; i < 10; ++i) Step(absl::Seconds(10));
  ASSERT_THAT(told_, SizeIs(2));
  EXPECT_THAT(told_[1], IsEmpty());
}

TEST_F(GpuMonitorTest, TellsOfTheUseOfThoseThatAnswer) {
  EXPECT_THAT(monitor_.Figures(), IsEmpty());
  samples_["GPU-a"].figures.utilization = 0.5;
  samples_["GPU-b"].figures.utilization = 0.75;
  Step(absl::ZeroDuration());
  EXPECT_EQ(monitor_.Figures().at("GPU-a").utilization, 0.5);
  samples_["GPU-a"].lost = "GPU is lost";
  samples_["GPU-b"].figures.utilization = 1;
  Step(absl::Seconds(10));
  EXPECT_THAT(monitor_.Figures(), ElementsAre(Key("GPU-b")));
  EXPECT_EQ(monitor_.Figures().at("GPU-b").utilization, 1);
  lanes_.Hang();
  Step(absl::Seconds(10));
  EXPECT_THAT(monitor_.Figures(), ElementsAre(Key("GPU-b"))) << "it may still answer";
  Step(absl::Seconds(31));
  EXPECT_THAT(monitor_.Figures(), IsEmpty());
  lanes_.GoOn();
}

TEST_F(GpuMonitorTest, AGpuThatTheDriverDoesNotAnswerForIsLost) {
  lanes_.Hang();
  Step(absl::ZeroDuration());
  Step(absl::Seconds(30));
  EXPECT_THAT(told_, IsEmpty()) << "it may still answer";
  EXPECT_FALSE(monitor_.AwaitIdle(absl::ZeroDuration()));
  Step(absl::Seconds(1));
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0], ElementsAre(Pair("GPU-a", HasSubstr("does not answer")),
                                    Pair("GPU-b", HasSubstr("does not answer"))));
  EXPECT_EQ(asked_, 0) << "nobody is asked again before he has answered";
  // What has hung once stays out, but is looked at again.
  lanes_.GoOn();
  EXPECT_TRUE(monitor_.AwaitIdle(absl::ZeroDuration()));
  Step(absl::Seconds(10));
  EXPECT_EQ(asked_, 4);
  EXPECT_THAT(told_, SizeIs(1));
}

}  // namespace
}  // namespace adaptdl::worker
