#include "services/worker/shim/cri_log.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixNanos(1'700'000'000'123'456'789);
constexpr char kStamp[] = "2023-11-14T22:13:20.123456789Z";

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

class CriLogTest : public ::testing::Test {
 protected:
  CriLogWriter::Options Options() { return {.path = path_, .write = nullptr}; }

  TempFolder folder_;
  const std::string path_ = folder_ / "replica.log";
};

TEST_F(CriLogTest, WritesEachLineWithTimeStreamAndTag) {
  CriLogWriter log(Options());
  log.Append(LogStream::kStdout, "one\ntw", kNow);
  log.Append(LogStream::kStderr, "oops\n", kNow);
  log.Append(LogStream::kStdout, "o\n\n", kNow);
  EXPECT_THAT(Lines(ReadFile(path_)),
              ElementsAre(absl::StrCat(kStamp, " stdout F one"), absl::StrCat(kStamp, " stderr F oops"),
                          absl::StrCat(kStamp, " stdout F two"), absl::StrCat(kStamp, " stdout F ")));
}

TEST_F(CriLogTest, WritesAnUnfinishedLineAtTheEnd) {
  CriLogWriter log(Options());
  log.Append(LogStream::kStdout, "no line feed", kNow);
  EXPECT_EQ(ReadFile(path_), "");
  log.Finish(kNow);
  EXPECT_THAT(Lines(ReadFile(path_)), ElementsAre(absl::StrCat(kStamp, " stdout F no line feed")));
}

TEST_F(CriLogTest, SplitsLongLinesWhereverTheWritesWere) {
  const std::string line(2 * kMaxLogText + 10, 'x');
  CriLogWriter log(Options());
  log.Append(LogStream::kStdout, line.substr(0, 1000), kNow);
  log.Append(LogStream::kStdout, line.substr(1000) + "\n", kNow);
  EXPECT_THAT(Lines(ReadFile(path_)),
              ElementsAre(absl::StrCat(kStamp, " stdout P ", std::string(kMaxLogText, 'x')),
                          absl::StrCat(kStamp, " stdout P ", std::string(kMaxLogText, 'x')),
                          absl::StrCat(kStamp, " stdout F ", std::string(10, 'x'))));
}

TEST_F(CriLogTest, ALineOfExactlyTheLimitIsWhole) {
  CriLogWriter log(Options());
  log.Append(LogStream::kStdout, std::string(kMaxLogText, 'x') + "\n", kNow);
  EXPECT_THAT(Lines(ReadFile(path_)),
              ElementsAre(absl::StrCat(kStamp, " stdout F ", std::string(kMaxLogText, 'x'))));
}

TEST_F(CriLogTest, KeepsBinaryOutputAsItIs) {
  const std::string bytes("\0\xff\x80\x1b[31m\r", 9);
  CriLogWriter log(Options());
  log.Append(LogStream::kStdout, bytes + "\n", kNow);
  EXPECT_EQ(ReadFile(path_), absl::StrCat(kStamp, " stdout F ", bytes, "\n"));
}

TEST_F(CriLogTest, RotatesBySizeAndKeepsSoManyFiles) {
  CriLogWriter::Options options = Options();
  options.max_file_bytes = 100;
  options.max_files = 3;
  CriLogWriter log(options);
  for (int i = 0; i < 10; ++i) log.Append(LogStream::kStdout, absl::StrCat("line ", i, "\n"), kNow);
  // Two entries of 45 bytes fit into a file.
  EXPECT_THAT(Lines(ReadFile(path_)), SizeIs(2));
  EXPECT_THAT(ReadFile(path_), HasSubstr("line 9"));
  EXPECT_THAT(ReadFile(path_ + ".1"), HasSubstr("line 6"));
  EXPECT_THAT(ReadFile(path_ + ".2"), HasSubstr("line 4"));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".3"));
}

TEST_F(CriLogTest, DropsAndCountsWhileTheDiskIsFullAndSaysSoAfterwards) {
  int space = 60;
  CriLogWriter::Options options = Options();
  options.write = [&space](int fd, const void* data, size_t size) -> ssize_t {
    if (space == 0) {
      errno = ENOSPC;
      return -1;
    }
    const size_t part = std::min<size_t>(size, space);
    space -= static_cast<int>(part);
    return write(fd, data, part);
  };
  CriLogWriter log(options);
  log.Append(LogStream::kStdout, "first\n", kNow);
  log.Append(LogStream::kStdout, "second\n", kNow);  // fits in part: nothing of it may stay
  log.Append(LogStream::kStdout, "third\n", kNow);
  EXPECT_EQ(log.dropped_bytes(), 13);
  space = 1 << 20;
  log.Append(LogStream::kStdout, "fourth\n", kNow);
  const std::vector<std::string> lines = Lines(ReadFile(path_));
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0], absl::StrCat(kStamp, " stdout F first"));
  EXPECT_THAT(lines[1], HasSubstr("stderr F adaptdl: 13 bytes of output are missing"));
  EXPECT_EQ(lines[2], absl::StrCat(kStamp, " stdout F fourth"));
  EXPECT_EQ(log.dropped_bytes(), 13);
}

TEST_F(CriLogTest, AFolderThatDoesNotExistOnlyDrops) {
  CriLogWriter log({.path = folder_ / "missing/replica.log", .write = nullptr});
  log.Append(LogStream::kStdout, "lost\n", kNow);
  EXPECT_EQ(log.dropped_bytes(), 5);
}

}  // namespace
}  // namespace adaptdl::worker
