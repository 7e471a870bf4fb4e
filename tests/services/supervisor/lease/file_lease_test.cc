// One leader at a time, whoever dies, sleeps or comes late.

#include "services/supervisor/lease/file_lease.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"

namespace adaptdl::supervisor {
namespace {

class ManualSteadyClock final : public SteadyClock {
 public:
  absl::Duration Now() const override { return absl::Nanoseconds(now_ += step_); }
  void Advance(absl::Duration duration) { now_ += absl::ToInt64Nanoseconds(duration); }
  // Each look at the clock takes so long.
  void SetStep(absl::Duration step) { step_ = absl::ToInt64Nanoseconds(step); }

 private:
  mutable std::atomic<int64_t> now_ = 1'000'000'000;
  std::atomic<int64_t> step_ = 0;
};

class ManualClock final : public Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time Steady() const override { return absl::UnixEpoch(); }  // that of the lease is another one
  void SleepFor(absl::Duration) const override {}
  absl::Time now = absl::FromUnixSeconds(1'000'000'000);
};

class FileLeaseTest : public testing::Test {
 protected:
  ~FileLeaseTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<FileLease> Make(const HolderIdentity& process = {"another machine", "ns", 1, 1}) {
    FileLeaseOptions options;
    options.folder = folder_;
    options.duration = absl::Seconds(10);
    options.lost = [this](const std::string&) { ++lost_; };
    options.process = process;
    absl::StatusOr<std::unique_ptr<FileLease>> lease = FileLease::Create(options, &steady_, &wall_);
    EXPECT_TRUE(lease.ok()) << lease.status();
    return *std::move(lease);
  }
  static bool Acquire(FileLease* lease) {
    const absl::StatusOr<bool> acquired = lease->TryAcquire();
    EXPECT_TRUE(acquired.ok()) << acquired.status();
    return acquired.ok() && *acquired;
  }
  int Files() const {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_ + "/lease"))
      ++count;
    return count;
  }

  const std::string folder_ = absl::StrCat(testing::TempDir(), "/lease-", RandomHex(8));
  ManualSteadyClock steady_;
  ManualClock wall_;
  std::atomic<int> lost_ = 0;
};

TEST_F(FileLeaseTest, TheFirstOneLeadsAndTheSecondWaits) {
  const auto first = Make();
  EXPECT_FALSE(first->Valid());
  ASSERT_TRUE(Acquire(first.get()));
  EXPECT_TRUE(first->Valid());
  EXPECT_EQ(first->term(), 1'000'000'000'000);
  EXPECT_EQ(first->database(), "supervisor.db");
  const auto second = Make();
  EXPECT_FALSE(Acquire(second.get()));
  EXPECT_FALSE(second->Valid());
  EXPECT_EQ(second->seen()->term, first->term());
}

TEST_F(FileLeaseTest, ALeaderThatRenewsIsNotReplaced) {
  const auto leader = Make();
  const auto standby = Make();
  ASSERT_TRUE(Acquire(leader.get()));
  for (int i = 0; i < 20; ++i) {
    steady_.Advance(absl::Seconds(6));
    ASSERT_TRUE(leader->Renew().ok());
    ASSERT_FALSE(Acquire(standby.get()));
  }
  EXPECT_TRUE(leader->Valid());
}

TEST_F(FileLeaseTest, ASilentLeaderIsReplacedAfterTheDurationAndFindsOut) {
  const auto leader = Make();
  const auto standby = Make();
  ASSERT_TRUE(Acquire(leader.get()));
  EXPECT_FALSE(Acquire(standby.get()));
  steady_.Advance(absl::Seconds(9.9));
  EXPECT_FALSE(Acquire(standby.get()));
  EXPECT_TRUE(leader->Valid());
  steady_.Advance(absl::Seconds(0.1));
  EXPECT_FALSE(leader->Valid());
  ASSERT_TRUE(Acquire(standby.get()));
  EXPECT_GT(standby->term(), leader->term());
  EXPECT_TRUE(standby->predecessor_may_live());
  EXPECT_EQ(leader->Renew().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(leader->Renew().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(lost_, 1);
  EXPECT_FALSE(leader->Valid());
  EXPECT_FALSE(leader->AwaitValid(absl::InfiniteDuration()).ok());
  EXPECT_EQ(leader->SetDatabase("other.db").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(standby->Renew().ok());
}

TEST_F(FileLeaseTest, AContenderCountsFromWhenItLookedFirst) {
  const auto leader = Make();
  ASSERT_TRUE(Acquire(leader.get()));
  steady_.Advance(absl::Hours(1));
  const auto standby = Make();
  EXPECT_FALSE(Acquire(standby.get()));
  steady_.Advance(absl::Seconds(9));
  EXPECT_FALSE(Acquire(standby.get()));
}

TEST_F(FileLeaseTest, TheHoldersDurationCounts) {
  const auto leader = Make();
  ASSERT_TRUE(Acquire(leader.get()));
  FileLeaseOptions hasty;
  hasty.folder = folder_;
  hasty.duration = absl::Milliseconds(1);
  const auto standby = *FileLease::Create(hasty, &steady_, &wall_);
  EXPECT_FALSE(Acquire(standby.get()));
  steady_.Advance(absl::Seconds(9));
  EXPECT_FALSE(Acquire(standby.get()));
  steady_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Acquire(standby.get()));
}

TEST_F(FileLeaseTest, ALeaderThatEndsGivesItBack) {
  const auto standby = Make();
  int64_t term = 0;
  {
    const auto leader = Make();
    ASSERT_TRUE(Acquire(leader.get()));
    ASSERT_TRUE(leader->SetDatabase("a.db").ok());
    term = leader->term();
    EXPECT_FALSE(Acquire(standby.get()));
  }
  ASSERT_TRUE(Acquire(standby.get()));
  EXPECT_GT(standby->term(), term);
  EXPECT_EQ(standby->database(), "a.db");
  EXPECT_FALSE(standby->predecessor_may_live());
}

TEST_F(FileLeaseTest, ALeaderThatOverslepTakesItAgainIfNobodyElseHas) {
  const auto leader = Make();
  ASSERT_TRUE(Acquire(leader.get()));
  ASSERT_TRUE(leader->SetDatabase("a.db").ok());
  const int64_t term = leader->term();
  steady_.Advance(absl::Seconds(11));
  EXPECT_FALSE(leader->Valid());
  EXPECT_EQ(leader->AwaitValid(absl::ZeroDuration()).code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(leader->Renew().ok());
  EXPECT_TRUE(leader->Valid());
  EXPECT_GT(leader->term(), term);
  EXPECT_EQ(leader->database(), "a.db");
  EXPECT_EQ(lost_, 0);
  // It counts as silent from its new file on.
  const auto standby = Make();
  EXPECT_FALSE(Acquire(standby.get()));
}

TEST_F(FileLeaseTest, ARenewalThatTakesTooLongDoesNotCount) {
  const auto leader = Make();
  ASSERT_TRUE(Acquire(leader.get()));
  const int64_t term = leader->term();
  steady_.Advance(absl::Seconds(5));
  steady_.SetStep(absl::Seconds(4));  // It begins in time, and ends too late.
  ASSERT_TRUE(leader->Renew().ok());
  steady_.SetStep(absl::ZeroDuration());
  EXPECT_GT(leader->term(), term);
}

// Makes a child that waits for its end, and tells who it is.
class Child {
 public:
  Child() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const int64_t start = ThisProcess().start_time;
      if (write(ends[1], &start, sizeof(start)) == sizeof(start)) pause();
      _exit(0);
    }
    identity_ = ThisProcess();
    identity_.pid = pid_;
    EXPECT_EQ(read(ends[0], &identity_.start_time, sizeof(int64_t)), static_cast<ssize_t>(sizeof(int64_t)));
    close(ends[0]);
    close(ends[1]);
  }
  ~Child() { Kill(); }
  const HolderIdentity& identity() const { return identity_; }
  void Stop() const {
    kill(pid_, SIGSTOP);
    EXPECT_EQ(waitpid(pid_, nullptr, WUNTRACED), pid_);
  }
  // Leaves it as a zombie.
  void Murder() const {
    kill(pid_, SIGKILL);
    siginfo_t info;
    EXPECT_EQ(waitid(P_PID, pid_, &info, WEXITED | WNOWAIT), 0);
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  HolderIdentity identity_;
};

TEST_F(FileLeaseTest, ADeadLeaderOfThisMachineIsReplacedAtOnce) {
  Child child;
  auto leader = Make(child.identity());
  ASSERT_TRUE(Acquire(leader.get()));
  const auto standby = Make();
  EXPECT_FALSE(Acquire(standby.get()));
  child.Murder();
  ASSERT_TRUE(Acquire(standby.get()));
  EXPECT_FALSE(standby->predecessor_may_live());
}

TEST_F(FileLeaseTest, AStoppedLeaderIsNotDead) {
  Child child;
  const auto leader = Make(child.identity());
  ASSERT_TRUE(Acquire(leader.get()));
  child.Stop();
  const auto standby = Make();
  EXPECT_FALSE(Acquire(standby.get()));
  steady_.Advance(absl::Seconds(10));
  ASSERT_TRUE(Acquire(standby.get()));
  EXPECT_TRUE(standby->predecessor_may_live());
}

TEST_F(FileLeaseTest, ProcessesAreToldApart) {
  Child child;
  EXPECT_FALSE(HasEnded(child.identity()));
  EXPECT_FALSE(HasEnded(ThisProcess()));
  HolderIdentity other = child.identity();
  other.start_time += 1;  // The id was used again.
  EXPECT_TRUE(HasEnded(other));
  other.pid_namespace = "another";
  EXPECT_FALSE(HasEnded(other));
  other = child.identity();
  other.boot_id = "before";
  EXPECT_FALSE(HasEnded(other));
  child.Kill();
  EXPECT_TRUE(HasEnded(child.identity()));
}

TEST_F(FileLeaseTest, OneOfManyContendersWins) {
  constexpr int kContenders = 8;
  int64_t term = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<FileLease>> contenders;
    for (int i = 0; i < kContenders; ++i) contenders.push_back(Make());
    std::vector<std::thread> threads;
    std::atomic<int> ready = 0;
    std::atomic<int> leaders = 0;
    for (const auto& contender : contenders) {
      threads.emplace_back([&, lease = contender.get()] {
        ++ready;
        while (ready < kContenders) {
        }
        leaders += Acquire(lease);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(leaders, 1);
    for (const auto& contender : contenders) {
      if (!contender->Valid()) continue;
      EXPECT_GT(contender->term(), term);
      term = contender->term();
    }
  }
}

TEST_F(FileLeaseTest, TermsGrowThoughTheClockGoesBack) {
  int64_t term = 0;
  for (int i = 0; i < 3; ++i) {
    const auto lease = Make();
    ASSERT_TRUE(Acquire(lease.get()));
    EXPECT_GT(lease->term(), term);
    term = lease->term();
    wall_.now -= absl::Hours(1);
  }
}

TEST_F(FileLeaseTest, OldFilesAreRemoved) {
  for (int i = 0; i < 50; ++i) {
    const auto lease = Make();
    ASSERT_TRUE(Acquire(lease.get()));
    EXPECT_EQ(lease->sequence(), i + 1);
  }
  EXPECT_LE(Files(), 17);
}

TEST_F(FileLeaseTest, ALeaderThatEndedBeforeItNamedADatabaseLeavesTheOneBefore) {
  {
    const auto first = Make();
    ASSERT_TRUE(Acquire(first.get()));
    ASSERT_TRUE(first->SetDatabase("a.db").ok());
  }
  {
    const auto second = Make();
    ASSERT_TRUE(Acquire(second.get()));
  }
  const auto third = Make();
  ASSERT_TRUE(Acquire(third.get()));
  EXPECT_EQ(third->database(), "a.db");
}

TEST_F(FileLeaseTest, AStoppedLeaderIsFoundBehindOthersThatOnlyTried) {
  auto stopped = Make();
  ASSERT_TRUE(Acquire(stopped.get()));
  ASSERT_TRUE(stopped->SetDatabase("supervisor.db").ok());
  {
    const auto second = Make();
    EXPECT_FALSE(Acquire(second.get()));
    steady_.Advance(absl::Seconds(10));
    ASSERT_TRUE(Acquire(second.get()));
  }
  const auto third = Make();
  ASSERT_TRUE(Acquire(third.get()));
  EXPECT_TRUE(third->predecessor_may_live());
}

TEST_F(FileLeaseTest, WhatACrashLeavesDoesNotHinder) {
  std::filesystem::create_directories(folder_ + "/lease");
  std::ofstream(folder_ + "/lease/0123456789abcdef.tmp") << "half";
  std::ofstream(folder_ + "/lease/leader-x") << "none of ours";
  const auto lease = Make();
  ASSERT_TRUE(Acquire(lease.get()));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/lease/0123456789abcdef.tmp"));
}

TEST_F(FileLeaseTest, ADamagedFileIsNamed) {
  std::filesystem::create_directories(folder_ + "/lease");
  std::ofstream(folder_ + "/lease/leader-00000000000000000003") << "nonsense";
  const absl::Status status = Make()->TryAcquire().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("leader-00000000000000000003"), std::string::npos);
}

TEST_F(FileLeaseTest, TheThreadRenewsAndGivingUpEndsIt) {
  const RealSteadyClock steady;
  FileLeaseOptions options;
  options.folder = folder_;
  options.duration = absl::Hours(1);
  options.renew_period = absl::Milliseconds(1);
  options.lost = [this](const std::string&) { ++lost_; };
  const auto lease = *FileLease::Create(options, &steady, &wall_);
  ASSERT_TRUE(Acquire(lease.get()));
  lease->StartRenewal();
  const auto watcher = Make();
  ASSERT_FALSE(Acquire(watcher.get()));
  while (watcher->seen()->renewals < 3) ASSERT_FALSE(Acquire(watcher.get()));
  lease->GiveUp("for the test");
  EXPECT_EQ(lost_, 1);
  EXPECT_FALSE(lease->Valid());
}

}  // namespace
}  // namespace adaptdl::supervisor
