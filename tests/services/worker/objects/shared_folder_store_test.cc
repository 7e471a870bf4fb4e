#include "services/worker/objects/shared_folder_store.h"

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/objects/fixture.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class SharedFolderStoreTest : public ::testing::Test {
 protected:
  absl::Status FetchStart(const std::function<void()>& progress = [] {}) {
    return store_.FetchStart({.name = "ns/b-2", .folder = job_.path()},
                             {.name = "ns/a-1", .folder = source_.path()}, progress);
  }
  // What is in the job's folder beside what is always there.
  int Others() {
    int others = 0;
    for (const auto& entry : std::filesystem::directory_iterator(job_.path())) {
      const std::string name = entry.path().filename();
      others += name != "checkpoint" && name != "share" && name != "start" ? 1 : 0;
    }
    return others;
  }

  NodeFolder source_, job_;
  SharedFolderStore store_;
};

TEST_F(SharedFolderStoreTest, CopiesTheNewestCheckpointThatIsComplete) {
  source_.WriteCheckpoint(1, 1, "first");
  source_.WriteCheckpoint(4, 2, std::string(9 << 20, 'x'));
  source_.Write("checkpoint/checkpoint-3/model", "being written");
  source_.Write("checkpoint/.writing-4-abc/model", "being written");
  ASSERT_TRUE(FetchStart().ok());
  auto expected = source_.Files("checkpoint/checkpoint-2");
  EXPECT_EQ(job_.Files("start/checkpoint-2"), expected);
  EXPECT_EQ(job_.Files("start").size(), expected.size());
  EXPECT_THAT(job_.Files("checkpoint"), IsEmpty());
  EXPECT_EQ(Others(), 0);
}

TEST_F(SharedFolderStoreTest, OfProgramsWithCheckpointsOfTheirOwnAllFiles) {
  source_.Write("checkpoint/best/weights", "w");
  source_.Write("checkpoint/epoch", "3");
  ASSERT_TRUE(FetchStart().ok());
  EXPECT_THAT(job_.Files("start"), ElementsAre(Pair("best/weights", "w"), Pair("epoch", "3")));
}

TEST_F(SharedFolderStoreTest, SaysThatThereIsNone) {
  EXPECT_EQ(FetchStart().code(), absl::StatusCode::kNotFound);
  source_.Remove("checkpoint");
  EXPECT_EQ(FetchStart().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(job_.path() + "/start"));
  EXPECT_EQ(Others(), 0);
}

TEST_F(SharedFolderStoreTest, WhatAnotherNodeHasFoundFirstCounts) {
  source_.WriteCheckpoint(1, 1, "mine");
  ASSERT_TRUE(FetchStart([&] { job_.Write("start/checkpoint-2/model", "its"); }).ok());
  EXPECT_THAT(job_.Files("start"), ElementsAre(Pair("checkpoint-2/model", "its")));
  EXPECT_EQ(Others(), 0);
}

TEST_F(SharedFolderStoreTest, AnOlderOneThatGoesMeanwhileIsLeftForTheNewOne) {
  source_.WriteCheckpoint(1, 1, "old");
  bool replaced = false;
  const auto replace = [&] {
    if (std::exchange(replaced, true)) return;
    source_.WriteCheckpoint(1, 2, "new");
    source_.Remove("checkpoint/checkpoint-1");
  };
  ASSERT_TRUE(FetchStart(replace).ok());
  EXPECT_EQ(job_.Read("start/checkpoint-2/model"), "new");
  EXPECT_FALSE(std::filesystem::exists(job_.path() + "/start/checkpoint-1"));
}

TEST_F(SharedFolderStoreTest, LinksLeadNowhere) {
  source_.WriteCheckpoint(1, 1, "state");
  source_.Write("secret", "of another job");
  std::filesystem::create_symlink(source_.path() + "/secret",
                                  source_.path() + "/checkpoint/checkpoint-1/link");
  ASSERT_TRUE(FetchStart().ok());
  EXPECT_FALSE(job_.Files("start").contains("checkpoint-1/link"));
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to somebody else";
  ASSERT_EQ(chown((source_.path() + "/secret").c_str(), 12345, 12345), 0);
  std::filesystem::create_hard_link(source_.path() + "/secret",
                                    source_.path() + "/checkpoint/checkpoint-1/hard");
  job_.Remove("start");
  EXPECT_EQ(FetchStart().code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace adaptdl::worker
