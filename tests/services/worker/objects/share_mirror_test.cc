#include "services/worker/objects/share_mirror.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/objects/fixture.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class ShareMirrorTest : public ::testing::Test {
 protected:
  absl::Status Save(const NodeFolder& node) {
    return mirror_.Save({.folder = node.path(), .prefix = "jobs/a"}, {});
  }
  absl::Status Fetch(const NodeFolder& node) {
    return mirror_.Fetch({.folder = node.path(), .prefix = "jobs/a"}, [] {}, {});
  }

  objectstore::MemoryStore store_;
  const ShareMirror mirror_{&store_, "share"};
  NodeFolder a_, b_;
};

TEST_F(ShareMirrorTest, WhatNodesHaveComesTogether) {
  a_.Write("share/a", "of a");
  b_.Write("share/logs/b", "of b");
  ASSERT_TRUE(Save(a_).ok());
  ASSERT_TRUE(Save(b_).ok());
  EXPECT_THAT(store_.objects(),
              ElementsAre(Pair("jobs/a/share/a", "of a"), Pair("jobs/a/share/logs/b", "of b")));
  NodeFolder c;
  ASSERT_TRUE(Fetch(c).ok());
  EXPECT_THAT(c.Files("share"), ElementsAre(Pair("a", "of a"), Pair("logs/b", "of b")));
}

TEST_F(ShareMirrorTest, MovesOnlyWhatHasChanged) {
  a_.Write("share/a", "1");
  ASSERT_TRUE(Save(a_).ok());
  ASSERT_TRUE(Save(a_).ok());
  ASSERT_TRUE(Fetch(a_).ok());
  EXPECT_EQ(store_.calls("put"), 1);
  EXPECT_EQ(store_.calls("get"), 0);
  ASSERT_TRUE(Fetch(b_).ok());
  b_.Write("share/a", "longer");
  ASSERT_TRUE(Save(b_).ok());
  ASSERT_TRUE(Fetch(a_).ok());
  EXPECT_EQ(a_.Read("share/a"), "longer");
}

TEST_F(ShareMirrorTest, KeepsWhatIsNewerHere) {
  a_.Write("share/a", "in the store");
  ASSERT_TRUE(Save(a_).ok());
  b_.Write("share/a", "not saved yet");
  ASSERT_TRUE(Fetch(b_).ok());
  EXPECT_EQ(b_.Read("share/a"), "not saved yet");
}

TEST_F(ShareMirrorTest, KeepsWhatItHasUploadedBeforeAFailure) {
  a_.Write("share/a", "1");
  a_.Write("share/b", "2");
  store_.SetFault([](const std::string& call, const std::string& key) {
    return call == "put" && key.ends_with("/b") ? absl::UnavailableError("away") : absl::OkStatus();
  });
  EXPECT_FALSE(Save(a_).ok());
  store_.SetFault(nullptr);
  EXPECT_TRUE(Save(a_).ok());
  EXPECT_EQ(store_.calls("put"), 3) << "a once, b twice";
}

TEST_F(ShareMirrorTest, WritesNothingOutsideTheFolder) {
  store_.Set("jobs/a/share/../../escape", "x");
  store_.Set("jobs/a/share//absolute", "x");
  store_.Set("jobs/a/share/fine", "x");
  ASSERT_TRUE(Fetch(a_).ok());
  EXPECT_THAT(a_.Files("share"), ElementsAre(Pair("fine", "x")));
}

}  // namespace
}  // namespace adaptdl::worker
