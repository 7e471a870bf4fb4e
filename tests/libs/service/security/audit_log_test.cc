#include "libs/service/security/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/base/manual_clock.h"
#include "nlohmann/json.hpp"

namespace adaptdl::security {
namespace {

using nlohmann::json;
using ::testing::SizeIs;

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() {
    char folder[] = "/tmp/adaptdl-audit-XXXXXX";
    folder_ = mkdtemp(folder);
    options_.path = absl::StrCat(folder_, "/audit.jsonl");
  }
  ~AuditLogTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<AuditLog> Open() {
    auto log = AuditLog::Open(options_, &clock_);
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }

  std::vector<json> Records(const std::string& suffix = "") {
    std::vector<json> records;
    for (const absl::string_view line :
         absl::StrSplit(*ReadWholeFile(absl::StrCat(options_.path, suffix)), '\n', absl::SkipEmpty())) {
      records.push_back(json::parse(line));
    }
    return records;
  }

  static AuditRecord Record(const std::string& request_id) {
    AuditRecord record;
    record.caller = "token \"ci\"";
    record.role = "user";
    record.peer = "ipv4:10.0.0.7:50912";
    record.method = "/adaptdl.v1.JobService/CancelJob";
    record.name_space = "vision";
    record.name = "resnet";
    record.request_id = request_id;
    return record;
  }

  static AuditRecord Failure(const std::string& name) {
    AuditRecord record = Record("r");
    record.name = name;
    record.code = absl::StatusCode::kNotFound;
    return record;
  }

  // Of the last record in an old file.
  void SetTime(int file, absl::Time time) const {
    const timespec times[] = {absl::ToTimespec(time), absl::ToTimespec(time)};
    ASSERT_EQ(utimensat(AT_FDCWD, absl::StrCat(options_.path, ".", file).c_str(), times, 0), 0);
  }

  ManualClock clock_{absl::FromUnixMillis(1'769'860'800'123)};  // 2026-01-31T12:00:00.123Z
  AuditOptions options_;
  std::string folder_;
};

TEST_F(AuditLogTest, WritesOneLineOfJsonPerRecord) {
  Open()->Write(Record("r1"));
  Open()->Write(Record("r2"));  // Another process's: the file goes on.
  const std::vector<json> records = Records();
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0], (json{{"time", "2026-01-31T12:00:00.123Z"},
                              {"caller", "token \"ci\""},
                              {"role", "user"},
                              {"peer", "ipv4:10.0.0.7:50912"},
                              {"method", "/adaptdl.v1.JobService/CancelJob"},
                              {"namespace", "vision"},
                              {"name", "resnet"},
                              {"request_id", "r1"},
                              {"code", "OK"}}));
  struct stat status {};
  ASSERT_EQ(stat(options_.path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(AuditLogTest, BoundsTheFieldsThatCallersChoose) {
  AuditRecord record = Record("r");
  record.name = std::string(10'000, 'x');
  record.node = "a\nb\"c\xff";
  Open()->Write(record);
  const std::vector<json> records = Records();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0]["name"].get<std::string>().size(), 256);
  EXPECT_EQ(records[0]["node"], "a\nb\"c\xef\xbf\xbd");
}

TEST_F(AuditLogTest, OldFilesGoByTheirAge) {
  options_.max_bytes = 1000;
  auto log = Open();
  for (int i = 0; i < 100; ++i) log->Write(Record(absl::StrCat("r", i)));
  EXPECT_EQ(Records().back()["request_id"], "r99");
  // Nothing is lost at the seams, nor at the end.
  int next = 99;
  int files = 0;
  for (std::string suffix; std::filesystem::exists(options_.path + suffix);
       suffix = absl::StrCat(".", ++files)) {
    EXPECT_LE(std::filesystem::file_size(options_.path + suffix), 1000u);
    const std::vector<json> records = Records(suffix);
    for (auto record = records.rbegin(); record != records.rend(); ++record) {
      EXPECT_EQ((*record)["request_id"], absl::StrCat("r", next--));
    }
  }
  EXPECT_EQ(next, -1);
  ASSERT_GT(files, 20);
  // Every hour one, up to now.
  for (int i = 1; i < files; ++i) SetTime(i, clock_.Now() - absl::Hours(i));
  options_.keep = absl::Hours(10) + absl::Minutes(30);
  Open();
  EXPECT_TRUE(std::filesystem::exists(options_.path + ".10"));
  EXPECT_FALSE(std::filesystem::exists(options_.path + ".11"));
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(options_.path, ".", files - 1)));
}

TEST_F(AuditLogTest, TakesNoMoreOfTheDiskThanItMay) {
  options_.max_bytes = 1000;
  options_.max_total_bytes = 5000;
  auto log = Open();
  for (int i = 0; i < 200; ++i) log->Write(Record(absl::StrCat("r", i)));
  EXPECT_EQ(Records().back()["request_id"], "r199");
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) bytes += entry.file_size();
  EXPECT_LE(bytes, 5000u);
  EXPECT_GT(bytes, 3000u);
}

TEST_F(AuditLogTest, GoesOnInTheNewFileWhenAnotherProcessHasMovedTheOldOne) {
  auto log = Open();
  log->Write(Record("r1"));
  std::filesystem::rename(options_.path, absl::StrCat(options_.path, ".old"));
  log->Write(Record("r2"));
  EXPECT_THAT(Records(".old"), SizeIs(1));
  EXPECT_THAT(Records(), SizeIs(1));
}

TEST_F(AuditLogTest, ACallerCanHaveSoManyFailuresNotedAndIsToldHowManyAreMissing) {
  options_.max_failures = 3;
  auto log = Open();
  for (int i = 0; i < 10'000; ++i) log->Write(Failure(absl::StrCat("guess-", i)));
  EXPECT_THAT(Records(), SizeIs(3));
  // What was done is noted whatever else goes on, and so is what others fail at.
  log->Write(Record("r"));
  AuditRecord other = Failure("guess");
  other.caller = "token \"other\"";
  log->Write(other);
  EXPECT_THAT(Records(), SizeIs(5));
  EXPECT_FALSE(Records().back().contains("left_out"));
  clock_.Advance(options_.failure_period);
  log->Write(Failure("later"));
  ASSERT_THAT(Records(), SizeIs(6));
  EXPECT_EQ(Records().back()["left_out"], 9'997);
  clock_.Advance(options_.failure_period);
  log->Write(Failure("last"));
  EXPECT_FALSE(Records().back().contains("left_out"));
}

TEST_F(AuditLogTest, StrangersOfAHostAreOneCaller) {
  options_.max_failures = 3;
  auto log = Open();
  for (int i = 0; i < 100; ++i) {
    AuditRecord record = Failure(absl::StrCat("guess-", i));
    record.caller = record.role = "";
    record.peer = absl::StrCat("ipv4:10.0.0.7:", 50'000 + i);
    log->Write(record);
  }
  EXPECT_THAT(Records(), SizeIs(3));
}

TEST_F(AuditLogTest, TheSameFailureIsOneRecordAndACount) {
  auto log = Open();
  for (int i = 0; i < 1000; ++i) {
    log->Write(Failure("resnet"));
    clock_.Advance(absl::Milliseconds(10));
  }
  EXPECT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(Records()[0]["request_id"], "r");
  EXPECT_FALSE(Records()[0].contains("repeated"));
  clock_.Advance(absl::Minutes(1));
  log->Write(Record("something else"));
  ASSERT_THAT(Records(), SizeIs(3));
  const json folded = Records()[1];
  EXPECT_EQ(folded["repeated"], 999);
  EXPECT_EQ(folded["name"], "resnet");
  EXPECT_EQ(folded["since"], "2026-01-31T12:00:00.123Z");
  EXPECT_EQ(folded["time"], "2026-01-31T12:00:10.113Z");
  // From then on it is news again; at the end nothing is forgotten.
  log->Write(Failure("resnet"));
  log->Write(Failure("resnet"));
  log = nullptr;
  ASSERT_THAT(Records(), SizeIs(5));
  EXPECT_EQ(Records()[4]["repeated"], 1);
}

TEST_F(AuditLogTest, MixesNoLinesOfThreads) {
  auto log = Open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&log] {
      for (int k = 0; k < 50; ++k) log->Write(Record(absl::StrCat(k)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Records(), SizeIs(200));
}

TEST_F(AuditLogTest, SaysAtTheStartThatItsFileCannotBeWritten) {
  options_.path = absl::StrCat(folder_, "/none/audit.jsonl");
  EXPECT_TRUE(absl::IsNotFound(AuditLog::Open(options_, &clock_).status()));
}

}  // namespace
}  // namespace adaptdl::security
