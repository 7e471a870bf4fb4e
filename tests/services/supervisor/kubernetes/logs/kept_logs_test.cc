#include "services/supervisor/kubernetes/logs/kept_logs.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

class KeptLogsTest : public testing::Test {
 protected:
  KeptLogsTest() {
    char folder[] = "/tmp/adaptdl-kept-XXXXXX";
    folder_ = mkdtemp(folder);
    Open();
  }
  ~KeptLogsTest() override { fs::remove_all(folder_); }

  void Open(KeptLogsOptions options = {}) {
    auto logs = KeptLogs::Create(folder_ + "/logs", options);
    ASSERT_TRUE(logs.ok()) << logs.status();
    logs_ = *std::move(logs);
  }
  std::string Text(const std::string& job, const std::string& replica) {
    auto file = logs_->Open(job, replica);
    if (!file.ok()) return std::string(absl::StatusCodeToString(file.status().code()));
    std::ostringstream text;
    text << file->text.rdbuf();
    return text.str();
  }

  std::string folder_;
  std::unique_ptr<KeptLogs> logs_;
};

TEST_F(KeptLogsTest, IsFoundAgainAlsoAfterARestart) {
  ASSERT_TRUE(
      logs_->Put("job", "r-0", {.text = "a\nb\n", .beginning_is_missing = true, .error = "x\ny"}).ok());
  for (const bool again : {false, true}) {
    if (again) Open();
    EXPECT_EQ(Text("job", "r-0"), "a\nb\n");
    const auto file = logs_->Open("job", "r-0");
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->beginning_is_missing);
    EXPECT_EQ(file->error, "x\ny");
    EXPECT_EQ(Text("job", "r-1"), "NOT_FOUND");
  }
  ASSERT_TRUE(logs_->Put("job", "r-0", {.text = "c\n"}).ok());
  EXPECT_EQ(Text("job", "r-0"), "c\n");
  EXPECT_EQ(logs_->bytes(), 4096);
}

TEST_F(KeptLogsTest, OnlyItsOwnerReadsIt) {
  ASSERT_TRUE(logs_->Put("job", "r", {.text = "secret"}).ok());
  for (const char* folder : {"/logs", "/logs/job"})
    EXPECT_EQ(fs::status(folder_ + folder).permissions(), fs::perms::owner_all) << folder;
}

TEST_F(KeptLogsTest, NamesLeadNowhereElse) {
  for (const char* name : {"", "..", ".", "a/b", "../a", "a\n", ".hidden"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(logs_->Put("job", name, {}))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(logs_->Put(name, "r", {}))) << name;
  }
  EXPECT_TRUE(fs::is_empty(folder_ + "/logs"));
}

TEST_F(KeptLogsTest, TheOldestOfAJobGoFirst) {
  Open({.job_bytes = 3 * 4096});
  for (const char* replica : {"a", "b", "c", "d"})
    ASSERT_TRUE(logs_->Put("job", replica, {.text = "x"}).ok());
  EXPECT_EQ(Text("job", "a"), "NOT_FOUND");
  EXPECT_EQ(Text("job", "b"), "x");
  ASSERT_TRUE(logs_->Put("other", "a", {.text = "x"}).ok());
  EXPECT_EQ(Text("job", "b"), "x") << "another job has bounds of its own";
  ASSERT_TRUE(logs_->Put("job", "e", {.text = std::string(2 * 4096, 'x')}).ok());
  EXPECT_EQ(Text("job", "d"), "NOT_FOUND") << "a block more, for the first line";
  EXPECT_FALSE(fs::exists(folder_ + "/logs/job/d.log"));
}

TEST_F(KeptLogsTest, TheOldestOfAllGoFirst) {
  ASSERT_TRUE(logs_->Put("b", "r", {.text = "x"}).ok());
  ASSERT_TRUE(logs_->Put("a", "r", {.text = "x"}).ok());
  Open({.all_bytes = 2 * 4096});
  ASSERT_TRUE(logs_->Put("c", "r", {.text = "x"}).ok());
  EXPECT_EQ(logs_->bytes(), 2 * 4096);
  EXPECT_EQ(Text("b", "r"), "NOT_FOUND") << "it was there before the restart";
  EXPECT_EQ(Text("a", "r"), "x");
}

TEST_F(KeptLogsTest, GoesWithItsJob) {
  ASSERT_TRUE(logs_->Put("gone", "r", {.text = "x"}).ok());
  ASSERT_TRUE(logs_->Put("there", "r", {.text = "x"}).ok());
  Open();
  logs_->Sweep([](const std::string& uid) { return uid == "there"; });
  EXPECT_FALSE(fs::exists(folder_ + "/logs/gone"));
  EXPECT_EQ(Text("there", "r"), "x");
  EXPECT_EQ(logs_->bytes(), 4096);
}

TEST_F(KeptLogsTest, ADamagedFileIsSaidToBe) {
  ASSERT_TRUE(logs_->Put("job", "r", {.text = "x"}).ok());
  for (const std::string& content : {std::string("no json\nx"), std::string(100'000, '{'), std::string()}) {
    std::ofstream(folder_ + "/logs/job/r.log") << content;
    EXPECT_EQ(Text("job", "r"), "DATA_LOSS");
  }
}

TEST_F(KeptLogsTest, ADiskThatTakesNothingIsAnError) {
  fs::remove_all(folder_ + "/logs");
  std::ofstream(folder_ + "/logs") << "no folder";
  EXPECT_FALSE(logs_->Put("job", "r", {.text = "x"}).ok());
  EXPECT_EQ(Text("job", "r"), "NOT_FOUND");
}

}  // namespace
}  // namespace adaptdl::supervisor
