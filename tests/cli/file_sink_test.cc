#include "cli/file_sink.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"

namespace adaptdl::cli {
namespace {

class FileSinkTest : public testing::Test {
 protected:
  FileSinkTest() {
    std::string pattern = absl::StrCat(testing::TempDir(), "/adaptdl-sink-XXXXXX");
    base_ = mkdtemp(pattern.data());
    std::filesystem::create_directory(base_ + "/root");
    std::filesystem::create_directory(base_ + "/outside");
    sink_ = FileSink::Create(base_ + "/root").value();
  }
  ~FileSinkTest() override { std::filesystem::remove_all(base_); }

  absl::Status Write(const std::string& path, const std::string& text, uint32_t mode = 0644) {
    return sink_->Write(path, mode, static_cast<int64_t>(text.size()), 0, text);
  }
  std::string Read(const std::string& path) {
    return ReadWholeFile(base_ + "/root/" + path).value_or("none");
  }
  // Number of entries below the root.
  int Entries() {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::recursive_directory_iterator(base_ + "/root"))
      ++count;
    return count;
  }

  std::string base_;
  std::unique_ptr<FileSink> sink_;
};

TEST_F(FileSinkTest, WritesFilesAndFolders) {
  EXPECT_TRUE(sink_->MakeFolder("a").ok());
  EXPECT_TRUE(sink_->MakeFolder("a").ok());
  EXPECT_TRUE(Write("a/b/c.txt", "text").ok());
  EXPECT_TRUE(Write("empty", "").ok());
  EXPECT_TRUE(sink_->Write("two", 0644, 4, 0, "ab").ok());
  EXPECT_EQ(Read("two"), "none");
  EXPECT_TRUE(sink_->Write("two", 0644, 4, 2, "cd").ok());
  EXPECT_TRUE(sink_->Finish().ok());
  EXPECT_EQ(Read("a/b/c.txt"), "text");
  EXPECT_EQ(Read("empty"), "");
  EXPECT_EQ(Read("two"), "abcd");
  EXPECT_EQ(sink_->files(), 3);
  EXPECT_EQ(sink_->bytes(), 8);
}

TEST_F(FileSinkTest, RefusesPathsThatLeadOut) {
  for (const char* path : {"../x", "a/../../x", "/etc/x", "..", ".", "a//b", "a/./b", "a/"}) {
    EXPECT_EQ(Write(path, "evil").code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(sink_->MakeFolder(path).code(), absl::StatusCode::kInvalidArgument) << path;
  }
  EXPECT_EQ(Write(std::string("a\0b", 3), "evil").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Entries(), 0);
}

TEST_F(FileSinkTest, FollowsNoLinks) {
  std::filesystem::create_directory_symlink("../outside", base_ + "/root/link");
  EXPECT_FALSE(Write("link/x", "evil").ok());
  EXPECT_FALSE(sink_->MakeFolder("link").ok());
  EXPECT_TRUE(std::filesystem::is_empty(base_ + "/outside"));
  // A link in the place of a file is replaced, not written through.
  std::ofstream(base_ + "/outside/file") << "kept";
  std::filesystem::create_symlink("../outside/file", base_ + "/root/file");
  EXPECT_TRUE(Write("file", "new").ok());
  EXPECT_EQ(Read("file"), "new");
  EXPECT_EQ(ReadWholeFile(base_ + "/outside/file").value(), "kept");
}

TEST_F(FileSinkTest, KeepsPermissionsWithoutSpecialBits) {
  ASSERT_TRUE(Write("tool", "x", 06755).ok());
  ASSERT_TRUE(Write("secret", "x", 0).ok());
  struct stat status {};
  ASSERT_EQ(stat((base_ + "/root/tool").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07700, 0700u);
  ASSERT_EQ(stat((base_ + "/root/secret").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(FileSinkTest, LeavesNothingOfAFileThatIsCutShort) {
  EXPECT_TRUE(sink_->Write("a", 0644, 10, 0, "abc").ok());
  EXPECT_TRUE(absl::IsDataLoss(sink_->Finish()));
  EXPECT_TRUE(sink_->Write("b", 0644, 10, 0, "abc").ok());
  EXPECT_TRUE(absl::IsDataLoss(Write("c", "x")));
  EXPECT_TRUE(sink_->Write("d", 0644, 10, 0, "abc").ok());
  sink_.reset();
  EXPECT_EQ(Entries(), 0);
}

TEST_F(FileSinkTest, RefusesPiecesOutOfOrder) {
  EXPECT_TRUE(sink_->Write("a", 0644, 10, 0, "abc").ok());
  EXPECT_EQ(sink_->Write("a", 0644, 10, 5, "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(sink_->Write("b", 0644, 10, 3, "x").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace adaptdl::cli
