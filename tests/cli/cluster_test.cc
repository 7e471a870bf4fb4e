// What is kept of a local cluster, and how its start fails. That it works is for the tests with the real
// programs.

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/cluster/folder_lock.h"
#include "cli/cluster/local_cluster.h"
#include "cli/cluster/record.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/process/process_list.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ClusterTest : public testing::Test {
 protected:
  ClusterTest() {
    std::string pattern = absl::StrCat(testing::TempDir(), "/adaptdl-cluster-XXXXXX");
    folder_ = std::filesystem::canonical(mkdtemp(pattern.data())).string();
  }
  ~ClusterTest() override { std::filesystem::remove_all(folder_); }

  // A program called `name` that does this.
  void WriteProgram(const std::string& name, const std::string& script) {
    const std::string path = folder_ + "/bin/" + name;
    std::filesystem::create_directories(folder_ + "/bin");
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0755);
  }

  LocalCluster Cluster() {
    return LocalCluster(folder_ + "/state", folder_ + "/bin", &clock_, [](absl::string_view) {});
  }

  const RealClock clock_;
  std::string folder_;
};

TEST_F(ClusterTest, KeepsItsRecord) {
  EXPECT_TRUE(absl::IsNotFound(ReadClusterRecord(folder_).status()));
  ClusterRecord record;
  record.supervisor = "127.0.0.1:7100";
  record.workers = 2;
  record.max_workers = 3;
  record.listen_metrics = true;
  ASSERT_TRUE(WriteClusterRecord(folder_, record).ok());
  EXPECT_EQ(ReadClusterRecord(folder_)->supervisor, "127.0.0.1:7100");
  EXPECT_EQ(ReadClusterRecord(folder_)->max_workers, 3);
  EXPECT_TRUE(ReadClusterRecord(folder_)->listen_metrics);
  std::ofstream(folder_ + "/cluster.json") << "{\"workers\": \"two\"}";
  EXPECT_TRUE(absl::IsDataLoss(ReadClusterRecord(folder_).status()));
}

TEST_F(ClusterTest, LetsOneCommandWorkAtATime) {
  std::unique_ptr<FolderLock> lock = FolderLock::Take(folder_).value();
  EXPECT_TRUE(absl::IsAborted(FolderLock::Take(folder_).status()));
  lock.reset();
  EXPECT_TRUE(FolderLock::Take(folder_).ok());
}

TEST_F(ClusterTest, ShowsTheLogOfAServiceThatDoesNotStart) {
  WriteProgram("adaptdl-supervisor", "echo the state is from the future >&2; exit 1");
  LocalCluster cluster = Cluster();
  const absl::Status status = cluster.Up({}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("the supervisor ended while it started"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("\nthe state is from the future"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/state/run/supervisor.pid"));
}

TEST_F(ClusterTest, StopsWhatItStartedWhenTheStartFails) {
  WriteProgram("adaptdl-supervisor", "exec sleep 1000");
  LocalCluster cluster = Cluster();
  const absl::Status status = cluster.Up({.timeout = absl::Milliseconds(300)}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(FindProcesses("sleep", folder_), IsEmpty());
}

TEST_F(ClusterTest, NamesAProgramThatIsMissing) {
  LocalCluster cluster = Cluster();
  const absl::Status status = cluster.Up({}).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/bin/adaptdl-supervisor"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("package adaptdl-services"));
}

TEST_F(ClusterTest, RefusesFewerWorkersThanItKeeps) {
  LocalCluster cluster = Cluster();
  EXPECT_THAT(std::string(cluster.Up({.workers = 3, .max_workers = 2}).status().message()),
              HasSubstr("--max-workers is 2, fewer than the 3 workers"));
}

TEST_F(ClusterTest, PurgesOnlyItsOwn) {
  std::filesystem::create_directories(folder_ + "/state/storage/default");
  std::ofstream(folder_ + "/state/thesis.tex") << "precious";
  LocalCluster cluster = Cluster();
  EXPECT_TRUE(cluster.Down({.purge = true}).ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/state/storage"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/state/thesis.tex"));
  std::filesystem::remove(folder_ + "/state/thesis.tex");
  EXPECT_TRUE(cluster.Down({.purge = true}).ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/state"));
  EXPECT_TRUE(cluster.Down({}).ok());
}

}  // namespace
}  // namespace adaptdl::cli
