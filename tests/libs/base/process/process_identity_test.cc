#include "libs/base/process/process_identity.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "libs/base/process/spawn.h"
#include "libs/base/process/wait.h"

namespace adaptdl {
namespace {

TEST(ProcessIdentity, KnowsItself) {
  const auto self = IdentifyProcess(getpid());
  ASSERT_TRUE(self.ok());
  EXPECT_GT(self->start_time, 0u);
  EXPECT_TRUE(IsAlive(*self));
}

TEST(ProcessIdentity, ARecycledPidIsSomebodyElse) {
  ProcessIdentity other = IdentifyProcess(getpid()).value();
  --other.start_time;
  EXPECT_FALSE(IsAlive(other));
  EXPECT_TRUE(absl::IsNotFound(SignalProcess(other, SIGKILL)));  // and we live
}

TEST(ProcessIdentity, IdentitiesSurviveTheirFile) {
  const ProcessIdentity identity{4321, 987654321};
  EXPECT_EQ(ParseIdentity(FormatIdentity(identity)).value(), identity);
  for (const std::string bad : {"", "1", "1 2 3", "x 2", "1 x", "-1 5", "0 5"})
    EXPECT_TRUE(absl::IsDataLoss(ParseIdentity(bad).status())) << bad;
}

TEST(ProcessIdentity, SignalsTheVeryProcess) {
  SpawnOptions options;
  options.command = {"/bin/sleep", "1000"};
  const pid_t pid = Spawn(options).value();
  const ProcessIdentity child = IdentifyProcess(pid).value();
  ASSERT_TRUE(SignalProcess(child, SIGTERM).ok());
  const auto end = WaitForChild(pid);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->signal, SIGTERM);
  EXPECT_TRUE(absl::IsNotFound(SignalProcess(child, SIGTERM)));
  EXPECT_TRUE(absl::IsNotFound(IdentifyProcess(pid).status()));
}

TEST(ProcessIdentity, LooksAfterItsOwnZombiesAndNobodyElses) {
  SpawnOptions options;
  options.command = {"/bin/true"};
  const pid_t pid = Spawn(options).value();
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(absl::IsNotFound(IdentifyProcess(pid).status()));
  // Somebody who had the pid before is not this zombie.
  EXPECT_FALSE(IsAlive({pid, 0}));
  EXPECT_EQ(kill(pid, 0), 0);
  EXPECT_TRUE(WaitForChild(pid).has_value());
}

}  // namespace
}  // namespace adaptdl
