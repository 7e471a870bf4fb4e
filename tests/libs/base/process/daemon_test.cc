#include "libs/base/process/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "libs/base/process/process_identity.h"
#include "libs/base/process/wait.h"
#include "tests/libs/base/process/process_fixture.h"

namespace adaptdl {
namespace {

using ::testing::HasSubstr;

using Environment = std::vector<std::string>;

using DaemonTest = ProcessTest;

TEST_F(DaemonTest, StartsAProgramWithEnvironmentAndLog) {
  const std::string program = Script("program", "echo \"$1 $COLOUR\"; echo error >&2; exec sleep 1000\n");
  const auto started = StartDaemon({.command = {program, "hello"},
                                    .environment = Environment{"COLOUR=red", "PATH=/usr/bin:/bin"},
                                    .log_file = folder_ + "/log"});
  ASSERT_TRUE(started.ok()) << started.status();
  EndLater(*started);
  EXPECT_TRUE(Eventually([&] { return Content(folder_ + "/log") == "hello red\nerror\n"; }))
      << Content(folder_ + "/log");
  EXPECT_EQ(getsid(started->pid), started->pid);
  EXPECT_TRUE(IsAlive(*started));
}

TEST_F(DaemonTest, ItHasNothingOpenAndNoSignalBlocked) {
  const int leak = open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as some libraries do
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before);
  const auto started = StartDaemon(
      {.command = {"/bin/sleep", "1000"}, .environment = Environment{}, .log_file = folder_ + "/log"});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(leak);
  ASSERT_TRUE(started.ok()) << started.status();
  EndLater(*started);
  // Once the loader has closed the libraries: stdin, stdout and stderr.
  EXPECT_TRUE(Eventually([&] {
    const std::filesystem::directory_iterator files(absl::StrCat("/proc/", started->pid, "/fd"));
    return std::distance(begin(files), end(files)) == 3;
  }));
  ASSERT_TRUE(SignalProcess(*started, SIGTERM).ok());
  EXPECT_TRUE(Eventually([&] { return !IsAlive(*started); }));
}

TEST_F(DaemonTest, AnEndedChildIsNotAlive) {
  const auto started =
      StartDaemon({.command = {"/bin/true"}, .environment = Environment{}, .log_file = folder_ + "/log"});
  ASSERT_TRUE(started.ok());
  EXPECT_TRUE(Eventually([&] { return !IsAlive(*started); }));
  // Reaped, too: there is no zombie left.
  EXPECT_TRUE(Eventually([&] { return kill(started->pid, 0) != 0; }));
}

TEST_F(DaemonTest, AProgramThatDoesNotExistIsAnError) {
  const auto started = StartDaemon(
      {.command = {folder_ + "/missing"}, .environment = Environment{}, .log_file = folder_ + "/log"});
  EXPECT_TRUE(absl::IsNotFound(started.status())) << started.status();
  EXPECT_THAT(std::string(started.status().message()), HasSubstr(folder_ + "/missing"));
}

TEST_F(DaemonTest, ALogThatCannotBeWrittenIsAnError) {
  const auto started = StartDaemon(
      {.command = {"/bin/true"}, .environment = Environment{}, .log_file = folder_ + "/missing/log"});
  EXPECT_THAT(started.status().ToString(), HasSubstr("missing/log"));
}

TEST_F(DaemonTest, WhatCannotBeRememberedNeverBegins) {
  const std::string program = Script("program", absl::StrCat("touch ", folder_, "/ran\n"));
  ProcessIdentity child;
  const auto started = StartDaemon(
      {.command = {program}, .environment = Environment{"PATH=/usr/bin:/bin"}, .log_file = folder_ + "/log"},
      [&](const ProcessIdentity& identity) {
        child = identity;
        EXPECT_TRUE(IsAlive(identity));
        return absl::ResourceExhaustedError("disk full");
      });
  EXPECT_TRUE(absl::IsResourceExhausted(started.status()));
  EXPECT_FALSE(IsAlive(child));  // over before StartDaemon() returned
  EXPECT_FALSE(Exists(folder_ + "/ran"));
}

TEST_F(DaemonTest, IfItsMakerDiesOnTheWayItNeverBegins) {
  const std::string program = Script("program", absl::StrCat("touch ", folder_, "/ran\n"));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t maker = fork();
  ASSERT_GE(maker, 0);
  if (maker == 0) {
    StartDaemon({.command = {program},
                 .environment = Environment{"PATH=/usr/bin:/bin"},
                 .log_file = folder_ + "/log"},
                [&](const ProcessIdentity& identity) -> absl::Status {
                  const std::string text = FormatIdentity(identity);
                  [[maybe_unused]] const ssize_t written = write(ends[1], text.data(), text.size());
                  _exit(0);
                })
        .IgnoreError();
    _exit(1);
  }
  char buffer[100] = {};
  ASSERT_GT(read(ends[0], buffer, sizeof(buffer) - 1), 0);
  const ProcessIdentity child = ParseIdentity(buffer).value();
  EXPECT_TRUE(Eventually([&] { return !IsAlive(child); }));
  EXPECT_FALSE(Exists(folder_ + "/ran"));
  EXPECT_EQ(waitpid(maker, nullptr, 0), maker);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(DaemonTest, RunsInItsFolderWithOurEnvironment) {
  setenv("ADAPTDL_DAEMON_TEST", "ours", 1);
  const auto started = StartDaemon(
      {.command = {"/bin/sh", "-c",
                   "pwd; echo problem >&2; echo $ADAPTDL_DAEMON_TEST; ls /proc/self/fd | wc -l; echo $$"},
       .working_directory = folder_,
       .log_file = folder_ + "/log"});
  unsetenv("ADAPTDL_DAEMON_TEST");
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_TRUE(WaitForEnd({*started}, absl::Minutes(1)));
  // ls itself has its folder open besides the three standard files.
  EXPECT_EQ(Content(folder_ + "/log"), absl::StrCat(folder_, "\nproblem\nours\n4\n", started->pid, "\n"));
}

}  // namespace
}  // namespace adaptdl
