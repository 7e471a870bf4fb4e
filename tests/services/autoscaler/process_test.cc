#include "services/autoscaler/process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/services/autoscaler/process_fixture.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::HasSubstr;

TEST_F(ProcessTest, KnowsItself) {
  const auto self = IdentifyProcess(getpid());
  ASSERT_TRUE(self.ok());
  EXPECT_GT(self->start_time, 0u);
  EXPECT_TRUE(IsAlive(*self));
}

TEST_F(ProcessTest, ARecycledPidIsSomebodyElse) {
  ProcessIdentity other = IdentifyProcess(getpid()).value();
  --other.start_time;
  EXPECT_FALSE(IsAlive(other));
  EXPECT_TRUE(absl::IsNotFound(SignalProcess(other, SIGKILL)));  // and we live
}

TEST_F(ProcessTest, IdentitiesSurviveTheirFile) {
  const ProcessIdentity identity{4321, 987654321};
  EXPECT_EQ(ParseIdentity(FormatIdentity(identity)).value(), identity);
  for (const std::string bad : {"", "1", "1 2 3", "x 2", "1 x", "-1 5", "0 5"})
    EXPECT_FALSE(ParseIdentity(bad).ok()) << bad;
}

TEST_F(ProcessTest, StartsAProgramWithEnvironmentAndLog) {
  const std::string program = Script("program", "echo \"$1 $COLOUR\"; echo error >&2; exec sleep 1000\n");
  const auto started =
      SpawnDetached({{program, "hello"}, {"COLOUR=red", "PATH=/usr/bin:/bin"}, folder_ + "/log"},
                    [](const ProcessIdentity&) { return absl::OkStatus(); });
  ASSERT_TRUE(started.ok()) << started.status();
  EndLater(*started);
  EXPECT_TRUE(Eventually([&] { return Content(folder_ + "/log") == "hello red\nerror\n"; }))
      << Content(folder_ + "/log");
  EXPECT_EQ(getsid(started->pid), started->pid);
  EXPECT_TRUE(IsAlive(*started));
}

TEST_F(ProcessTest, ItHasNothingOpenAndNoSignalBlocked) {
  const int leak = open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as some libraries do
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before);
  const auto started = SpawnDetached({{"/bin/sleep", "1000"}, {}, folder_ + "/log"},
                                     [](const ProcessIdentity&) { return absl::OkStatus(); });
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

TEST_F(ProcessTest, AnEndedChildIsNotAlive) {
  const auto started = SpawnDetached({{"/bin/true"}, {}, folder_ + "/log"},
                                     [](const ProcessIdentity&) { return absl::OkStatus(); });
  ASSERT_TRUE(started.ok());
  EXPECT_TRUE(Eventually([&] { return !IsAlive(*started); }));
  // Reaped, too: there is no zombie left.
  EXPECT_TRUE(Eventually([&] { return kill(started->pid, 0) != 0; }));
}

TEST_F(ProcessTest, AProgramThatDoesNotExistIsAnError) {
  const auto started = SpawnDetached({{folder_ + "/missing"}, {}, folder_ + "/log"},
                                     [](const ProcessIdentity&) { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsNotFound(started.status())) << started.status();
  EXPECT_THAT(std::string(started.status().message()), HasSubstr(folder_ + "/missing"));
}

TEST_F(ProcessTest, ALogThatCannotBeWrittenIsAnError) {
  const auto started = SpawnDetached({{"/bin/true"}, {}, folder_ + "/missing/log"},
                                     [](const ProcessIdentity&) { return absl::OkStatus(); });
  EXPECT_THAT(started.status().ToString(), HasSubstr("missing/log"));
}

TEST_F(ProcessTest, WhatCannotBeRememberedNeverBegins) {
  const std::string program = Script("program", absl::StrCat("touch ", folder_, "/ran\n"));
  ProcessIdentity child;
  const auto started = SpawnDetached({{program}, {"PATH=/usr/bin:/bin"}, folder_ + "/log"},
                                     [&](const ProcessIdentity& identity) {
                                       child = identity;
                                       EXPECT_TRUE(IsAlive(identity));
                                       return absl::ResourceExhaustedError("disk full");
                                     });
  EXPECT_TRUE(absl::IsResourceExhausted(started.status()));
  EXPECT_FALSE(IsAlive(child));  // over before SpawnDetached() returned
  EXPECT_FALSE(Exists(folder_ + "/ran"));
}

TEST_F(ProcessTest, IfItsMakerDiesOnTheWayItNeverBegins) {
  const std::string program = Script("program", absl::StrCat("touch ", folder_, "/ran\n"));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t maker = fork();
  ASSERT_GE(maker, 0);
  if (maker == 0) {
    SpawnDetached({{program}, {"PATH=/usr/bin:/bin"}, folder_ + "/log"},
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
  EXPECT_TRUE(Eventually([&] { return !IsAlive({maker, 0}) && kill(maker, 0) != 0; }));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace adaptdl::autoscaler
