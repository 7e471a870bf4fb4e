#include "libs/service/log.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/base/mutex.h"
#include "libs/service/log_writer.h"
#include "nlohmann/json.hpp"

namespace adaptdl::log {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Options As(const std::string& format, const std::string& level, const std::string& service) {
  Options options;
  options.format = format;
  options.level = level;
  options.service = service;
  return options;
}

std::vector<std::string> Lines(const Options& options, const std::function<void()>& write) {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(Initialize(options).ok());
  write();
  EXPECT_TRUE(Flush(absl::Seconds(30)));
  std::vector<std::string> lines = absl::StrSplit(::testing::internal::GetCapturedStderr(), '\n');
  EXPECT_EQ(lines.back(), "");
  lines.pop_back();
  return lines;
}

nlohmann::json Record(const std::function<void()>& write) {
  const std::vector<std::string> lines = Lines(As("json", "debug", "tester"), write);
  EXPECT_EQ(lines.size(), 1u);
  return nlohmann::json::parse(lines.at(0));
}

TEST(LogTest, JsonRecordsCarryEverythingOnOneLine) {
  const nlohmann::json record = Record([] {
    Warning("replica lost", {{"job", "default/mnist"}, {"group", "3"}});
  });
  EXPECT_EQ(record["message"], "replica lost");
  EXPECT_EQ(record["level"], "warning");
  EXPECT_EQ(record["service"], "tester");
  EXPECT_EQ(record["job"], "default/mnist");
  EXPECT_EQ(record["group"], "3");
  EXPECT_THAT(record["time"].get<std::string>(), ::testing::MatchesRegex("....-..-..T..:..:..\\....Z"));
}

TEST(LogTest, JsonSurvivesWhatUsersPutIntoIt) {
  const std::string nasty =
      "quote \" backslash \\ line\nfeed tab\t nul" + std::string(1, '\0') + " %v {} \x1b[31m é";
  const nlohmann::json record = Record([&] { Info(nasty, {{"a \"key\"", nasty}}); });
  EXPECT_EQ(record["message"], nasty);
  EXPECT_EQ(record["a \"key\""], nasty);
}

TEST(LogTest, BytesThatAreNotUtf8AreReplaced) {
  const nlohmann::json record = Record([] { Info("bad \xff\xfe byte", {{"job", "\xc3"}}); });
  EXPECT_EQ(record["message"], "bad \uFFFD\uFFFD byte");
  EXPECT_EQ(record["job"], "\uFFFD");
}

TEST(LogTest, AServiceNameIsEscapedToo) {
  const std::vector<std::string> lines = Lines(As("json", "info", "a%v\"b"), [] { Info("x"); });
  EXPECT_EQ(nlohmann::json::parse(lines.at(0))["service"], "a%v\"b");
}

TEST(LogTest, ConsoleRecordsCannotBeForged) {
  const std::vector<std::string> lines = Lines(As("console", "info", "tester"), [] {
    Info("a\nb \x1b[31m", {{"job", "x y"}, {"node", "n1"}, {"e", ""}});
  });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("tester: a\\nb \\x1b[31m job=\"x y\" node=n1 e=\"\""));
}

TEST(LogTest, NoColoursWithoutATerminal) {
  const std::vector<std::string> lines = Lines(As("console", "info", "tester"), [] { Error("red?"); });
  EXPECT_THAT(lines.at(0), Not(HasSubstr("\x1b")));
}

TEST(LogTest, LessSevereRecordsAreLeftOut) {
  const std::vector<std::string> lines = Lines(As("console", "warning", "tester"), [] {
    Debug("one");
    Info("two");
    Warning("three");
    Error("four");
  });
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("three"));
  EXPECT_THAT(lines[1], HasSubstr("four"));
}

TEST(LogTest, FormatsAndLevelsThatDoNotExistAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Initialize(As("xml", "info", "tester"))));
  EXPECT_TRUE(absl::IsInvalidArgument(Initialize(As("json", "loud", "tester"))));
  EXPECT_TRUE(absl::IsInvalidArgument(Initialize(As("json", "off", "tester"))));
}

TEST(LogTest, RecordsOfManyThreadsStayWhole) {
  const std::vector<std::string> lines = Lines(As("json", "info", "tester"), [] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        for (int j = 0; j < 50; ++j) Info("record", {{"node", "n"}});
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(lines.size(), 200u);
  for (const std::string& line : lines) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

TEST(LogWriterTest, NobodyWaitsForADiskThatHangs) {
  Mutex mutex;
  CondVar changed;
  bool entered = false;
  bool hangs = true;
  int64_t dropped = 0;
  // Its thread is never told to end, so it is never destroyed either.
  Writer& writer = *new Writer([&](int64_t count) { dropped = count; });
  writer.Post([&] {
    MutexLock lock(&mutex);
    entered = true;
    changed.SignalAll();
    while (hangs) changed.Wait(&mutex);
  });
  {
    MutexLock lock(&mutex);
    while (!entered) changed.Wait(&mutex);
  }
  std::vector<int> written;
  constexpr int kLost = 7;
  for (size_t i = 0; i < Writer::kMostWaiting + kLost; ++i) {
    writer.Post([&written, i] { written.push_back(static_cast<int>(i)); });
  }
  EXPECT_FALSE(writer.Flush(absl::Milliseconds(1)));
  {
    MutexLock lock(&mutex);
    hangs = false;
    changed.SignalAll();
  }
  ASSERT_TRUE(writer.Flush(absl::Seconds(30)));
  ASSERT_EQ(written.size(), Writer::kMostWaiting);
  for (size_t i = 0; i < written.size(); ++i) ASSERT_EQ(written[i], static_cast<int>(i));
  EXPECT_EQ(dropped, kLost);
}

// What stderr and stdout were is restored at its end.
class OwnFile {
 public:
  OwnFile() : out_(dup(STDOUT_FILENO)), err_(dup(STDERR_FILENO)) {
    char folder[] = "/tmp/adaptdl-log-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~OwnFile() {
    EXPECT_TRUE(Flush(absl::Seconds(30)));
    EXPECT_TRUE(Initialize({}).ok());
    dup2(out_, STDOUT_FILENO);
    dup2(err_, STDERR_FILENO);
    close(out_);
    close(err_);
    std::filesystem::remove_all(folder_);
  }
  std::string path() const { return folder_ + "/service.log"; }
  std::string Text(const std::string& suffix = "") const {
    return ReadWholeFile(path() + suffix).value_or("none");
  }

 private:
  const int out_;
  const int err_;
  std::string folder_;
};

TEST(LogTest, AFileIsBegunAnewWhenItIsFullAndTheOldestGoes) {
  const OwnFile file;
  Options options;
  options.file = file.path();
  options.max_file_bytes = 10'000;
  options.max_old_files = 2;
  ASSERT_TRUE(Initialize(options).ok());
  for (int i = 0; i < 2000; ++i) {
    Info("a record", {{"number", absl::StrCat(i)}});
    if (i % 100 == 99) {
      ASSERT_TRUE(Flush(absl::Seconds(30)));
    }
  }
  ASSERT_TRUE(Flush(absl::Seconds(30)));
  std::fprintf(stderr, "a library's last words\n");
  for (const char* suffix : {"", ".1", ".2"}) {
    ASSERT_NE(file.Text(suffix), "none") << suffix;
    EXPECT_LE(file.Text(suffix).size(), 10'200u) << suffix;
  }
  EXPECT_EQ(file.Text(".3"), "none");
  EXPECT_THAT(file.Text(), HasSubstr("a library's last words"));
  // No record is lost at the seams.
  std::vector<std::string> numbers;
  for (const std::string& line : std::vector<std::string>(
           absl::StrSplit(file.Text(".2") + file.Text(".1") + file.Text(), '\n', absl::SkipEmpty()))) {
    const size_t at = line.find("number=");
    if (at != std::string::npos) numbers.push_back(line.substr(at + 7));
  }
  ASSERT_GT(numbers.size(), 200u);
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(numbers[i], absl::StrCat(2000 - numbers.size() + i));
  }
}

TEST(LogTest, AFileThatCannotBeOpenedIsNamed) {
  Options options;
  options.file = "/proc/nowhere/service.log";
  EXPECT_THAT(std::string(Initialize(options).message()), HasSubstr("--log-file /proc/nowhere/service.log"));
}

}  // namespace
}  // namespace adaptdl::log
