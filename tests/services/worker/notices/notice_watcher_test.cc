#include "services/worker/notices/notice_watcher.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Notice kLikely{.reason = "likely", .likely_only = true};
const Notice kCertain{.deadline = absl::FromUnixSeconds(100), .reason = "certain"};

// Says what the test wants.
class FakeInstance final : public InstanceMetadata {
 public:
  struct State {
    absl::StatusOr<std::optional<Notice>> notice = std::nullopt;
    absl::StatusOr<InstanceIdentity> identity = absl::UnavailableError("not yet");
    int looks = 0;
    int identifications = 0;
  };
  explicit FakeInstance(State* state) : state_(*state) {}
  absl::StatusOr<std::optional<Notice>> Look(const std::stop_token&) override {
    ++state_.looks;
    return state_.notice;
  }
  absl::StatusOr<InstanceIdentity> Identify(const std::stop_token&) override {
    ++state_.identifications;
    return state_.identity;
  }

 private:
  State& state_;
};

class Ear final : public NoticeListener {
 public:
  void OnNotice(const Notice& notice) override { notices.push_back(notice); }
  void WhileLeaving() override { ++leaving; }
  void OnIdentity(const InstanceIdentity& identity) override { ids.push_back(identity.instance_id); }

  std::vector<Notice> notices;
  std::vector<std::string> ids;
  int leaving = 0;
};

class NoticeWatcherTest : public testing::Test {
 protected:
  const RealPauses pauses_;
  FakeInstance::State instance_;
  Ear ear_;
  NoticeWatcher watcher_{{.identify = true}, std::make_unique<FakeInstance>(&instance_), &pauses_, &ear_};
};

TEST_F(NoticeWatcherTest, TellsTheFirstNoticeThatIsCertainAndAsksNoMore) {
  EXPECT_EQ(watcher_.StepForTest(), absl::Seconds(2));
  EXPECT_THAT(ear_.notices, IsEmpty());
  instance_.notice = kCertain;
  EXPECT_EQ(watcher_.StepForTest(), absl::Milliseconds(100)) << "time is short from the notice on";
  EXPECT_THAT(ear_.notices, ElementsAre(kCertain));
  EXPECT_EQ(ear_.leaving, 0);
  const int looks = instance_.looks;
  EXPECT_EQ(watcher_.StepForTest(), absl::Milliseconds(100));
  watcher_.StepForTest();
  EXPECT_EQ(ear_.leaving, 2);
  EXPECT_EQ(instance_.looks, looks);
  EXPECT_THAT(ear_.notices, ElementsAre(kCertain));
}

TEST_F(NoticeWatcherTest, WhatIsLikelyIsToldOnceAndFollowedByWhatIsCertain) {
  instance_.notice = kLikely;
  watcher_.StepForTest();
  watcher_.StepForTest();
  EXPECT_THAT(ear_.notices, ElementsAre(kLikely));
  EXPECT_EQ(ear_.leaving, 0);
  instance_.notice = kCertain;
  watcher_.StepForTest();
  EXPECT_THAT(ear_.notices, ElementsAre(kLikely, kCertain));
}

TEST_F(NoticeWatcherTest, WhoDoesNotAnswerIsAskedOn) {
  instance_.notice = absl::UnavailableError("away");
  EXPECT_EQ(watcher_.StepForTest(), absl::Seconds(2));
  watcher_.StepForTest();
  EXPECT_THAT(ear_.notices, IsEmpty());
  instance_.notice = kCertain;
  watcher_.StepForTest();
  EXPECT_THAT(ear_.notices, ElementsAre(kCertain));
}

TEST_F(NoticeWatcherTest, FindsOutOnceWhatTheMachineIsCalled) {
  watcher_.StepForTest();
  EXPECT_THAT(ear_.ids, IsEmpty());
  instance_.identity = InstanceIdentity{"i-1", "10.0.0.1"};
  watcher_.StepForTest();
  watcher_.StepForTest();
  EXPECT_THAT(ear_.ids, ElementsAre("i-1"));
  EXPECT_EQ(instance_.identifications, 2);
}

TEST(NoticeWatcher, ItsThreadEndsWithIt) {
  const RealPauses pauses;
  FakeInstance::State instance;
  Ear ear;
  {
    NoticeWatcher watcher({.period = absl::Hours(1)}, std::make_unique<FakeInstance>(&instance), &pauses,
                          &ear);
    watcher.Start();
  }
  EXPECT_THAT(ear.notices, IsEmpty());
}

}  // namespace
}  // namespace adaptdl::worker
