#include "libs/base/process/wait.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/process/process_list.h"
#include "libs/base/process/spawn.h"
#include "tests/libs/base/process/process_fixture.h"

namespace adaptdl {
namespace {

class WaitTest : public ProcessTest {
 protected:
  // A child with these shell commands.
  ProcessIdentity Start(const std::string& commands) {
    SpawnOptions options;
    options.command = {"/bin/sh", "-c", commands};
    options.working_directory = folder_;
    ProcessIdentity process;
    options.before_start = [&process](pid_t pid) {
      process = IdentifyProcess(pid).value();
      return absl::OkStatus();
    };
    EXPECT_TRUE(Spawn(options).ok());
    EndLater(process);
    return process;
  }
};

TEST_F(WaitTest, TellsHowAChildHasEnded) {
  const auto exited = WaitForChild(Start("exit 3").pid);
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->code, 3);
  EXPECT_EQ(exited->signal, 0);
  const auto killed = WaitForChild(Start("kill -9 $$").pid);
  ASSERT_TRUE(killed.has_value());
  EXPECT_EQ(killed->code, 137);
  EXPECT_EQ(killed->signal, SIGKILL);
}

TEST_F(WaitTest, WhoIsNoChildHasNoEndToTell) {
  EXPECT_FALSE(WaitForChild(getppid()).has_value());
  const ProcessIdentity child = Start("exit 0");
  EXPECT_TRUE(WaitForChild(child.pid).has_value());
  EXPECT_FALSE(WaitForChild(child.pid).has_value());
}

TEST_F(WaitTest, APidfdBecomesReadableAtTheEnd) {
  const ProcessIdentity child = Start("exec sleep 1000");
  const UniqueFd end = OpenPidfd(child.pid);
  if (!end.valid()) GTEST_SKIP() << "this kernel has no pidfds";
  pollfd event = {end.get(), POLLIN, 0};
  EXPECT_EQ(poll(&event, 1, 0), 0);
  ASSERT_TRUE(SignalProcess(child, SIGKILL).ok());
  EXPECT_EQ(poll(&event, 1, 60'000), 1);
  EXPECT_TRUE(WaitForChild(child.pid).has_value());
  EXPECT_FALSE(OpenPidfd(child.pid).valid());
}

TEST_F(WaitTest, WaitsForAllAndNoLongerThanAllowed) {
  const ProcessIdentity short_lived = Start("exit 0");
  const ProcessIdentity long_lived = Start("exec sleep 1000");
  EXPECT_TRUE(WaitForEnd({}, absl::ZeroDuration()));
  EXPECT_TRUE(WaitForEnd({short_lived}, absl::Minutes(1)));
  EXPECT_FALSE(WaitForEnd({short_lived, long_lived}, absl::Milliseconds(20)));
  ASSERT_TRUE(SignalProcess(long_lived, SIGKILL).ok());
  EXPECT_TRUE(WaitForEnd({short_lived, long_lived}, absl::Minutes(1)));
}

TEST_F(WaitTest, StopsTheVeryProcess) {
  const ProcessIdentity process = Start("exec sleep 1000");
  EXPECT_TRUE(IsAlive(process));
  EXPECT_FALSE(IsAlive({process.pid, process.start_time + 1}));
  EXPECT_TRUE(StopProcesses({{process.pid, process.start_time + 1}}, absl::ZeroDuration()));
  EXPECT_TRUE(IsAlive(process));
  EXPECT_TRUE(StopProcesses({process}, absl::Seconds(10)));
  EXPECT_FALSE(IsAlive(process));
}

TEST_F(WaitTest, EndsAProcessThatWillNotEnd) {
  const ProcessIdentity process = Start("trap '' TERM; echo ready > ready; while true; do sleep 1000; done");
  ASSERT_TRUE(Eventually([&] { return !Content(folder_ + "/ready").empty(); }));
  EXPECT_TRUE(StopProcesses({process}, absl::Milliseconds(50)));
  EXPECT_FALSE(IsAlive(process));
  for (const ProcessIdentity& child : FindProcesses("sleep", folder_)) {
    EXPECT_TRUE(SignalProcess(child, SIGKILL).ok());
  }
}

}  // namespace
}  // namespace adaptdl
