// "adaptdl submit --python --requirements" on a cluster of the real programs. The packages are wheels that the test
// makes, so that no registry is asked.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kPatience = absl::Minutes(2);

class PythonEnvironmentTest : public testing::Test {
 protected:
  explicit PythonEnvironmentTest(TestClusterOptions options = {.workers = 1})
      : cluster_(std::move(options)) {}

  void SetUp() override {
    // Whatever this machine's pip is told otherwise.
    cluster_.SetWorkerEnvironment({"PIP_CONFIG_FILE=/dev/null"});
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
    const std::string wheel =
        absl::StrCat("/usr/bin/python3 ", ADAPTDL_SOURCE_DIR, "/tests/integration/python/make_wheel.py ",
                     cluster_.folder(), " tinypkg 1.5 >/dev/null");
    ASSERT_EQ(system(wheel.c_str()), 0);
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(cluster_.folder(), "/", name);
    std::ofstream(path) << text;
    return path;
  }
  std::string Wheel() const { return absl::StrCat(cluster_.folder(), "/tinypkg-1.5-py3-none-any.whl"); }

  // The command's exit code.
  int Submit(const std::string& name, const std::string& requirements, const std::string& flags,
             const std::string& script) {
    return system(absl::StrCat(
                      ADAPTDL_BINARY_DIR, "/bin/adaptdl submit ", absl::StrJoin(cluster_.CommandFlags(), " "),
                      " --name ", name, " --python=/usr/bin/python3 --requirements ", requirements, " ",
                      flags,
                      " --workdir / --env PIP_CONFIG_FILE=/dev/null --env PIP_NO_INDEX=1 --wait -- sh -c '",
                      script, "' >/dev/null 2>&1")
                      .c_str()) >>
           8;
  }
  // Environments of the worker, whole or not.
  int Made(int worker) const {
    int count = 0;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(
             absl::StrCat(cluster_.folder(), "/node-", worker, "/python"), error)) {
      count += absl::StartsWith(entry.path().filename().string(), "made-") ? 1 : 0;
    }
    return count;
  }

  TestCluster cluster_;
};

TEST_F(PythonEnvironmentTest, AJobRunsInItsEnvironmentWhichTheNextOneUsesAgain) {
  const std::string requirements = Write("requirements.txt", Wheel() + "\n");
  EXPECT_EQ(Submit("first", requirements, "", "tinypkg && echo in $VIRTUAL_ENV"), 0)
      << cluster_.Logs("first");
  EXPECT_THAT(cluster_.Logs("first"),
              AllOf(HasSubstr("Successfully installed tinypkg-1.5"), HasSubstr("\ntinypkg 1.5\n"),
                    HasSubstr(absl::StrCat("\nin ", cluster_.folder()))));
  EXPECT_EQ(Made(0), 1);
  // The file is not needed any more: its text is the job's.
  fs::remove(requirements);
  fs::remove(Wheel());
  const std::string again = Write("same.txt", Wheel() + "\n");
  EXPECT_EQ(Submit("second", again, "", "tinypkg"), 0) << cluster_.Logs("second");
  EXPECT_THAT(cluster_.Logs("second"), AllOf(HasSubstr("tinypkg 1.5\n"), Not(HasSubstr("Successfully"))));
  EXPECT_EQ(Made(0), 1);
}

TEST_F(PythonEnvironmentTest, WhatPipSaysIsShownWhereTheJobIsLookedAt) {
  const std::string requirements = Write("requirements.txt", "there-is-no-such-package==9\n");
  EXPECT_EQ(Submit("broken", requirements, "--max-restarts 0", "echo begun"), 3);
  const auto job = cluster_.GetJob("broken");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->status().phase(), v1::JOB_PHASE_FAILED);
  EXPECT_THAT(job->status().message(),
              AllOf(HasSubstr("the virtual environment can't be made"),
                    HasSubstr("No matching distribution found for there-is-no-such-package==9")));
  std::string events;
  for (const v1::Event& event : cluster_.Events("broken")) absl::StrAppend(&events, event.message(), "\n");
  EXPECT_THAT(events, HasSubstr("No matching distribution found for there-is-no-such-package==9"));
  EXPECT_THAT(cluster_.Logs("broken"), AllOf(HasSubstr("No matching distribution"), Not(HasSubstr("begun"))));
  EXPECT_EQ(Made(0), 0);
}

// The test allocates by itself.
class GrowingJobTest : public PythonEnvironmentTest {
 protected:
  GrowingJobTest() : PythonEnvironmentTest({.workers = 2, .allocator = false}) {}
};

TEST_F(GrowingJobTest, AJobTrainsOnWhileANewNodeMakesTheEnvironment) {
  const std::string record = cluster_.folder() + "/record";
  fs::create_directories(record);
  v1::Job job = cluster_.CommandJob("job", {ADAPTDL_BINARY_DIR "/tests/chaos_job", record, "fixed"});
  v1::ReplicaTemplate* replica = job.mutable_spec()->mutable_template_();
  replica->mutable_python()->set_interpreter("/usr/bin/python3");
  replica->mutable_python()->set_requirements(Wheel());
  for (const auto& [name, value] : {std::pair("PIP_CONFIG_FILE", "/dev/null"), {"PIP_NO_INDEX", "1"}}) {
    v1::EnvironmentVariable* variable = replica->add_env();
    variable->set_name(name);
    variable->set_value(value);
  }
  ASSERT_TRUE(cluster_.Submit(job).ok());
  ASSERT_TRUE(cluster_.Allocate("job", {"node-0"}).ok());
  ASSERT_TRUE(cluster_.WaitForJob("job", StepsReached(20), kPatience).ok()) << cluster_.Logs("job");
  ASSERT_TRUE(cluster_.Allocate("job", {"node-0", "node-1"}).ok());
  const auto grown = cluster_.WaitForJob("job", RunningWith(2), kPatience);
  ASSERT_TRUE(grown.ok()) << grown.status() << "\n" << cluster_.Logs("job");
  const int64_t steps = grown->status().progress().optimizer_steps();
  ASSERT_TRUE(cluster_.WaitForJob("job", StepsReached(steps + 20), kPatience).ok()) << cluster_.Logs("job");
  std::ofstream(record + "/finish").close();
  const auto finished = cluster_.WaitForJob("job", Finished, kPatience);
  ASSERT_TRUE(finished.ok()) << finished.status() << "\n" << cluster_.Logs("job");
  EXPECT_EQ(finished->status().phase(), v1::JOB_PHASE_SUCCEEDED) << cluster_.Logs("job");
  EXPECT_EQ(finished->status().rescales(), 1);
  EXPECT_EQ(finished->status().restarts(), 0);
  EXPECT_EQ(Made(0), 1);
  EXPECT_EQ(Made(1), 1);
}

}  // namespace
}  // namespace adaptdl::integration
