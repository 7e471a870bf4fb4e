#include "libs/elastic/host/process_host.h"

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"

namespace adaptdl::elastic {
namespace {

TEST(ProcessHostTest, ItsClocksGoOn) {
  const auto host = ProcessHost();
  const double begin = host->Seconds();
  const std::function<double()> thread_clock = host->ThreadClock();
  ASSERT_TRUE(thread_clock);
  const double ran = thread_clock();
  while (thread_clock() == ran) continue;
  EXPECT_GT(thread_clock(), ran);
  EXPECT_GT(host->Seconds(), begin);
  EXPECT_GT(host->WallSeconds(), 1.7e9);
}

// A thread that waits runs no processor time up, whoever looks.
TEST(ProcessHostTest, AThreadsClockIsThatThreads) {
  const auto host = ProcessHost();
  const std::function<double()> thread_clock = host->ThreadClock();
  double before = 0, after = 0;
  std::thread busy([&] {
    const std::function<double()> own = host->ThreadClock();
    before = thread_clock();
    const double begin = own();
    while (own() < begin + 0.02) continue;
    after = thread_clock();
  });
  busy.join();
  EXPECT_LT(after - before, 0.02);
}

TEST(ProcessHostTest, PassesSignalsOn) {
  const auto host = ProcessHost();
  Mutex mutex;
  CondVar changed;
  std::vector<std::string> names;
  const auto watch = host->WatchSignals([&](const std::string& name) {
    MutexLock lock(&mutex);
    names.push_back(name);
    changed.SignalAll();
  });
  std::raise(SIGTERM);
  {
    MutexLock lock(&mutex);
    while (names.empty()) changed.Wait(&mutex);
  }
  std::raise(SIGINT);
  MutexLock lock(&mutex);
  while (names.size() < 2) changed.Wait(&mutex);
  EXPECT_THAT(names, testing::ElementsAre("SIGTERM", "SIGINT"));
}

TEST(ProcessHostDeathTest, EndsWithoutDestructors) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  struct Loud {
    ~Loud() { std::abort(); }
  };
  EXPECT_EXIT(
      {
        static const Loud loud;
        ProcessHost()->Exit(75);
      },
      testing::ExitedWithCode(75), "");
}

}  // namespace
}  // namespace adaptdl::elastic
