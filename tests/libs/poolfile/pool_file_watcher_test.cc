#include "libs/poolfile/pool_file_watcher.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"

namespace adaptdl::poolfile {
namespace {

using ::testing::HasSubstr;

class PoolFileWatcherTest : public testing::Test {
 protected:
  PoolFileWatcherTest() { std::filesystem::create_directories(folder_); }
  ~PoolFileWatcherTest() override { std::filesystem::remove_all(folder_); }

  // Replaces the file, as editors and deployments do.
  void Write(const std::string& text) { ASSERT_TRUE(WriteFileAtomically(path_, text).ok()); }
  static std::string WithMost(int nodes) {
    return absl::StrCat("pools: [{name: a, provider: process, maxNodes: ", nodes, "}]\n");
  }

  const std::string folder_ = absl::StrCat(testing::TempDir(), "/pools-", RandomHex(8));
  const std::string path_ = folder_ + "/pools.yaml";
};

TEST_F(PoolFileWatcherTest, FollowsEdits) {
  Write(WithMost(1));
  const auto watcher = PoolFileWatcher::Open(path_);
  ASSERT_TRUE(watcher.ok()) << watcher.status();
  EXPECT_EQ((*watcher)->Get()->pools[0].max_nodes, 1);
  Write(WithMost(2));
  EXPECT_EQ((*watcher)->Get()->pools[0].max_nodes, 2);
  EXPECT_TRUE((*watcher)->refusal().ok());
}

TEST_F(PoolFileWatcherTest, KeepsWhatWasGoodAndSaysWhy) {
  Write(WithMost(1));
  const auto watcher = PoolFileWatcher::Open(path_);
  ASSERT_TRUE(watcher.ok()) << watcher.status();
  Write("pools: [{name: a, provider: process, maxNodes: none}]\n");
  EXPECT_EQ((*watcher)->Get()->pools[0].max_nodes, 1);
  EXPECT_THAT(std::string((*watcher)->refusal().message()),
              HasSubstr("pools.yaml:1: pools[0].maxNodes must be"));
  std::filesystem::remove(path_);
  EXPECT_EQ((*watcher)->Get()->pools[0].max_nodes, 1) << "a file that is gone is no empty one";
  EXPECT_FALSE((*watcher)->refusal().ok());
  Write(WithMost(3));
  EXPECT_EQ((*watcher)->Get()->pools[0].max_nodes, 3);
  EXPECT_TRUE((*watcher)->refusal().ok());
}

TEST_F(PoolFileWatcherTest, DoesNotBeginWithABadFile) {
  Write("pools: []\n");
  EXPECT_THAT(std::string(PoolFileWatcher::Open(path_).status().message()), HasSubstr("list at least one"));
}

}  // namespace
}  // namespace adaptdl::poolfile
