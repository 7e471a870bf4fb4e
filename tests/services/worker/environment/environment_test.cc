// Virtual environments by the real Python of the system, with wheels that the test makes: no registry is asked.

#include "services/worker/environment/environment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/process/spawn.h"
#include "libs/base/process/wait.h"
#include "libs/base/unique_fd.h"
#include "services/worker/environment/bounded_command.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPython[] = "/usr/bin/python3";
constexpr char kProgram[] = ADAPTDL_BINARY_DIR "/bin/adaptdl-environment";

class EnvironmentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Whatever this machine's pip is told otherwise.
    setenv("PIP_CONFIG_FILE", "/dev/null", 1);
    setenv("PIP_NO_INDEX", "1", 1);
    options_.folder = folder_ / "environments";
    options_.interpreter = kPython;
    fs::create_directory(options_.folder);
    WriteFile(options_.folder + "/lock", "");
  }

  std::string Wheel(const std::string& name, const std::string& version) {
    const std::string command =
        absl::StrCat(kPython, " ", ADAPTDL_SOURCE_DIR, "/tests/integration/python/make_wheel.py ",
                     folder_.path(), " ", name, " ", version, " >/dev/null");
    EXPECT_EQ(system(command.c_str()), 0);
    return folder_ / absl::StrCat(name, "-", version, "-py3-none-any.whl");
  }
  void Require(const std::string& text) {
    WriteFile(options_.folder + "/requirements.txt", text);
    options_.install = true;
  }

  // Folders of environments, whole or not.
  int Made() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(options_.folder)) {
      count += absl::StartsWith(entry.path().filename().string(), kEnvironmentPrefix) ? 1 : 0;
    }
    return count;
  }
  // What the environment's Python prints for this expression.
  std::string Value(const std::string& environment, const std::string& modules,
                    const std::string& expression) {
    const auto output =
        RunBounded({.command = {environment + "/bin/python", "-c",
                                absl::StrCat("import ", modules, "; print(", expression, ")")},
                    .name = "python"},
                   clock_);
    return output.ok() ? *output : output.status().ToString();
  }

  TempFolder folder_;
  const RealClock clock_;
  EnvironmentOptions options_;
};

TEST_F(EnvironmentTest, IsMadeOnceAndFoundAgain) {
  Require(Wheel("tinypkg", "1.5") + "\n");
  const auto first = ProvideEnvironment(options_, clock_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(Value(*first, "tinypkg", "tinypkg.__version__"), "1.5\n");
  EXPECT_FALSE(fs::exists(*first + "/tmp"));
  // Nothing is needed any more to find it.
  fs::remove(folder_ / "tinypkg-1.5-py3-none-any.whl");
  const auto second = ProvideEnvironment(options_, clock_);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*second, *first);
  EXPECT_EQ(Made(), 1);
}

TEST_F(EnvironmentTest, TwoThatStartAtOnceMakeItOnceAndRunInIt) {
  Require(Wheel("tinypkg", "1.5"));
  std::vector<pid_t> processes;
  const std::string output = folder_ / "output";
  const UniqueFd fd(open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  for (int i = 0; i < 2; ++i) {
    SpawnOptions spawn;
    spawn.command = {kProgram, "--folder", options_.folder, "--interpreter", kPython, "--install", "1", "--",
                     // a command of the environment, found by its PATH
                     "tinypkg"};
    spawn.output_fd = fd.get();
    const auto pid = Spawn(spawn);
    ASSERT_TRUE(pid.ok()) << pid.status();
    processes.push_back(*pid);
  }
  for (const pid_t pid : processes) EXPECT_EQ(WaitForChild(pid)->code, 0);
  EXPECT_EQ(ReadFile(output), "tinypkg 1.5\ntinypkg 1.5\n");
  EXPECT_EQ(Made(), 1);
}

TEST_F(EnvironmentTest, WhatPipRefusesIsToldAndLeavesNothing) {
  Require("there-is-no-such-package==9\n");
  const UniqueFd log(open((folder_ / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  options_.output_fd = log.get();
  const auto made = ProvideEnvironment(options_, clock_);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(made.status().message(),
              AllOf(HasSubstr("pip install failed with exit code 1"),
                    HasSubstr("No matching distribution found for there-is-no-such-package==9")));
  EXPECT_THAT(ReadFile(folder_ / "log"), HasSubstr("No matching distribution"));
  EXPECT_EQ(Made(), 0);
  // The next one tries again.
  Require(Wheel("tinypkg", "2.0"));
  EXPECT_TRUE(ProvideEnvironment(options_, clock_).ok());
}

TEST_F(EnvironmentTest, WhatAUserHasAtHomeIsInstalledAllTheSame) {
  const auto version = RunBounded(
      {.command = {kPython, "-c", "import sys; print('python%d.%d' % sys.version_info[:2], end='')"},
       .name = "python"},
      clock_);
  ASSERT_TRUE(version.ok()) << version.status();
  const std::string at_home = folder_ / absl::StrCat(".local/lib/", *version, "/site-packages");
  fs::create_directories(at_home + "/tinypkg-1.5.dist-info");
  WriteFile(at_home + "/tinypkg.py", "__version__ = 'at home'\n");
  WriteFile(at_home + "/tinypkg-1.5.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: tinypkg\nVersion: 1.5\n");
  setenv("HOME", folder_.path().c_str(), 1);
  Wheel("tinypkg", "1.5");
  Require(absl::StrCat("--find-links ", folder_.path(), "\ntinypkg==1.5\n"));
  const auto made = ProvideEnvironment(options_, clock_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(fs::exists(absl::StrCat(*made, "/lib/", *version, "/site-packages/tinypkg.py")));
}

TEST_F(EnvironmentTest, AHalfMadeOneIsNeverUsed) {
  fs::create_directories(options_.folder + "/made-of-a-crash/bin");
  fs::create_symlink(kPython, options_.folder + "/made-of-a-crash/bin/python");
  const auto made = ProvideEnvironment(options_, clock_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*made, fs::path(*made).lexically_normal().string());
  EXPECT_THAT(*made, Not(HasSubstr("made-of-a-crash")));
  EXPECT_EQ(Made(), 2);
}

TEST_F(EnvironmentTest, TheLibraryOfTheNodeIsBehindWhatWasInstalled) {
  fs::create_directory(folder_ / "library");
  WriteFile(folder_ / "library/tinypkg.py", "__version__ = 'of the node'\n");
  WriteFile(folder_ / "library/nodepkg.py", "__version__ = 'of the node'\n");
  options_.library = folder_ / "library";
  Require(Wheel("tinypkg", "1.5"));
  const auto made = ProvideEnvironment(options_, clock_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(Value(*made, "tinypkg, nodepkg", "tinypkg.__version__, nodepkg.__version__"),
            "1.5 of the node\n");
}

TEST_F(EnvironmentTest, OneThatIsTooLargeOrTakesTooLongIsGivenUp) {
  options_.max_bytes = 1000;
  EXPECT_EQ(ProvideEnvironment(options_, clock_).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Made(), 0);
  options_.max_bytes = 0;
  options_.interpreter = folder_ / "python";
  WriteFile(options_.interpreter,
            absl::StrCat("#!/bin/sh\n[ \"$1\" = -I ] && exec ", kPython, " \"$@\"\nexec sleep 1000\n"));
  ASSERT_EQ(chmod(options_.interpreter.c_str(), 0755), 0);
  options_.timeout = absl::Seconds(2);
  const auto made = ProvideEnvironment(options_, clock_);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kDeadlineExceeded) << made.status();
  EXPECT_EQ(Made(), 0);
}

TEST_F(EnvironmentTest, WhatIsNoPythonIsCalledSo) {
  options_.interpreter = "/bin/echo";
  EXPECT_THAT(ProvideEnvironment(options_, clock_).status().message(), HasSubstr("is no Python"));
  options_.interpreter = "no-such-python";
  EXPECT_THAT(ProvideEnvironment(options_, clock_).status().message(),
              HasSubstr("the Python interpreter \"no-such-python\" does not work"));
}

TEST_F(EnvironmentTest, OutputIsBoundedAndItsEndKept) {
  const UniqueFd log(open((folder_ / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const auto output = RunBounded({.command = {"sh", "-c", "yes | head -c 100000; echo the end"},
                                  .name = "sh",
                                  .output_fd = log.get(),
                                  .max_output_bytes = 1000},
                                 clock_);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_THAT(*output, HasSubstr("the end\n"));
  EXPECT_LE(output->size(), 4096u);
  const std::string shown = ReadFile(folder_ / "log");
  EXPECT_THAT(shown, HasSubstr("[99008 bytes of output are left out]"));
  EXPECT_LT(shown.size(), 1100u);
}

}  // namespace
}  // namespace adaptdl::worker
