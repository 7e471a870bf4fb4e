#include "services/worker/objects/local_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/worker/objects/checkpoint_folder.h"
#include "tests/services/worker/objects/fixture.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

TEST(LocalFilesTest, ListsFilesAndNothingThatLeadsElsewhere) {
  NodeFolder node;
  node.Write("share/b/c", "123");
  node.Write("share/a", "1");
  node.Write("share/.hidden/x", "1");
  node.Write("secret", "s");
  symlink((node.path() + "/secret").c_str(), (node.path() + "/share/link").c_str());
  symlink(node.path().c_str(), (node.path() + "/share/folder").c_str());
  mkfifo((node.path() + "/share/pipe").c_str(), 0600);
  const auto files = ListFiles(node.path() + "/share");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(Field(&LocalFile::path, "a"), Field(&LocalFile::path, "b/c")));
  EXPECT_EQ((*files)[1].size, 3);
  for (const std::string path : {"link", "folder/secret", "pipe", "none", "../secret"})
    EXPECT_FALSE(OpenFile(node.path() + "/share", path).ok()) << path;
  EXPECT_TRUE(ListFiles(node.path() + "/none")->empty());
}

TEST(LocalFilesTest, PutsFilesIntoFoldersButThroughNoLink) {
  NodeFolder node;
  node.Write("file", "1");
  ASSERT_TRUE(MoveInto(node.path() + "/file", node.path() + "/share", "a/b", std::nullopt).ok());
  EXPECT_EQ(node.Read("share/a/b"), "1");
  node.Write("file", "2");
  symlink((node.path() + "/checkpoint").c_str(), (node.path() + "/share/link").c_str());
  EXPECT_FALSE(MoveInto(node.path() + "/file", node.path() + "/share", "link/b", std::nullopt).ok());
  EXPECT_FALSE(std::filesystem::exists(node.path() + "/checkpoint/b"));
}

TEST(LocalFilesTest, SaysThatThereIsNoRoom) {
  NodeFolder node;
  EXPECT_TRUE(CheckRoom(node.path(), 1).ok());
  EXPECT_EQ(CheckRoom(node.path(), int64_t{1} << 62).code(), absl::StatusCode::kResourceExhausted);
}

TEST(CheckpointFolderTest, FindsTheNewestThatIsComplete) {
  NodeFolder node;
  const std::string folder = node.path() + "/checkpoint";
  EXPECT_FALSE(FindCheckpoint(folder, true)->has_value());
  node.WriteCheckpoint(3, 9, "old");
  node.WriteCheckpoint(3, 10, "new");
  node.Write("checkpoint/checkpoint-11/model", "half");
  node.Write("checkpoint/checkpoint-12/MANIFEST", "no manifest");
  const auto found = FindCheckpoint(folder, false);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->id, (SnapshotId{3, 10}));
  EXPECT_THAT((*found)->files, ElementsAre(Field(&LocalFile::path, "checkpoint-10/MANIFEST"),
                                           Field(&LocalFile::path, "checkpoint-10/model")));
}

TEST(CheckpointFolderTest, TakesFilesOfOtherProgramsWhenNobodyWritesAnyMore) {
  NodeFolder node;
  node.Write("checkpoint/model.pt", "m");
  EXPECT_FALSE(FindCheckpoint(node.path() + "/checkpoint", false)->has_value());
  const auto found = FindCheckpoint(node.path() + "/checkpoint", true);
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->id, std::nullopt);
  EXPECT_THAT((*found)->files, ElementsAre(Field(&LocalFile::path, "model.pt")));
}

}  // namespace
}  // namespace adaptdl::worker
