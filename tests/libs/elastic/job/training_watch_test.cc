#include "libs/elastic/job/training_watch.h"

#include <optional>
#include <thread>

#include "gtest/gtest.h"
#include "tests/libs/elastic/test_host.h"

namespace adaptdl::elastic {
namespace {

class TrainingWatchTest : public testing::Test {
 protected:
  Activity Current() {
    return watch_.CurrentActivity([]() -> std::optional<Standing> { return Standing{.peer = 3}; });
  }

  TestHost host_;
  double processor_ = 0;
  TrainingWatch watch_{
      {.least_patience = 10, .seconds = host_.clock(), .thread_clock = [this] { return processor_; }}};
};

TEST_F(TrainingWatchTest, TellsHowLongItWaitsAndForWhom) {
  watch_.BeginWait();
  EXPECT_EQ(watch_.waiting_since(), 100);
  host_.now = 107;
  EXPECT_EQ(Current().waiting, 7);
  EXPECT_EQ(Current().standing->peer, 3);
  EXPECT_EQ(Current().idle, 0);
  watch_.EndWait();
  EXPECT_LT(watch_.waiting_since(), 0);
  EXPECT_EQ(Current().waiting, 0);
  EXPECT_FALSE(Current().standing.has_value());
}

TEST_F(TrainingWatchTest, IsIdleSinceItWasLastSeenToRun) {
  host_.now = 105;
  processor_ = 1;
  watch_.Tick();
  host_.now = 108;
  watch_.Tick();
  EXPECT_EQ(Current().idle, 3);
  processor_ = 2;
  watch_.Tick();
  EXPECT_EQ(Current().idle, 0);
}

TEST_F(TrainingWatchTest, WaitingIsNoIdling) {
  watch_.Tick();
  watch_.BeginStorage();
  host_.now = 150;
  EXPECT_EQ(Current().idle, 0);
  watch_.Tick();
  watch_.EndStorage();
  EXPECT_EQ(Current().idle, 0) << "counts from when it was last seen at work";
  host_.now = 160;
  EXPECT_EQ(Current().idle, 10);
  watch_.BeginWait();
  watch_.Tick();
  watch_.EndWait();
  EXPECT_EQ(Current().idle, 0);
}

TEST_F(TrainingWatchTest, NobodyCanTellOfAnotherThread) {
  host_.now = 150;
  watch_.NoteTrainingThread();
  EXPECT_EQ(Current().idle, 50);
  std::thread([this] { watch_.NoteTrainingThread(); }).join();
  EXPECT_EQ(Current().idle, 0);
}

TEST_F(TrainingWatchTest, WithoutAThreadClockNothingIsIdle) {
  TrainingWatch watch({.least_patience = 10, .seconds = host_.clock()});
  watch.Tick();
  host_.now = 200;
  EXPECT_EQ(watch.CurrentActivity([]() -> std::optional<Standing> { return std::nullopt; }).idle, 0);
}

TEST_F(TrainingWatchTest, ItsPatienceFollowsTheSteps) {
  EXPECT_EQ(Current().patience, 0);
  for (int i = 0; i < 5; ++i) watch_.AddStep(3);
  EXPECT_EQ(watch_.patience(), 30);
  EXPECT_EQ(Current().patience, 30);
}

}  // namespace
}  // namespace adaptdl::elastic
