#include "libs/service/security/audit_log.h"

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

  static AuditRecord Refusal() {
    AuditRecord record = Record("r");
    record.code = absl::StatusCode::kPermissionDenied;
    record.refused = true;
    return record;
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

TEST_F(AuditLogTest, KeepsSoManyOldFilesAndNoMore) {
  options_.max_bytes = 1000;
  options_.max_old_files = 2;
  auto log = Open();
  for (int i = 0; i < 100; ++i) log->Write(Record(absl::StrCat("r", i)));
  EXPECT_EQ(Records().back()["request_id"], "r99");
  // Nothing is lost at the seams.
  const int first = std::stoi(Records()[0]["request_id"].get<std::string>().substr(1));
  EXPECT_EQ(Records(".1").back()["request_id"], absl::StrCat("r", first - 1));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_LE(entry.file_size(), 1000);
    ++files;
  }
  EXPECT_EQ(files, 3);
}

TEST_F(AuditLogTest, GoesOnInTheNewFileWhenAnotherProcessHasMovedTheOldOne) {
  auto log = Open();
  log->Write(Record("r1"));
  std::filesystem::rename(options_.path, absl::StrCat(options_.path, ".old"));
  log->Write(Record("r2"));
  EXPECT_THAT(Records(".old"), SizeIs(1));
  EXPECT_THAT(Records(), SizeIs(1));
}

TEST_F(AuditLogTest, LeavesOutRefusalsBeyondALimitAndSaysHowMany) {
  options_.max_refusals_per_second = 3;
  auto log = Open();
  for (int i = 0; i < 10; ++i) log->Write(Refusal());
  log->Write(Record("r"));  // What was done is noted whatever else goes on.
  EXPECT_THAT(Records(), SizeIs(4));
  clock_.Advance(absl::Seconds(1));
  log->Write(Refusal());
  ASSERT_THAT(Records(), SizeIs(5));
  EXPECT_EQ(Records().back()["left_out"], 7);
  log->Write(Refusal());
  EXPECT_FALSE(Records().back().contains("left_out"));
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
