#include "services/supervisor/calls/executor.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;

// How often something has happened.
class Count {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++value_;
    changed_.SignalAll();
  }
  void WaitFor(int value) {
    MutexLock lock(&mutex_);
    while (value_ < value) changed_.Wait(&mutex_);
  }
  int value() {
    MutexLock lock(&mutex_);
    return value_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int value_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(ExecutorTest, OneCallerHasOnlyItsPart) {
  Invariants invariants;
  Count started;
  Count ended;
  absl::Notification release;
  Executor executor(4, 2, &invariants);
  for (int i = 0; i < 20; ++i) {
    executor.Post("greedy", [&] {
      started.Add();
      release.WaitForNotification();
      ended.Add();
    });
  }
  started.WaitFor(2);
  // Others, and the cluster's own tasks, go on.
  Count others;
  for (int i = 0; i < 10; ++i) {
    executor.Post("other", [&] { others.Add(); });
    executor.Post("another", [&] { others.Add(); });
    executor.Post([&] { others.Add(); });
  }
  others.WaitFor(30);
  EXPECT_EQ(started.value(), 2);
  EXPECT_EQ(executor.waiting(), 18u);
  release.Notify();
  ended.WaitFor(20);
}

TEST(ExecutorTest, CallersTakeTurns) {
  Invariants invariants;
  Mutex mutex;
  std::vector<std::string> order;
  absl::Notification release;
  {
    Executor executor(1, 1, &invariants);
    absl::Notification begun;
    executor.Post([&] {
      begun.Notify();
      release.WaitForNotification();
    });
    begun.WaitForNotification();
    const auto post = [&](const std::string& caller, const std::string& what) {
      executor.Post(caller, [&, what] {
        MutexLock lock(&mutex);
        order.push_back(what);
      });
    };
    post("a", "a1");
    post("a", "a2");
    post("a", "a3");
    post("b", "b1");
    post("", "own1");
    post("", "own2");
    release.Notify();
  }
  MutexLock lock(&mutex);
  EXPECT_THAT(order, ElementsAre("a1", "own1", "b1", "own2", "a2", "a3"));
}

TEST(ExecutorTest, WhatIsLeftRunsBeforeItEnds) {
  Invariants invariants;
  Count done;
  {
    Executor executor(3, 1, &invariants);
    for (int i = 0; i < 50; ++i) {
      executor.Post("a", [&] { done.Add(); });
      executor.Post([&] { done.Add(); });
    }
  }
  EXPECT_EQ(done.value(), 100);
}

}  // namespace
}  // namespace adaptdl::supervisor
