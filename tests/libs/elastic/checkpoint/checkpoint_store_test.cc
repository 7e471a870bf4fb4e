#include "libs/elastic/checkpoint/checkpoint_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"

namespace adaptdl::elastic {
namespace {

namespace fs = std::filesystem;

class CheckpointStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "adaptdl-checkpoint-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  CheckpointStore Store(int64_t group = 1) { return CheckpointStore({.folder = folder_, .group = group}); }

  std::vector<std::string> Entries() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    return names;
  }

  void Damage(const std::string& file) {
    std::fstream stream(folder_ + "/" + file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(3);
    stream.put('#');
  }

  std::string folder_;
};

const StateMap kOld = {{"model", "old weights"}, {"position", "1"}};
const StateMap kNew = {{"model", std::string("new\0weights", 11)}, {"position", ""}};

TEST_F(CheckpointStoreTest, GivesBackWhatWasSavedLast) {
  EXPECT_EQ(Store().LoadNewest().status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(Store().Save(kOld).ok());
  ASSERT_TRUE(Store().Save(kNew).ok());
  const auto checkpoint = Store().LoadNewest();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->states, kNew);
  EXPECT_EQ(checkpoint->version, 2);
  EXPECT_EQ(checkpoint->group, 1);
}

TEST_F(CheckpointStoreTest, KeepsTheNewestTwo) {
  CheckpointStore store = Store();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(store.Save(kOld).ok());
  EXPECT_THAT(Entries(), ::testing::UnorderedElementsAre("checkpoint-4", "checkpoint-5"));
}

TEST_F(CheckpointStoreTest, KeepsAsManyAsAskedFor) {
  for (int keep : {1, 3}) {
    fs::remove_all(folder_);
    CheckpointStore store({.folder = folder_, .group = 1, .keep = keep});
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(store.Save(kOld).ok());
    EXPECT_EQ(Entries().size(), static_cast<size_t>(keep));
    EXPECT_EQ(store.LoadNewest()->version, 5);
  }
}

TEST_F(CheckpointStoreTest, EveryFlippedBitAndEveryCutIsNoticed) {
  ASSERT_TRUE(Store().Save(kOld).ok());
  ASSERT_TRUE(Store().Save(kNew).ok());
  for (const std::string name : {"model", "MANIFEST"}) {
    const std::string path = folder_ + "/checkpoint-2/" + name;
    const std::string good = *ReadWholeFile(path);
    const auto expect_older = [&](const std::string& content) {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
      EXPECT_EQ(Store().LoadNewest()->version, 1);
    };
    for (size_t byte = 0; byte < good.size(); ++byte) {
      std::string flipped = good;
      flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << byte % 8));
      expect_older(flipped);
      expect_older(good.substr(0, byte));
    }
    expect_older(good + "x");
    std::ofstream(path, std::ios::binary | std::ios::trunc) << good;
  }
  EXPECT_EQ(Store().LoadNewest()->version, 2);
}

TEST_F(CheckpointStoreTest, AFolderThatMayNotBeWrittenLeavesTheOlderOne) {
  ASSERT_TRUE(Store().Save(kOld).ok());
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                               fs::perms::others_exec);
  // Root may write everywhere.
  const bool is_root = geteuid() == 0;
  ASSERT_EQ(is_root ? seteuid(65534) : 0, 0);
  EXPECT_EQ(Store().Save(kNew).status().code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(is_root ? seteuid(0) : 0, 0);
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(Store().LoadNewest()->states, kOld);
}

TEST_F(CheckpointStoreTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_FALSE(CheckpointStore({.folder = folder_ + "/file/checkpoints"}).Save(kNew).ok());
}

TEST_F(CheckpointStoreTest, FallsBackToTheOneBeforeADamagedOne) {
  for (const char* damaged : {"checkpoint-2/model", "checkpoint-2/MANIFEST"}) {
    fs::remove_all(folder_);
    ASSERT_TRUE(Store().Save(kOld).ok());
    ASSERT_TRUE(Store().Save(kNew).ok());
    Damage(damaged);
    CheckpointStore store = Store();
    EXPECT_EQ(store.LoadNewest()->states, kOld) << damaged;
    // The next one takes the place of the damaged one, not of the good one.
    ASSERT_TRUE(store.Save(kNew).ok());
    EXPECT_THAT(Entries(), ::testing::UnorderedElementsAre("checkpoint-1", "checkpoint-3")) << damaged;
  }
}

TEST_F(CheckpointStoreTest, FallsBackWhenAFileIsCutShortOrMissing) {
  ASSERT_TRUE(Store().Save(kOld).ok());
  ASSERT_TRUE(Store().Save(kNew).ok());
  fs::resize_file(folder_ + "/checkpoint-2/model", 4);
  EXPECT_EQ(Store().LoadNewest()->states, kOld);
  fs::remove(folder_ + "/checkpoint-2/model");
  EXPECT_EQ(Store().LoadNewest()->states, kOld);
}

TEST_F(CheckpointStoreTest, IgnoresWhatIsNoCheckpoint) {
  ASSERT_TRUE(Store().Save(kOld).ok());
  fs::create_directories(folder_ + "/checkpoint-latest");
  fs::create_directories(folder_ + "/checkpoint-7");
  EXPECT_EQ(Store().LoadNewest()->states, kOld);
  EXPECT_EQ(*Store().Save(kNew), 8);
  EXPECT_EQ(Store().LoadNewest()->states, kNew);
}

TEST_F(CheckpointStoreTest, ACrashAtAnyStepLeavesTheOlderOne) {
  for (const std::string step : {"folder", "model", "position", "MANIFEST", "rename"}) {
    fs::remove_all(folder_);
    ASSERT_TRUE(Store().Save(kOld).ok());
    const pid_t pid = fork();
    if (pid == 0) {
      CheckpointStore store({.folder = folder_, .group = 1, .before_step = [&](absl::string_view at) {
                               if (at == step) _exit(9);
                               return absl::OkStatus();
                             }});
      (void)store.Save(kNew);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_EQ(WEXITSTATUS(status), 9) << step;
    EXPECT_EQ(Store().LoadNewest()->states, kOld) << step;
    // What the crash left behind does not end up in the next one, and goes.
    ASSERT_TRUE(Store().Save(kNew).ok());
    EXPECT_EQ(Store().LoadNewest()->states, kNew) << step;
    EXPECT_THAT(Entries(), ::testing::UnorderedElementsAre("checkpoint-1", "checkpoint-2")) << step;
  }
}

// They may be what fills the disk.
TEST_F(CheckpointStoreTest, RemovesWhatCrashedWritersLeftBeforeItWrites) {
  for (const char* name : {"/.writing-0-abcd", "/.writing-1-abcd", "/.writing-2-abcd"}) {
    fs::create_directories(folder_ + name);
    std::ofstream(folder_ + name + "/model") << "half";
  }
  std::vector<std::string> entries;
  CheckpointStore store({.folder = folder_, .group = 1, .before_step = [&](absl::string_view step) {
                           if (step == "folder") entries = Entries();
                           return absl::OkStatus();
                         }});
  ASSERT_TRUE(store.Save(kNew).ok());
  // A newer group is at work on its own.
  EXPECT_THAT(entries, ::testing::ElementsAre(".writing-2-abcd"));
}

TEST_F(CheckpointStoreTest, AFullDiskLeavesTheOlderOne) {
  ASSERT_TRUE(Store().Save(kOld).ok());
  CheckpointStore store({.folder = folder_, .group = 1, .before_step = [](absl::string_view step) {
                           return step == "position" ? absl::ResourceExhaustedError("no space left on device")
                                                     : absl::OkStatus();
                         }});
  EXPECT_EQ(store.Save(kNew).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Store().LoadNewest()->states, kOld);
  EXPECT_THAT(Entries(), ::testing::ElementsAre("checkpoint-1"));
}

TEST_F(CheckpointStoreTest, AnOldGroupDoesNotWriteAfterANewerOne) {
  ASSERT_TRUE(Store(/*group=*/2).Save(kNew).ok());
  EXPECT_EQ(Store(/*group=*/1).Save(kOld).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Store().LoadNewest()->states, kNew);
}

TEST_F(CheckpointStoreTest, RefusesANameThatIsNoFileName) {
  for (const std::string name : {"", "../evil", ".hidden", "MANIFEST"}) {
    EXPECT_EQ(Store().Save({{name, "x"}}).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(Entries().empty());
}

}  // namespace
}  // namespace adaptdl::elastic
