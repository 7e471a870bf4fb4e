#include "libs/elastic/group/connector.h"

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/comm/in_process_communicator.h"

namespace adaptdl::elastic {
namespace {

// Connects to groups when it is told that they are complete.
class ConnectorTest : public testing::Test {
 protected:
  static GroupMembership Number(int64_t group) {
    GroupMembership membership;
    membership.group = group;
    return membership;
  }

  Connector::Connected Connect(const GroupMembership& group) {
    MutexLock lock(&mutex_);
    begun_.push_back(group.group);
    changed_.SignalAll();
    while (!outcomes_.contains(group.group)) changed_.Wait(&mutex_);
    if (!outcomes_[group.group].ok()) return outcomes_[group.group];
    return std::move(comm::CreateInProcessGroup(1).front());
  }
  void Complete(int64_t group, const absl::Status& status = absl::OkStatus()) {
    MutexLock lock(&mutex_);
    outcomes_[group] = status;
    changed_.SignalAll();
  }
  void AwaitBegun(size_t count) {
    MutexLock lock(&mutex_);
    while (begun_.size() < count) changed_.Wait(&mutex_);
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<int64_t> begun_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, absl::Status> outcomes_ ABSL_GUARDED_BY(mutex_);
  Connector connector_{[this](const GroupMembership& group) { return Connect(group); }};
};

TEST_F(ConnectorTest, ConnectsWhileTheCallerGoesOn) {
  EXPECT_TRUE(connector_.idle());
  connector_.Begin(Number(2));
  AwaitBegun(1);
  EXPECT_FALSE(connector_.IsDone(2));
  EXPECT_FALSE(connector_.idle());
  Complete(2);
  EXPECT_TRUE(connector_.Take(Number(2)).ok());
  EXPECT_TRUE(connector_.IsDone(2));
  EXPECT_TRUE(connector_.idle());
}

TEST_F(ConnectorTest, WhatWasNotBegunIsBegunWhenItIsTaken) {
  Complete(3);
  EXPECT_TRUE(connector_.Take(Number(3)).ok());
}

TEST_F(ConnectorTest, SaysWhyAGroupCannotBeConnected) {
  Complete(2, absl::UnavailableError("rank 1 is lost"));
  EXPECT_EQ(connector_.Take(Number(2)).status(), absl::UnavailableError("rank 1 is lost"));
  EXPECT_TRUE(connector_.IsDone(2));
}

TEST_F(ConnectorTest, ANewerGroupTakesThePlaceOfAnOlderOne) {
  connector_.Begin(Number(2));
  AwaitBegun(1);
  std::thread taker([&] { EXPECT_TRUE(absl::IsAborted(connector_.Take(Number(2)).status())); });
  connector_.Begin(Number(4));
  // It is over before its connecting has come to an end.
  taker.join();
  EXPECT_TRUE(connector_.IsDone(2));
  Complete(2, absl::AbortedError("the group is over"));
  Complete(4);
  EXPECT_TRUE(connector_.Take(Number(4)).ok());
  // And is not begun any more.
  connector_.Begin(Number(3));
  EXPECT_TRUE(absl::IsAborted(connector_.Take(Number(3)).status()));
  MutexLock lock(&mutex_);
  EXPECT_THAT(begun_, testing::ElementsAre(2, 4));
}

TEST_F(ConnectorTest, WhatNobodyTakesIsDropped) {
  Complete(2);
  Complete(3);
  connector_.Begin(Number(2));
  AwaitBegun(1);
  connector_.Begin(Number(3));
  EXPECT_TRUE(connector_.Take(Number(3)).ok());
  EXPECT_TRUE(absl::IsAborted(connector_.Take(Number(3)).status())) << "once";
}

}  // namespace
}  // namespace adaptdl::elastic
