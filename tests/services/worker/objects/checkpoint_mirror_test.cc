#include "services/worker/objects/checkpoint_mirror.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/objects/fixture.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class CheckpointMirrorTest : public ::testing::Test {
 protected:
  absl::Status Save(const NodeFolder& node, int64_t group = 1, bool at_rest = false) {
    return mirror_.Save({.folder = node.path(), .prefix = "jobs/a"}, group, at_rest, {});
  }
  absl::Status Fetch(const NodeFolder& node) {
    return mirror_.Fetch({.folder = node.path(), .prefix = "jobs/a"}, [this] { ++progress_; }, {});
  }
  static std::string Key(int64_t group, int64_t version, const std::string& file) {
    const std::string name = SnapshotName({group, version});
    return file.empty() ? "jobs/a/manifests/" + name : absl::StrCat("jobs/a/files/", name, "/", file);
  }

  objectstore::MemoryStore store_;
  const CheckpointMirror mirror_{&store_, "checkpoint"};
  NodeFolder a_, b_;
  int progress_ = 0;
};

TEST_F(CheckpointMirrorTest, WhatOneNodeSavesAnotherFetches) {
  a_.WriteCheckpoint(1, 7, "state");
  ASSERT_TRUE(Save(a_).ok());
  EXPECT_THAT(store_.objects(), SizeIs(3));
  b_.WriteCheckpoint(1, 9, "of a life that nobody knows");
  ASSERT_TRUE(Fetch(b_).ok());
  EXPECT_EQ(b_.Files("checkpoint"), a_.Files("checkpoint"));
  EXPECT_GT(progress_, 0);
}

TEST_F(CheckpointMirrorTest, AnotherJobStartsFromTheNewestOne) {
  const auto start = [&] {
    return mirror_.FetchStart({.folder = b_.path(), .prefix = "jobs/b"}, "jobs/a", "start", [] {}, {});
  };
  EXPECT_EQ(start().code(), absl::StatusCode::kNotFound);
  a_.WriteCheckpoint(3, 7, "state");
  ASSERT_TRUE(Save(a_, 3).ok());
  ASSERT_TRUE(start().ok());
  EXPECT_EQ(b_.Files("start"), a_.Files("checkpoint"));
  EXPECT_THAT(b_.Files("checkpoint"), IsEmpty());
  a_.WriteCheckpoint(3, 8, "later");
  ASSERT_TRUE(Save(a_, 3).ok());
  ASSERT_TRUE(start().ok());
  EXPECT_EQ(b_.Read("start/checkpoint-7/model"), "state") << "what it began with stays";
  // What it has from another job is not its own.
  ASSERT_TRUE(mirror_.Save({.folder = b_.path(), .prefix = "jobs/b"}, 1, true, {}).ok());
  for (const auto& [key, content] : store_.objects()) EXPECT_TRUE(absl::StartsWith(key, "jobs/a/")) << key;
}

TEST_F(CheckpointMirrorTest, AskedAgainItMovesNothing) {
  a_.WriteCheckpoint(1, 7, "state");
  ASSERT_TRUE(Save(a_).ok());
  const int puts = store_.calls("put");
  const int gets = store_.calls("get");
  ASSERT_TRUE(Save(a_).ok());
  ASSERT_TRUE(Fetch(a_).ok());
  EXPECT_EQ(store_.calls("put"), puts);
  EXPECT_EQ(store_.calls("get"), gets);
  ASSERT_TRUE(Fetch(b_).ok());
  const int once = store_.calls("get");
  ASSERT_TRUE(Fetch(b_).ok());
  ASSERT_TRUE(Save(b_).ok());
  EXPECT_EQ(store_.calls("get"), once);
  EXPECT_EQ(store_.calls("put"), puts);
}

TEST_F(CheckpointMirrorTest, ANodeWithNothingNewerInTheStoreKeepsWhatItHas) {
  a_.WriteCheckpoint(1, 7, "state");
  ASSERT_TRUE(Fetch(a_).ok());
  EXPECT_EQ(a_.Read("checkpoint/checkpoint-7/model"), "state");
}

TEST_F(CheckpointMirrorTest, TwoStayTheOlderOnesGo) {
  for (int version = 1; version <= 4; ++version) {
    a_.WriteCheckpoint(1, version, "state");
    ASSERT_TRUE(Save(a_).ok());
  }
  const auto objects = store_.objects();
  EXPECT_THAT(objects, SizeIs(6));
  EXPECT_TRUE(objects.contains(Key(1, 3, "")) && objects.contains(Key(1, 4, "")));
}

TEST_F(CheckpointMirrorTest, ATornUploadIsNeverUsed) {
  a_.WriteCheckpoint(1, 1, "first");
  ASSERT_TRUE(Save(a_).ok());
  a_.WriteCheckpoint(1, 2, "second");
  store_.SetFault([&](const std::string& call, const std::string& key) {
    return call == "put" && key == Key(1, 2, "") ? absl::UnavailableError("away") : absl::OkStatus();
  });
  EXPECT_EQ(Save(a_).code(), absl::StatusCode::kUnavailable);
  store_.SetFault(nullptr);
  ASSERT_TRUE(Fetch(b_).ok());
  EXPECT_EQ(b_.Read("checkpoint/checkpoint-1/model"), "first");
  EXPECT_EQ(b_.Read("checkpoint/checkpoint-2/model"), "");
  // Its files go with the next one.
  b_.WriteCheckpoint(2, 2, "third");
  ASSERT_TRUE(Save(b_, 2).ok());
  EXPECT_FALSE(store_.objects().contains(Key(1, 2, "checkpoint-2/model")));
}

TEST_F(CheckpointMirrorTest, ADamagedOneIsPassedOver) {
  for (const auto& [file, content] : {std::pair<std::string, std::string>{"checkpoint-2/model", "sec0nd"},
                                      {"checkpoint-2/model", "longer than it was"},
                                      {"", "no manifest"}}) {
    NodeFolder writer, reader;
    store_.SetFault(nullptr);
    for (const auto& [key, value] : store_.objects()) ASSERT_TRUE(store_.Delete({key}, {}).ok());
    writer.WriteCheckpoint(1, 1, "first");
    ASSERT_TRUE(Save(writer).ok());
    writer.WriteCheckpoint(1, 2, "second");
    ASSERT_TRUE(Save(writer).ok());
    store_.Set(Key(1, 2, file), content);
    ASSERT_TRUE(Fetch(reader).ok());
    EXPECT_EQ(reader.Read("checkpoint/checkpoint-1/model"), "first");
  }
}

TEST_F(CheckpointMirrorTest, WhereAllAreDamagedNobodyBeginsAnewUnasked) {
  a_.WriteCheckpoint(1, 1, "first");
  ASSERT_TRUE(Save(a_).ok());
  store_.Set(Key(1, 1, "checkpoint-1/model"), "f1rst");
  b_.Write("checkpoint/mine", "x");
  EXPECT_EQ(Fetch(b_).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(b_.Files("checkpoint"), ElementsAre(Pair("mine", "x")));
}

TEST_F(CheckpointMirrorTest, AStoreThatIsAwayIsNoStoreWithoutCheckpoints) {
  store_.SetFault([](const std::string&, const std::string&) { return absl::UnavailableError("away"); });
  EXPECT_EQ(Fetch(a_).code(), absl::StatusCode::kUnavailable);
}

TEST_F(CheckpointMirrorTest, ALateUploadOfAnEarlierGroupIsNoNewerOne) {
  b_.WriteCheckpoint(3, 1, "of group 3");
  ASSERT_TRUE(Save(b_, 3).ok());
  a_.WriteCheckpoint(2, 50, "of group 2");
  ASSERT_TRUE(Save(a_, 2).ok());
  NodeFolder c;
  ASSERT_TRUE(Fetch(c).ok());
  EXPECT_EQ(c.Read("checkpoint/checkpoint-1/model"), "of group 3");
  // And the node that was late takes over what the other has written.
  ASSERT_TRUE(Fetch(a_).ok());
  EXPECT_EQ(a_.Files("checkpoint"), b_.Files("checkpoint"));
}

TEST_F(CheckpointMirrorTest, FilesOfOtherProgramsAreSavedWhenTheyRest) {
  a_.Write("checkpoint/model.pt", "one");
  ASSERT_TRUE(Save(a_, 1).ok());
  EXPECT_THAT(store_.objects(), IsEmpty());
  ASSERT_TRUE(Save(a_, 1, true).ok());
  ASSERT_TRUE(Fetch(b_).ok());
  EXPECT_EQ(b_.Read("checkpoint/model.pt"), "one");
  b_.Write("checkpoint/model.pt", "another");
  ASSERT_TRUE(Save(b_, 1, true).ok());
  ASSERT_TRUE(Fetch(a_).ok());
  EXPECT_EQ(a_.Read("checkpoint/model.pt"), "another");
}

TEST_F(CheckpointMirrorTest, WhatIsFetchedBelongsToTheJob) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  a_.WriteCheckpoint(1, 7, "state");
  ASSERT_TRUE(Save(a_).ok());
  const MirroredJob job{.folder = b_.path(), .prefix = "jobs/a", .owner = FileOwner{200001, 200002}};
  ASSERT_TRUE(mirror_.Fetch(job, [] {}, {}).ok());
  for (const std::string path : {"checkpoint", "checkpoint/checkpoint-7", "checkpoint/checkpoint-7/model"}) {
    struct stat info = {};
    ASSERT_EQ(lstat((b_.path() + "/" + path).c_str(), &info), 0) << path;
    EXPECT_EQ(info.st_uid, 200001u) << path;
    EXPECT_EQ(info.st_gid, 200002u) << path;
    EXPECT_EQ(info.st_mode & 077, 0u) << path;
  }
}

TEST_F(CheckpointMirrorTest, AnUploadThatWasCutOffIsDoneAgain) {
  a_.WriteCheckpoint(1, 1, "first");
  store_.SetFault([](const std::string& call, const std::string&) {
    return call == "put" ? absl::UnavailableError("away") : absl::OkStatus();
  });
  EXPECT_FALSE(Save(a_).ok());
  store_.SetFault(nullptr);
  EXPECT_TRUE(Save(a_).ok());
  EXPECT_THAT(store_.objects(), SizeIs(3));
}

}  // namespace
}  // namespace adaptdl::worker
