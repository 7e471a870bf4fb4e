#include "services/worker/log_cursor.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/worker/shim/cri_log.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixNanos(1'700'000'000'123'456'789);

class LogCursorTest : public ::testing::Test {
 protected:
  // Two lines "line N" per file, three files.
  CriLogWriter Writer() {
    return CriLogWriter(
        {.path = folder_ / "replica.log", .max_file_bytes = 100, .max_files = 3, .write = nullptr});
  }

  static void WriteLine(CriLogWriter& log, int number) {
    log.Append(LogStream::kStdout, absl::StrCat("line ", number, "\n"), kNow);
  }

  static std::vector<std::string> Texts(const std::vector<LogEntry>& entries) {
    std::vector<std::string> texts;
    for (const LogEntry& entry : entries) texts.push_back(entry.text);
    return texts;
  }

  TempFolder folder_;
};

TEST_F(LogCursorTest, ParsesEntries) {
  const auto entry = ParseLogEntry("2023-11-14T22:13:20.123456789Z stderr P a  b ");
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->time, kNow);
  EXPECT_TRUE(entry->is_stderr);
  EXPECT_TRUE(entry->partial);
  EXPECT_EQ(entry->text, "a  b ");
  for (const char* bad : {"", "hello", "2023-11-14T22:13:20Z stdout X a", "2023-11-14T22:13:20Z stdin F a",
                          "yesterday stdout F a", "2023-11-14T22:13:20Z stdout F"}) {
    EXPECT_FALSE(ParseLogEntry(bad).has_value()) << bad;
  }
}

TEST_F(LogCursorTest, ReadsAllFilesInOrder) {
  CriLogWriter log = Writer();
  for (int i = 0; i < 5; ++i) WriteLine(log, i);
  LogCursor cursor(folder_.path(), 0);
  EXPECT_THAT(Texts(cursor.Read(1 << 20)), ElementsAre("line 0", "line 1", "line 2", "line 3", "line 4"));
  EXPECT_THAT(cursor.Read(1 << 20), IsEmpty());
}

TEST_F(LogCursorTest, FollowsThroughRotation) {
  CriLogWriter log = Writer();
  LogCursor cursor(folder_.path(), 0);
  EXPECT_THAT(cursor.Read(1 << 20), IsEmpty());
  std::vector<std::string> seen, expected;
  for (int i = 0; i < 50; ++i) {
    WriteLine(log, i);
    expected.push_back(absl::StrCat("line ", i));
    if (i % 3 == 0) {
      for (const std::string& text : Texts(cursor.Read(1 << 20))) seen.push_back(text);
    }
  }
  for (const std::string& text : Texts(cursor.Read(1 << 20))) seen.push_back(text);
  EXPECT_EQ(seen, expected);
}

TEST_F(LogCursorTest, AReaderThatIsTooSlowGoesOnWithWhatIsLeft) {
  CriLogWriter log = Writer();
  WriteLine(log, 0);
  LogCursor cursor(folder_.path(), 0);
  for (int i = 1; i < 20; ++i) WriteLine(log, i);
  // Its first file is still open, then come the three that are left.
  EXPECT_THAT(Texts(cursor.Read(1 << 20)), ElementsAre("line 0", "line 1", "line 14", "line 15", "line 16",
                                                       "line 17", "line 18", "line 19"));
}

TEST_F(LogCursorTest, GivesTheLastLinesAcrossFiles) {
  CriLogWriter log = Writer();
  for (int i = 0; i < 5; ++i) WriteLine(log, i);
  for (int tail = 1; tail <= 5; ++tail) {
    LogCursor cursor(folder_.path(), tail);
    const std::vector<std::string> texts = Texts(cursor.Read(1 << 20));
    ASSERT_EQ(static_cast<int>(texts.size()), tail);
    EXPECT_EQ(texts.front(), absl::StrCat("line ", 5 - tail));
  }
  EXPECT_EQ(LogCursor(folder_.path(), 100).Read(1 << 20).size(), 5u);
}

TEST_F(LogCursorTest, TheLastLinesOfALargeFile) {
  CriLogWriter log({.path = folder_ / "replica.log", .write = nullptr});
  for (int i = 0; i < 10'000; ++i) WriteLine(log, i);
  LogCursor cursor(folder_.path(), 3000);
  size_t count = 0;
  std::string first, last;
  while (true) {
    const std::vector<LogEntry> entries = cursor.Read(10'000);
    if (entries.empty()) break;
    if (first.empty()) first = entries.front().text;
    last = entries.back().text;
    count += entries.size();
  }
  EXPECT_EQ(count, 3000u);
  EXPECT_EQ(first, "line 7000");
  EXPECT_EQ(last, "line 9999");
}

TEST_F(LogCursorTest, SkipsWhatIsNoEntryAndWaitsForWholeLines) {
  const std::string entry = "2023-11-14T22:13:20.1Z stdout F whole";
  WriteFile(folder_ / "replica.log", absl::StrCat("garbage\n", entry, "\n", entry.substr(0, 30)));
  LogCursor cursor(folder_.path(), 0);
  EXPECT_THAT(Texts(cursor.Read(1 << 20)), ElementsAre("whole"));
  WriteFile(folder_ / "replica.log", absl::StrCat("garbage\n", entry, "\n", entry, "\n"));
  EXPECT_THAT(Texts(cursor.Read(1 << 20)), ElementsAre("whole"));
}

}  // namespace
}  // namespace adaptdl::worker
