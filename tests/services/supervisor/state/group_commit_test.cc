#include "services/supervisor/state/group_commit.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

void NeverFails(const absl::Status& status) { FAIL() << status; }

TEST(GroupCommit, WithoutSyncsEverythingIsDurableAtOnce) {
  GroupCommit commits(nullptr, NeverFails);
  bool ran = false;
  commits.Committed();
  commits.WhenDurable([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(GroupCommit, NothingRunsBeforeItsCommitIsOnTheDisk) {
  absl::Notification may_sync;
  absl::Notification ran;
  bool synced = false;
  GroupCommit commits(
      [&] {
        may_sync.WaitForNotification();
        synced = true;
        return absl::OkStatus();
      },
      NeverFails);
  commits.Committed();
  commits.WhenDurable([&] {
    EXPECT_TRUE(synced);
    ran.Notify();
  });
  EXPECT_FALSE(ran.HasBeenNotified());
  may_sync.Notify();
  ran.WaitForNotification();
}

TEST(GroupCommit, TellsWhatWaitsAndOfEachSync) {
  absl::Notification may_sync;
  int told = 0;
  {
    GroupCommit commits(
        [&] {
          may_sync.WaitForNotification();
          return absl::OkStatus();
        },
        NeverFails);
    commits.SetOnSync([&](absl::Duration time) {
      EXPECT_GE(time, absl::ZeroDuration());
      ++told;
    });
    EXPECT_EQ(commits.waiting(), 0u);
    commits.Committed();
    commits.WhenDurable([] {});
    commits.WhenDurable([] {});
    EXPECT_EQ(commits.waiting(), 2u);
    may_sync.Notify();
  }
  EXPECT_EQ(told, 1);
}

TEST(GroupCommit, OneSyncServesAllThatCameBefore) {
  absl::Notification first_sync;
  absl::Notification go_on;
  absl::Notification all;
  int syncs = 0;
  std::vector<int> order;
  {
    GroupCommit commits(
        [&] {
          if (++syncs == 1) {
            first_sync.Notify();
            go_on.WaitForNotification();
          }
          return absl::OkStatus();
        },
        NeverFails);
    commits.Committed();
    commits.WhenDurable([&] { order.push_back(0); });
    first_sync.WaitForNotification();
    for (int i = 1; i <= 100; ++i) {
      commits.Committed();
      commits.WhenDurable([&, i] { order.push_back(i); });
    }
    go_on.Notify();
  }
  EXPECT_EQ(syncs, 2);
  ASSERT_EQ(order.size(), 101u);
  for (int i = 0; i <= 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(GroupCommit, WhatWaitsForNoCommitDoesNotOvertake) {
  std::vector<int> order;
  std::mutex mutex;
  {
    GroupCommit commits([] { return absl::OkStatus(); }, NeverFails);
    for (int i = 0; i < 1000; ++i) {
      if (i % 3 == 0) commits.Committed();
      commits.WhenDurable([&, i] {
        const std::lock_guard<std::mutex> lock(mutex);
        order.push_back(i);
      });
    }
  }
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

TEST(GroupCommit, AFailedSyncLetsNothingRun) {
  absl::Notification failed;
  {
    GroupCommit commits([] { return absl::UnavailableError("the disk is broken"); },
                        [&](const absl::Status& status) {
                          EXPECT_TRUE(absl::IsUnavailable(status));
                          failed.Notify();
                        });
    commits.WhenDurable([] {});
    commits.Committed();
    commits.WhenDurable([] { ADD_FAILURE() << "told of what may be lost"; });
    failed.WaitForNotification();
  }
}

}  // namespace
}  // namespace adaptdl::supervisor
