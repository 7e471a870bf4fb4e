// Replicas in virtual environments of Python, by the real worker.

#include <sys/stat.h>

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

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class WorkerPythonTest : public WorkerTest {
 protected:
  void SetUp() override {
    chmod(folder_.path().c_str(), 0711);
    const std::string command =
        absl::StrCat("/usr/bin/python3 ", ADAPTDL_SOURCE_DIR, "/tests/integration/python/make_wheel.py ",
                     folder_.path(), " tinypkg 1.5 >/dev/null");
    ASSERT_EQ(system(command.c_str()), 0);
    WorkerTest::SetUp();
  }

  v1::LaunchReplica Python(const std::string& name, const std::string& script,
                           const std::string& requirements) {
    v1::LaunchReplica launch = Shell(name, script);
    launch.mutable_template_()->mutable_python()->set_interpreter("/usr/bin/python3");
    launch.mutable_template_()->mutable_python()->set_requirements(requirements);
    for (const auto& [variable, value] : {std::pair("PIP_CONFIG_FILE", "/dev/null"), {"PIP_NO_INDEX", "1"}}) {
      v1::EnvironmentVariable* entry = launch.mutable_template_()->add_env();
      entry->set_name(variable);
      entry->set_value(value);
    }
    return launch;
  }
  std::string Wheel() const { return folder_ / "tinypkg-1.5-py3-none-any.whl"; }
};

TEST_F(WorkerPythonTest, AReplicaRunsInItsEnvironmentAndTheNextOneFindsIt) {
  supervisor_.Launch(Python("a", "tinypkg; echo $VIRTUAL_ENV; ls /proc/self/fd | tr '\\n' ' '", Wheel()));
  ASSERT_EQ(WaitForExit("a")->replica().exit_code(), 0) << LogOf("a");
  EXPECT_THAT(LogOf("a"), AllOf(HasSubstr("Successfully installed tinypkg-1.5"),
                                HasSubstr(" F tinypkg 1.5\n"), HasSubstr(folder_ / "state/python/default/"),
                                // 3 is the folder that ls reads.
                                HasSubstr(" F 0 1 2 3 \n")));
  supervisor_.Launch(Python("b", "tinypkg", Wheel()));
  ASSERT_EQ(WaitForExit("b")->replica().exit_code(), 0) << LogOf("b");
  EXPECT_THAT(LogOf("b"), AllOf(HasSubstr(" F tinypkg 1.5\n"), Not(HasSubstr("Successfully"))));
}

TEST_F(WorkerPythonTest, WhatPipSaysIsTheEndOfTheReplica) {
  supervisor_.Launch(Python("a", "echo begun", "there-is-no-such-package==9"));
  const auto exit = WaitForExit("a");
  EXPECT_EQ(exit->replica().exit_code(), 126);
  EXPECT_EQ(exit->replica().end_cause(), v1::END_CAUSE_JOB);
  EXPECT_THAT(exit->replica().message(),
              AllOf(HasSubstr("the virtual environment can't be made: pip install failed"),
                    HasSubstr("No matching distribution found for there-is-no-such-package==9"),
                    Not(HasSubstr("\n"))));
  EXPECT_THAT(LogOf("a"), AllOf(HasSubstr("No matching distribution"), Not(HasSubstr("begun"))));
}

TEST_F(WorkerPythonTest, AProgramThatIsNotThereIsToldAsEver) {
  v1::LaunchReplica launch = Python("a", "", "");
  launch.mutable_template_()->clear_command();
  launch.mutable_template_()->add_command("no-such-program");
  supervisor_.Launch(launch);
  const auto exit = WaitForExit("a");
  EXPECT_EQ(exit->replica().exit_code(), 127);
  EXPECT_EQ(exit->replica().end_cause(), v1::END_CAUSE_IMAGE);
  EXPECT_THAT(exit->replica().message(), HasSubstr("command 'no-such-program' not found in PATH"));
}

TEST_F(WorkerPythonTest, AStopEndsWhatMakesTheEnvironment) {
  v1::LaunchReplica launch = Python("a", "echo begun", "");
  const std::string python = folder_ / "python";
  WriteFile(python, absl::StrCat("#!/bin/sh\n[ \"$1\" = -I ] && exec /usr/bin/python3 \"$@\"\ntouch ",
                                 folder_ / "waits", "\nexec sleep 1000\n"));
  ASSERT_EQ(chmod(python.c_str(), 0755), 0);
  launch.mutable_template_()->mutable_python()->set_interpreter(python);
  supervisor_.Launch(launch);
  ASSERT_TRUE(WaitForFile(folder_ / "waits"));
  v1::ConnectResponse command;
  command.mutable_stop()->set_replica_id(Id("a"));
  supervisor_.Send(command);
  const auto exit = WaitForExit("a");
  EXPECT_EQ(exit->replica().signal(), SIGTERM);
  EXPECT_THAT(LogOf("a"), Not(HasSubstr("begun")));
}

// Jobs that have users of their own.
class SeparatePythonTest : public WorkerPythonTest {
 protected:
  SeparatePythonTest() { replica_user_ = "per-job"; }
  void SetUp() override {
    if (!CanChangeUsers()) GTEST_SKIP() << "NOT TESTED: only root can run jobs as different users";
    WorkerPythonTest::SetUp();
  }
  v1::LaunchReplica OfJob(const std::string& job_namespace, const std::string& job, const std::string& name,
                          const std::string& script) {
    v1::LaunchReplica launch = Python(name, script, Wheel());
    launch.set_namespace_(job_namespace);
    launch.set_job(job);
    return launch;
  }
};

TEST_F(SeparatePythonTest, ANamespaceSharesItsEnvironmentsAndNobodyElseSeesThem) {
  supervisor_.Launch(OfJob("vision", "first", "a", "tinypkg; echo $VIRTUAL_ENV; umask; id -u"));
  ASSERT_EQ(WaitForExit("a")->replica().exit_code(), 0) << LogOf("a");
  EXPECT_THAT(LogOf("a"), AllOf(HasSubstr("Successfully installed"), HasSubstr(" F tinypkg 1.5\n"),
                                HasSubstr(" F 0077\n")));
  // Another job, another user: uses it, and can't change it.
  const std::string changes =
      "tinypkg; touch $VIRTUAL_ENV/mine && echo GOT THROUGH; rm -rf $VIRTUAL_ENV 2>/dev/null && echo GOT "
      "THROUGH; "
      "tinypkg";
  supervisor_.Launch(OfJob("vision", "second", "b", changes));
  ASSERT_EQ(WaitForExit("b")->replica().exit_code(), 0) << LogOf("b");
  EXPECT_THAT(LogOf("b"), AllOf(HasSubstr(" F tinypkg 1.5\n"), Not(HasSubstr("Successfully")),
                                Not(HasSubstr("GOT THROUGH"))));
  // A job of another namespace gets one of its own, and can't look at that of others.
  const std::string folder = folder_ / "state/python/vision";
  supervisor_.Launch(OfJob(
      "sound", "third", "c",
      absl::StrCat("tinypkg; ls ", folder, " && echo GOT THROUGH; cat ", folder,
                   "/*/requirements.txt && echo GOT THROUGH; cd ", folder, " && echo GOT THROUGH; true")));
  ASSERT_EQ(WaitForExit("c")->replica().exit_code(), 0) << LogOf("c");
  EXPECT_THAT(LogOf("c"), AllOf(HasSubstr("Successfully installed"), Not(HasSubstr("GOT THROUGH"))));
  // What leads to the environments is closed to others; what pip made of the files' modes does not matter.
  for (const fs::path& path : {fs::path(folder), fs::directory_iterator(folder)->path()}) {
    EXPECT_EQ(fs::status(path).permissions() & fs::perms::others_all, fs::perms::none) << path;
  }
}

}  // namespace
}  // namespace adaptdl::worker
