#include "libs/base/process/child_reaper.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "libs/base/process/spawn.h"
#include "libs/base/process/wait.h"
#include "tests/libs/base/process/process_fixture.h"

namespace adaptdl {
namespace {

using ChildReaperTest = ProcessTest;

// In a process of its own, as it takes every child's exit status.
TEST_F(ChildReaperTest, LeavesNoZombies) {
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    ChildReaper::BlockSignal();
    const ChildReaper reaper;
    SpawnOptions options;
    options.command = {"/bin/true"};
    const bool started = Spawn(options).ok() && Spawn(options).ok();
    const bool reaped = Eventually([] {
      siginfo_t info = {};
      return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
    });
    _exit(started && reaped ? 0 : 1);
  }
  const auto end = WaitForChild(parent);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, 0);
}

}  // namespace
}  // namespace adaptdl
