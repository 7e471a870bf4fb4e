// What separates the jobs of a node from each other and from the worker.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/worker/replica_accounts.h"
#include "tests/services/worker/worker_fixture.h"

namespace adaptdl::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Two jobs on one node that is allowed to give each a user of its own.
class SeparateUsersTest : public WorkerTest {
 protected:
  SeparateUsersTest() {
    replica_user_ = "per-job";
    chmod(folder_.path().c_str(), 0711);
  }
  void SetUp() override {
    if (!CanChangeUsers()) GTEST_SKIP() << "NOT TESTED: only root can run jobs as different users";
    WorkerTest::SetUp();
  }

  v1::LaunchReplica OfJob(const std::string& job, const std::string& name, const std::string& script) {
    v1::LaunchReplica launch = Shell(name, script);
    launch.set_job(job);
    return launch;
  }
  std::string ShareOf(const std::string& job) const {
    return folder_ / absl::StrCat("storage/default/", job, "-", unique_, "/share");
  }
  static uid_t OwnerOf(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return info.st_uid;
  }
  int PidOf(const std::string& name) const {
    const std::string running = ReadFile(ReplicaFolder(Id(name)) + "/running.json");
    return atoi(running.c_str() + running.find("\"pid\":") + 6);
  }
};

TEST_F(SeparateUsersTest, AJobReachesNothingOfAnother) {
  v1::LaunchReplica victim =
      OfJob("victim", "v", "echo precious > file; echo secret words; touch ready; " + Until("go"));
  victim.set_token("token-of-the-victim");
  supervisor_.Launch(victim);
  ASSERT_TRUE(WaitForRunning("v").has_value());
  ASSERT_TRUE(WaitForFile(ShareOf("victim") + "/ready"));
  const std::string folder = ReplicaFolder(Id("v"));
  const int pid = PidOf("v");
  // Each line that gets through says so.
  const std::vector<std::string> attempts = {
      absl::StrCat("cat ", ShareOf("victim"), "/file"),
      absl::StrCat("ls ", ShareOf("victim")),
      absl::StrCat("ls ", folder_ / "storage/default"),
      absl::StrCat("touch ", ShareOf("victim"), "/mine"),
      absl::StrCat("ln ", ShareOf("victim"), "/file stolen"),
      absl::StrCat("rm -r ", folder_ / "storage/default/victim-", unique_),
      absl::StrCat("cat ", folder, "/launch.json"),
      absl::StrCat("cat ", folder, "/replica.log"),
      absl::StrCat("ls ", folder),
      absl::StrCat("ls ", folder_ / "state/replicas"),
      absl::StrCat("cat /proc/", pid, "/environ"),
      absl::StrCat("ls /proc/", pid, "/fd/"),
      absl::StrCat("head -c 1 /proc/", pid, "/mem"),
      absl::StrCat("cat /proc/", worker_, "/environ"),
      absl::StrCat("kill -TERM ", pid),
      absl::StrCat("kill -KILL ", worker_),
      "kill -KILL $PPID"};
  std::string script;
  for (size_t i = 0; i < attempts.size(); ++i) {
    absl::StrAppend(&script, attempts[i], " && echo GOT THROUGH: ", i, "\n");
  }
  supervisor_.Launch(OfJob("thief", "t", script + "echo tried all"));
  ASSERT_TRUE(WaitForExit("t").has_value());
  EXPECT_THAT(LogOf("t"), HasSubstr("tried all"));
  EXPECT_THAT(LogOf("t"), Not(HasSubstr("GOT THROUGH"))) << LogOf("t");
  EXPECT_THAT(LogOf("t"), Not(HasSubstr("precious")));
  EXPECT_THAT(LogOf("t"), Not(HasSubstr("token-of-the-victim")));
  WriteFile(ShareOf("victim") + "/go", "");
  EXPECT_EQ(WaitForExit("v")->replica().exit_code(), 0);
}

TEST_F(SeparateUsersTest, AReplicaHasNoRightsAndNothingOfTheWorkers) {
  supervisor_.Launch(
      OfJob("a", "r",
            "id -u; id -g; id -G; grep -E 'NoNewPrivs|CapEff|CapPrm' /proc/self/status; ulimit -c; umask; "
            "ls /proc/self/fd | tr '\\n' ' '; echo; env; pwd; echo mine > $HOME/file"));
  ASSERT_TRUE(WaitForExit("r").has_value());
  const std::string log = LogOf("r");
  const uid_t uid = OwnerOf(ShareOf("a"));
  EXPECT_GE(uid, 200'000u);
  EXPECT_LE(uid, 265'535u);
  for (const std::string& line :
       {absl::StrCat(" F ", uid, "\n"), std::string("NoNewPrivs:\t1\n"),
        std::string("CapEff:\t0000000000000000\n"), std::string("CapPrm:\t0000000000000000\n"),
        std::string(" F 0\n"), std::string(" F 0077\n"),
        // 3 is the folder that ls reads.
        std::string(" F 0 1 2 3 \n"), absl::StrCat("HOME=", ShareOf("a"), "\n"),
        absl::StrCat("USER=adaptdl-", uid, "\n"), absl::StrCat(" F ", ShareOf("a"), "\n")}) {
    EXPECT_THAT(log, HasSubstr(line));
  }
  EXPECT_EQ(OwnerOf(ShareOf("a") + "/file"), uid);
  EXPECT_EQ(OwnerOf(ShareOf("a") + "/.."), 0u);
}

TEST_F(SeparateUsersTest, AJobKeepsItsUserAndFilesOverARestartOfTheWorker) {
  supervisor_.Launch(OfJob("a", "r1", "echo 1 > file"));
  ASSERT_TRUE(WaitForExit("r1").has_value());
  const uid_t uid = OwnerOf(ShareOf("a"));
  KillWorker();
  StartWorker();
  supervisor_.Launch(OfJob("a", "r2", "cat file && echo 2 > file && id -u"));
  ASSERT_TRUE(WaitForExit("r2").has_value());
  EXPECT_THAT(LogOf("r2"), HasSubstr(absl::StrCat(" F ", uid, "\n")));
  supervisor_.Launch(OfJob("b", "r3", "true"));
  ASSERT_TRUE(WaitForExit("r3").has_value());
  EXPECT_NE(OwnerOf(ShareOf("b")), uid);
}

TEST_F(SeparateUsersTest, FilesOfJobsThatRanAsRootBecomeTheirs) {
  std::filesystem::create_directories(ShareOf("a") + "/deep");
  WriteFile(ShareOf("a") + "/deep/file", "old");
  WriteFile(folder_ / "elsewhere", "");
  std::filesystem::create_symlink(folder_ / "elsewhere", ShareOf("a") + "/link");
  supervisor_.Launch(OfJob("a", "r", "cat deep/file && echo new > deep/file"));
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 0);
  EXPECT_EQ(OwnerOf(folder_ / "elsewhere"), 0u);
  EXPECT_EQ(ReadFile(ShareOf("a") + "/deep/file"), "new\n");
}

TEST_F(SeparateUsersTest, ADeletedJobsUserIsFreeAgain) {
  supervisor_.Launch(OfJob("a", "r", "true"));
  ASSERT_TRUE(WaitForExit("r").has_value());
  const std::string claim = folder_ / absl::StrCat("storage/.users/", OwnerOf(ShareOf("a")));
  EXPECT_EQ(std::filesystem::read_symlink(claim), absl::StrCat("default/a-", unique_));
  v1::ConnectResponse command;
  command.mutable_delete_job_files()->set_namespace_("default");
  command.mutable_delete_job_files()->set_job("a");
  command.mutable_delete_job_files()->set_job_uid(unique_);
  supervisor_.Send(command);
  const std::string claims = folder_ / "storage/.users";
  EXPECT_TRUE(WaitForChange(claims, [&] { return std::filesystem::is_empty(claims); }));
}

TEST_F(SeparateUsersTest, AProgramOrFolderThatIsClosedToTheJobIsItsOwnMistake) {
  v1::LaunchReplica launch = OfJob("a", "r", "true");
  launch.mutable_template_()->set_working_directory(folder_ / "state/replicas");
  supervisor_.Launch(launch);
  const auto exit = WaitForExit("r");
  EXPECT_EQ(exit->replica().exit_code(), 126);
  EXPECT_THAT(exit->replica().message(), HasSubstr("Permission denied"));
}

TEST_F(SeparateUsersTest, AForkBombIsBounded) {
  KillWorker();
  replica_processes_ = "20";
  StartWorker();
  supervisor_.Launch(
      OfJob("a", "r", "i=0; while [ $i -lt 40 ]; do sleep 1000 & i=$((i+1)); done; echo no bound"));
  ASSERT_TRUE(WaitForExit("r").has_value());
  EXPECT_THAT(LogOf("r"), Not(HasSubstr("no bound")));
}

class ClosedStorageTest : public WorkerTest {
 protected:
  // The folder of a test is for its owner only.
  void SetUp() override {
    if (!CanChangeUsers()) GTEST_SKIP() << "NOT TESTED: only root can run jobs as different users";
  }
};

TEST_F(ClosedStorageTest, StorageThatJobsCannotReachIsSaidAtTheStart) {
  EXPECT_THAT(ErrorOfAnotherWorker(), AllOf(HasSubstr("chmod o+x"), HasSubstr("--replica-user=self")));
}

}  // namespace
}  // namespace adaptdl::worker
