#include "services/worker/work_lanes.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"

namespace adaptdl::worker {
namespace {

// What work of several lanes has done, and a door that some of it waits at.
class Record {
 public:
  void Add(const std::string& what) {
    MutexLock lock(&mutex_);
    done_.push_back(what);
    changed_.SignalAll();
  }
  void WaitAtDoor() {
    MutexLock lock(&mutex_);
    ++waiting_;
    changed_.SignalAll();
    while (!open_) changed_.Wait(&mutex_);
  }
  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
    changed_.SignalAll();
  }
  void AwaitWaiting(int count) {
    MutexLock lock(&mutex_);
    while (waiting_ < count) changed_.Wait(&mutex_);
  }
  void AwaitDone(size_t count) {
    MutexLock lock(&mutex_);
    while (done_.size() < count) changed_.Wait(&mutex_);
  }
  std::vector<std::string> Done() {
    MutexLock lock(&mutex_);
    return done_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> done_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST(ThreadLanesTest, ALaneThatHangsHoldsUpNoOther) {
  Record record;
  ThreadLanes lanes(8);
  lanes.Post("a", [&] { record.WaitAtDoor(); });
  lanes.Post("a", [&] { record.Add("a"); });
  record.AwaitWaiting(1);
  for (int i = 0; i < 20; ++i) lanes.Post(absl::StrCat("b", i), [&] { record.Add("b"); });
  record.AwaitDone(20);
  record.Open();
  lanes.Finish();
  EXPECT_EQ(record.Done().back(), "a");
}

TEST(ThreadLanesTest, WorkOfALaneIsDoneInOrder) {
  Record record;
  ThreadLanes lanes(4);
  std::vector<std::string> expected;
  for (int i = 0; i < 200; ++i) {
    expected.push_back(absl::StrCat(i));
    lanes.Post("a", [&record, i] { record.Add(absl::StrCat(i)); });
  }
  lanes.Finish();
  EXPECT_EQ(record.Done(), expected);
  lanes.Post("a", [&] { record.Add("too late"); });
  EXPECT_EQ(record.Done(), expected);
}

TEST(ThreadLanesTest, NoMoreThreadsThanAllowed) {
  Record record;
  ThreadLanes lanes(2);
  for (int i = 0; i < 3; ++i) {
    lanes.Post(absl::StrCat(i), [&record, i] {
      record.WaitAtDoor();
      record.Add(absl::StrCat(i));
    });
  }
  record.AwaitWaiting(2);
  record.Open();
  lanes.Finish();
  EXPECT_THAT(record.Done(), testing::UnorderedElementsAre("0", "1", "2"));
}

}  // namespace
}  // namespace adaptdl::worker
