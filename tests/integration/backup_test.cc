// The supervisor's state, backed up while it works and put back after it was lost.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BackupTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  void Submit(const std::string& name) {
    ASSERT_TRUE(cluster_.Submit(cluster_.CommandJob(name, {"train"})).ok());
  }

  // Runs the command line tool. Its exit code; what it wrote is in output_.
  int Adaptdl(std::vector<std::string> arguments) {
    const std::vector<std::string> flags = cluster_.CommandFlags();
    arguments.insert(arguments.begin(), flags.begin(), flags.end());
    arguments.insert(arguments.begin(), absl::StrCat(ADAPTDL_BINARY_DIR, "/bin/adaptdl"));
    const std::string log = absl::StrCat(cluster_.folder(), "/adaptdl-", ++runs_, ".log");
    const int code = Process::Start(arguments, log).Wait(absl::Minutes(1));
    output_ = ReadWholeFile(log).value_or("");
    return code;
  }

  std::vector<std::string> Jobs() {
    v1::ListJobsResponse response;
    grpc::ClientContext context;
    const grpc::Status status = cluster_.jobs().ListJobs(&context, v1::ListJobsRequest(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> names;
    for (const v1::Job& job : response.jobs()) names.push_back(job.name());
    return names;
  }

  TestCluster cluster_{{.workers = 0, .allocator = false}};
  const std::string state_ = cluster_.folder() + "/supervisor";
  const std::string backup_ = cluster_.folder() + "/backup.db";
  int runs_ = 0;
  std::string output_;
};

TEST_F(BackupTest, WhatWasBackedUpIsThereAfterTheDiskWasLost) {
  Submit("a");
  Submit("b");
  ASSERT_EQ(Adaptdl({"admin", "backup", backup_}), 0) << output_;
  EXPECT_EQ(std::filesystem::status(backup_).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Submit("c");
  EXPECT_EQ(Adaptdl({"admin", "backup", backup_}), 1) << "it exists";
  EXPECT_THAT(output_, HasSubstr("exists"));

  EXPECT_EQ(Adaptdl({"admin", "check", backup_}), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("2 jobs, 0 replicas, 2 events, 0 nodes, 0 quotas; 0 damaged rows"));
  EXPECT_EQ(Adaptdl({"admin", "check", state_}), 1) << output_;
  EXPECT_THAT(output_, HasSubstr("stop it first"));
  cluster_.supervisor().Kill();
  EXPECT_EQ(Adaptdl({"admin", "check", state_, "--mend"}), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("3 jobs"));
  std::filesystem::remove_all(state_);
  ASSERT_EQ(Adaptdl({"admin", "restore", backup_, "--state-dir", state_}), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("restored 2 jobs and 0 nodes"));
  ASSERT_TRUE(cluster_.StartSupervisor().ok());
  EXPECT_THAT(Jobs(), ElementsAre("a", "b"));
  EXPECT_THAT(cluster_.EventReasons("a"), ElementsAre("Submitted"));
  Submit("d");
}

TEST_F(BackupTest, AStateThatIsThereIsReplacedOnlyIfToldAndNeverLost) {
  Submit("a");
  ASSERT_EQ(Adaptdl({"admin", "backup", backup_}), 0) << output_;
  Submit("b");
  EXPECT_EQ(Adaptdl({"admin", "restore", backup_, "--state-dir", state_, "--replace"}), 1);
  EXPECT_THAT(output_,
              AllOf(HasSubstr("a supervisor (process "), HasSubstr("is using"), HasSubstr("stop it first")));
  cluster_.supervisor().Kill();
  EXPECT_EQ(Adaptdl({"admin", "restore", backup_, "--state-dir", state_}), 1);
  EXPECT_THAT(output_, HasSubstr("--replace"));
  ASSERT_EQ(Adaptdl({"admin", "restore", backup_, "--state-dir", state_, "--replace"}), 0) << output_;
  ASSERT_TRUE(cluster_.StartSupervisor().ok());
  EXPECT_THAT(Jobs(), ElementsAre("a"));

  // What was there is a state like any other.
  cluster_.supervisor().Kill();
  std::string kept;
  for (const auto& entry : std::filesystem::directory_iterator(state_)) {
    if (entry.path().string().find(".before-") != std::string::npos) kept = entry.path();
  }
  ASSERT_EQ(Adaptdl({"admin", "restore", kept, "--state-dir", state_, "--replace"}), 0) << output_;
  ASSERT_TRUE(cluster_.StartSupervisor().ok());
  EXPECT_THAT(Jobs(), ElementsAre("a", "b"));
}

TEST_F(BackupTest, WhatIsNoBackupChangesNothing) {
  Submit("a");
  ASSERT_EQ(Adaptdl({"admin", "backup", backup_}), 0) << output_;
  cluster_.supervisor().Kill();
  std::filesystem::resize_file(backup_, std::filesystem::file_size(backup_) / 2);
  const std::string text = cluster_.folder() + "/text";
  std::ofstream(text) << "not a database";
  const std::string empty = cluster_.folder() + "/empty";
  std::ofstream(empty).close();
  for (const std::string& file : {backup_, text, empty, cluster_.folder() + "/missing"}) {
    EXPECT_EQ(Adaptdl({"admin", "restore", file, "--state-dir", state_, "--replace"}), 1) << file;
    EXPECT_THAT(output_, HasSubstr(file));
  }
  ASSERT_TRUE(cluster_.StartSupervisor().ok());
  EXPECT_THAT(Jobs(), ElementsAre("a"));
}

}  // namespace
}  // namespace adaptdl::integration
