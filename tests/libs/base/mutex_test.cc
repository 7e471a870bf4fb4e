#include "libs/base/mutex.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace adaptdl {
namespace {

struct Counter {
  Mutex mutex;
  CondVar changed;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, ExcludesOthers) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        MutexLock lock(&counter.mutex);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(&counter.mutex);
  EXPECT_EQ(counter.value, 4000);
}

TEST(CondVarTest, WaitsForTheSignalAndHoldsTheMutexAfterwards) {
  Counter counter;
  std::thread waiter([&] {
    MutexLock lock(&counter.mutex);
    while (counter.value == 0) counter.changed.Wait(&counter.mutex);
    ++counter.value;
  });
  {
    MutexLock lock(&counter.mutex);
    counter.value = 1;
    counter.changed.SignalAll();
  }
  waiter.join();
  MutexLock lock(&counter.mutex);
  EXPECT_EQ(counter.value, 2);
}

TEST(CondVarTest, GivesUpWhenTheTimeIsUp) {
  Counter counter;
  MutexLock lock(&counter.mutex);
  while (counter.changed.WaitFor(&counter.mutex, absl::Milliseconds(1))) {
  }
}

TEST(CondVarTest, WaitsThroughAnInfiniteTimeout) {
  Counter counter;
  std::thread waiter([&] {
    MutexLock lock(&counter.mutex);
    while (counter.value == 0) EXPECT_TRUE(counter.changed.WaitFor(&counter.mutex, absl::InfiniteDuration()));
  });
  {
    MutexLock lock(&counter.mutex);
    counter.value = 1;
    counter.changed.Signal();
  }
  waiter.join();
}

}  // namespace
}  // namespace adaptdl
