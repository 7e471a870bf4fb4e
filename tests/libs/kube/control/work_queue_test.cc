#include "libs/kube/control/work_queue.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"

namespace adaptdl::kube {
namespace {

const ObjectKey kA = {"n", "a"};
const ObjectKey kB = {"n", "b"};

class WorkQueueTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  WorkQueue queue_{&clock_, {.first_pause = absl::Seconds(1), .longest_pause = absl::Seconds(4)}};
};

TEST_F(WorkQueueTest, GivesEachOnceInTurn) {
  queue_.Add(kA);
  queue_.Add(kB);
  queue_.Add(kA);
  EXPECT_EQ(queue_.TryTake(), kA);
  EXPECT_EQ(queue_.TryTake(), kB);
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
}

TEST_F(WorkQueueTest, WhatIsAddedWhileItIsTakenComesAgainAfterwards) {
  queue_.Add(kA);
  EXPECT_EQ(queue_.TryTake(), kA);
  queue_.Add(kA);
  queue_.Add(kA);
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
  queue_.Done(kA);
  EXPECT_EQ(queue_.TryTake(), kA);
  queue_.Done(kA);
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
}

TEST_F(WorkQueueTest, WhatFailsComesAgainAfterPausesThatGrow) {
  queue_.Add(kA);
  for (const int pause : {1, 2, 4, 4}) {
    ASSERT_EQ(queue_.TryTake(), kA);
    queue_.Retry(kA);
    clock_.Advance(absl::Seconds(pause) - absl::Nanoseconds(1));
    EXPECT_EQ(queue_.TryTake(), std::nullopt);
    clock_.Advance(absl::Nanoseconds(1));
  }
  ASSERT_EQ(queue_.TryTake(), kA);
  queue_.Done(kA);
  // The next failure is a first one.
  queue_.Add(kA);
  ASSERT_EQ(queue_.TryTake(), kA);
  queue_.Retry(kA);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(queue_.TryTake(), kA);
}

TEST_F(WorkQueueTest, AFailureOfOneHoldsNoOtherUp) {
  queue_.Add(kA);
  queue_.Add(kB);
  ASSERT_EQ(queue_.TryTake(), kA);
  queue_.Retry(kA);
  EXPECT_EQ(queue_.TryTake(), kB);
}

TEST_F(WorkQueueTest, ANewReasonEndsThePause) {
  queue_.Add(kA);
  ASSERT_EQ(queue_.TryTake(), kA);
  queue_.Retry(kA);
  queue_.Add(kA);
  EXPECT_EQ(queue_.TryTake(), kA);
  EXPECT_EQ(queue_.delayed(), 0u);
  // Also one that came while it failed.
  queue_.Add(kA);
  queue_.Retry(kA);
  EXPECT_EQ(queue_.TryTake(), kA);
}

TEST_F(WorkQueueTest, ComesAtTheEarliestOfItsTimes) {
  queue_.AddAfter(kA, absl::Seconds(5));
  queue_.AddAfter(kA, absl::Seconds(2));
  queue_.AddAfter(kA, absl::Seconds(9));
  EXPECT_EQ(queue_.delayed(), 1u);
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(queue_.TryTake(), kA);
  queue_.Done(kA);
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
}

TEST_F(WorkQueueTest, WhatIsDelayedWhileItIsTakenComesAtItsTime) {
  queue_.Add(kA);
  ASSERT_EQ(queue_.TryTake(), kA);
  queue_.AddAfter(kA, absl::Seconds(3));
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(queue_.TryTake(), std::nullopt);  // somebody has it
  queue_.Done(kA);
  EXPECT_EQ(queue_.TryTake(), kA);
  queue_.AddAfter(kA, absl::Seconds(3));
  queue_.Done(kA);
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(queue_.TryTake(), kA);
}

TEST_F(WorkQueueTest, NoDelayIsNow) {
  queue_.AddAfter(kA, absl::ZeroDuration());
  EXPECT_EQ(queue_.TryTake(), kA);
}

TEST_F(WorkQueueTest, AStopRequestEndsAllWaits) {
  std::stop_source stop;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(queue_.Take(stop.get_token()), std::nullopt); });
  }
  stop.request_stop();
  for (std::thread& thread : threads) thread.join();
}

TEST_F(WorkQueueTest, SeveralThreadsShareTheWorkAndNeverAnObject) {
  constexpr int kObjects = 20;
  constexpr int kRounds = 50;
  RealClock clock;
  WorkQueue queue(&clock, {.first_pause = absl::Microseconds(10)});
  std::stop_source stop;
  std::vector<std::atomic<int>> users(kObjects), times(kObjects);
  std::atomic<int> left = kObjects * kRounds;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (const auto key = queue.Take(stop.get_token())) {
        const int object = std::stoi(key->name);
        EXPECT_EQ(users[object]++, 0);
        const int time = ++times[object];
        --users[object];
        // It comes again in each of the ways there are.
        if (time < kRounds && time % 3 == 0) queue.AddAfter(*key, absl::Microseconds(10));
        if (time < kRounds && time % 3 == 1) queue.Add(*key);
        if (time < kRounds && time % 3 == 2) queue.Retry(*key);
        if (time == kRounds || time % 3 != 2) queue.Done(*key);
        if (--left == 0) stop.request_stop();
      }
    });
  }
  for (int i = 0; i < kObjects; ++i) queue.Add({"n", absl::StrCat(i)});
  for (std::thread& thread : threads) thread.join();
  for (const auto& time : times) EXPECT_EQ(time, kRounds);
}

}  // namespace
}  // namespace adaptdl::kube
