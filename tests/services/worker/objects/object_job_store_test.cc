#include "services/worker/objects/object_job_store.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "tests/libs/aws/aws_fixture.h"
#include "tests/services/worker/objects/fixture.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

// Another worker on another node, with the same store.
struct Node {
  explicit Node(objectstore::MemoryStore* store, ManualClock* clock, const Pauses* pauses)
      : jobs({.prefix = "p", .upload_timeout = absl::Seconds(20)}, store, clock, pauses,
             [](const std::string&, const std::function<void()>& work) { work(); }) {
    jobs.SetErrorSink(
        [this](const std::string& job, const std::string& error) { told.emplace_back(job, error); });
  }

  absl::Status Enter(const std::string& replica, int64_t group = 1) {
    return jobs.Enter({.name = "ns/a-1", .folder = folder.path(), .group = group}, replica, [] {});
  }
  absl::Status Leave(const std::string& replica, bool save = true) {
    return jobs.Leave("ns/a-1", replica, save);
  }

  NodeFolder folder;
  ObjectJobStore jobs;
  std::vector<std::pair<std::string, std::string>> told;
};

class ObjectJobStoreTest : public ::testing::Test {
 protected:
  void StoreIsAway() {
    store_.SetFault([](const std::string&, const std::string&) { return absl::UnavailableError("away"); });
  }

  ManualClock clock_;
  aws::ManualPauses pauses_{&clock_};
  objectstore::MemoryStore store_;
  Node a_{&store_, &clock_, &pauses_};
  Node b_{&store_, &clock_, &pauses_};
};

TEST_F(ObjectJobStoreTest, AJobGoesOnElsewhereFromItsLastCheckpointWithItsResults) {
  ASSERT_TRUE(a_.Enter("r-1").ok());
  a_.folder.WriteCheckpoint(1, 1, "state");
  a_.folder.Write("share/metrics", "1");
  ASSERT_TRUE(a_.Leave("r-1").ok());
  ASSERT_TRUE(b_.Enter("r-2", 2).ok());
  EXPECT_EQ(b_.folder.Read("checkpoint/checkpoint-1/model"), "state");
  EXPECT_EQ(b_.folder.Read("share/metrics"), "1");
}

TEST_F(ObjectJobStoreTest, AJobStartsFromAnothersCheckpoint) {
  ASSERT_TRUE(a_.Enter("r-1").ok());
  a_.folder.WriteCheckpoint(1, 1, "state");
  ASSERT_TRUE(a_.Leave("r-1").ok());
  const JobStore::Job job = {.name = "ns/b-2", .folder = b_.folder.path()};
  ASSERT_TRUE(b_.jobs.Enter(job, "r-2", [] {}).ok());
  EXPECT_EQ(b_.jobs.FetchStart(job, {.name = "ns/c-3", .folder = ""}, [] {}).code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(b_.jobs.FetchStart(job, {.name = "ns/a-1", .folder = ""}, [] {}).ok());
  EXPECT_EQ(b_.folder.Read("start/checkpoint-1/model"), "state");
  EXPECT_TRUE(b_.jobs.Leave("ns/b-2", "r-2", true).ok());
}

TEST_F(ObjectJobStoreTest, CheckpointsAreUploadedWhileReplicasRun) {
  ASSERT_TRUE(a_.Enter("r-1").ok());
  a_.jobs.Step();
  EXPECT_THAT(store_.objects(), IsEmpty());
  a_.folder.WriteCheckpoint(1, 1, "state");
  clock_.Advance(absl::Seconds(1));
  a_.jobs.Step();
  EXPECT_THAT(store_.objects(), SizeIs(3));
}

TEST_F(ObjectJobStoreTest, WhatFailsIsToldAndTriedAgainWithGrowingPauses) {
  ASSERT_TRUE(a_.Enter("r-1").ok());
  a_.folder.WriteCheckpoint(1, 1, "state");
  StoreIsAway();
  int tries = 0;
  for (int second = 0; second < 60; ++second) {
    const int before = store_.calls("list");
    a_.jobs.Step();
    tries += store_.calls("list") > before ? 1 : 0;
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(tries, 6) << "after 0, 1, 3, 7, 15 and 31 seconds";
  ASSERT_THAT(a_.told, ElementsAre(Pair("ns/a-1", HasSubstr("away"))));
  store_.SetFault(nullptr);
  clock_.Advance(absl::Minutes(1));
  a_.jobs.Step();
  EXPECT_THAT(a_.told.back(), Pair("ns/a-1", ""));
  EXPECT_THAT(store_.objects(), SizeIs(3));
}

TEST_F(ObjectJobStoreTest, AReplicaDoesNotStartWhereTheStoreIsAway) {
  StoreIsAway();
  EXPECT_EQ(a_.Enter("r-1").code(), absl::StatusCode::kUnavailable);
  store_.SetFault(nullptr);
  EXPECT_TRUE(a_.Enter("r-1").ok());
}

TEST_F(ObjectJobStoreTest, TheEndWaitsForTheUploadAndForNoMoreThanThat) {
  ASSERT_TRUE(a_.Enter("r-1").ok());
  a_.folder.WriteCheckpoint(1, 1, "first");
  a_.jobs.Step();
  a_.folder.WriteCheckpoint(1, 2, "last");
  StoreIsAway();
  const absl::Time begin = clock_.Steady();
  EXPECT_EQ(a_.Leave("r-1").code(), absl::StatusCode::kUnavailable);
  EXPECT_LE(clock_.Steady() - begin, absl::Seconds(20));
  store_.SetFault(nullptr);
  // The one before counts, on all nodes.
  for (Node* node : {&b_, &a_}) {
    ASSERT_TRUE(node->Enter("r-2", 2).ok());
    EXPECT_THAT(node->folder.Files("checkpoint"), SizeIs(2));
    EXPECT_EQ(node->folder.Read("checkpoint/checkpoint-1/model"), "first");
  }
}

TEST_F(ObjectJobStoreTest, AnUploadThatHangsIsEnded) {
  ASSERT_TRUE(a_.Enter("r-1").ok());
  a_.folder.WriteCheckpoint(1, 1, "state");
  std::atomic<bool> hangs = false;
  std::atomic<bool> away = true;
  // It ends only when it is told to, as a connection of the HTTP client does.
  store_.SetFault([&](const std::string& call, const std::string&) {
    if (call != "put") return absl::OkStatus();
    hangs = true;
    while (away) std::this_thread::yield();
    return absl::CancelledError("a stop was requested");
  });
  absl::Status status;
  std::thread leaving([&] { status = a_.Leave("r-1"); });
  while (!hangs) std::this_thread::yield();
  clock_.Advance(absl::Seconds(21));
  a_.jobs.Step();
  away = false;
  leaving.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

TEST_F(ObjectJobStoreTest, SeveralReplicasHereShareOneFetch) {
  ASSERT_TRUE(a_.Enter("r-1").ok());
  a_.folder.WriteCheckpoint(1, 1, "state");
  ASSERT_TRUE(a_.Leave("r-1").ok());
  ASSERT_TRUE(b_.Enter("r-2", 2).ok());
  const int gets = store_.calls("get");
  b_.folder.WriteCheckpoint(2, 2, "of one that runs");
  ASSERT_TRUE(b_.Enter("r-3", 2).ok());
  EXPECT_EQ(store_.calls("get"), gets);
  EXPECT_EQ(b_.folder.Read("checkpoint/checkpoint-2/model"), "of one that runs");
  // Results are complete with the last one.
  b_.folder.Write("share/metrics", "1");
  ASSERT_TRUE(b_.Leave("r-3").ok());
  EXPECT_FALSE(store_.objects().contains("p/ns/a-1/share/metrics"));
  ASSERT_TRUE(b_.Leave("r-2").ok());
  EXPECT_TRUE(store_.objects().contains("p/ns/a-1/share/metrics"));
}

TEST_F(ObjectJobStoreTest, WhatAnEarlierWorkerStartedIsLookedAfter) {
  a_.folder.WriteCheckpoint(1, 1, "state");
  a_.jobs.Adopt({.name = "ns/a-1", .folder = a_.folder.path(), .group = 1}, "r-1");
  a_.jobs.Step();
  EXPECT_THAT(store_.objects(), SizeIs(3));
}

TEST_F(ObjectJobStoreTest, OfWhatNeverRanNothingIsSaved) {
  ASSERT_TRUE(a_.Enter("r-1").ok());
  a_.folder.Write("share/x", "1");
  ASSERT_TRUE(a_.Leave("r-1", /*save=*/false).ok());
  EXPECT_THAT(store_.objects(), IsEmpty());
  EXPECT_TRUE(a_.Leave("r-9").ok()) << "one that is not known";
}

TEST_F(ObjectJobStoreTest, RemovesAJobAndNoOther) {
  store_.Set("p/ns/a-1/share/x", "1");
  store_.Set("p/ns/a-11/share/x", "stays");
  ASSERT_TRUE(a_.jobs.Remove("ns/a-1").ok());
  EXPECT_THAT(store_.objects(), ElementsAre(Pair("p/ns/a-11/share/x", "stays")));
}

TEST_F(ObjectJobStoreTest, NothingBeginsAfterItsEnd) {
  ASSERT_TRUE(a_.Enter("r-1").ok());
  a_.folder.WriteCheckpoint(1, 1, "state");
  a_.jobs.Shutdown();
  a_.jobs.Step();
  EXPECT_EQ(a_.Leave("r-1").code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(a_.Enter("r-2").code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(store_.objects(), IsEmpty());
}

}  // namespace
}  // namespace adaptdl::worker
