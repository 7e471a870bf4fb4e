#include "libs/elastic/job/background.h"

#include <atomic>

#include "gtest/gtest.h"

namespace adaptdl::elastic {
namespace {

TEST(BackgroundTest, TicksUntilItIsStopped) {
  std::atomic<int> ticks{0};
  Background background;
  background.Start(absl::Microseconds(10), [&] { ++ticks; });
  while (ticks < 3) std::this_thread::yield();
  background.Stop();
  const int last = ticks;
  background.Stop();
  EXPECT_EQ(ticks, last);
}

TEST(BackgroundTest, DoesNotWaitForItsPeriodToStop) {
  std::atomic<int> ticks{0};
  Background background;
  background.Start(absl::Hours(1), [&] { ++ticks; });
  background.Stop();
  EXPECT_EQ(ticks, 0);
}

}  // namespace
}  // namespace adaptdl::elastic
