#include "libs/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sys/resource.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl {
namespace {

using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    char folder[] = "/tmp/adaptdl-file-XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = folder_ + "/file";
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  int Entries() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_;
  std::string path_;
};

TEST_F(FileTest, WritesAndReadsBack) {
  const std::string content("a\0b\n", 4);
  ASSERT_TRUE(WriteFileAtomically(path_, content).ok());
  EXPECT_EQ(ReadWholeFile(path_).value(), content);
  EXPECT_EQ(Entries(), 1);
}

TEST_F(FileTest, AnEmptyFileIsAFile) {
  ASSERT_TRUE(WriteFileAtomically(path_, "").ok());
  EXPECT_EQ(ReadWholeFile(path_).value(), "");
}

TEST_F(FileTest, ReplacesTheWholeFile) {
  ASSERT_TRUE(WriteFileAtomically(path_, std::string(1 << 20, 'x')).ok());
  ASSERT_TRUE(WriteFileAtomically(path_, "short").ok());
  EXPECT_EQ(ReadWholeFile(path_).value(), "short");
  EXPECT_EQ(Entries(), 1);
}

TEST_F(FileTest, AReaderOfTheOldFileKeepsIt) {
  ASSERT_TRUE(WriteFileAtomically(path_, "old").ok());
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_TRUE(WriteFileAtomically(path_, "new").ok());
  char buffer[8] = {};
  EXPECT_EQ(read(fd, buffer, sizeof(buffer)), 3);
  EXPECT_STREQ(buffer, "old");
  close(fd);
}

TEST_F(FileTest, HonoursTheMode) {
  ASSERT_TRUE(WriteFileAtomically(path_, "secret", 0600).ok());
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(FileTest, AMissingFolderIsNamed) {
  const absl::Status status = WriteFileAtomically(folder_ + "/missing/file", "x");
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/missing/file"));
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  ASSERT_TRUE(WriteFileAtomically(path_, "old").ok());
  // A limit on the size of files stands for the full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{1000, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = WriteFileAtomically(path_, std::string(5000, 'x'));
  setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_EQ(ReadWholeFile(path_).value(), "old");
  EXPECT_EQ(Entries(), 1);
}

TEST_F(FileTest, AFolderInTheWayIsAnError) {
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(WriteFileAtomically(path_, "x").ok());
  EXPECT_EQ(Entries(), 1);
  EXPECT_FALSE(ReadWholeFile(path_).ok());
}

TEST_F(FileTest, AMissingFileIsNotFound) {
  const absl::Status status = ReadWholeFile(path_).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
}

TEST_F(FileTest, AFileThatIsTooLargeIsRefused) {
  ASSERT_TRUE(WriteFileAtomically(path_, "12345").ok());
  EXPECT_EQ(ReadWholeFile(path_, 5).value(), "12345");
  EXPECT_TRUE(absl::IsOutOfRange(ReadWholeFile(path_, 4).status()));
}

TEST(ErrnoStatusTest, HasTheCanonicalCode) {
  EXPECT_TRUE(absl::IsNotFound(ErrnoStatus(ENOENT, "open x")));
  EXPECT_TRUE(absl::IsResourceExhausted(ErrnoStatus(ENOSPC, "write x")));
  EXPECT_THAT(std::string(ErrnoStatus(ENOENT, "open x").message()), HasSubstr("open x: No such file"));
}

}  // namespace
}  // namespace adaptdl
