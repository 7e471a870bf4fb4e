// A replica that is there and does nothing is not waited for: the others go on from memory, and another one
// takes its place.

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "tests/integration/faults/training_cluster.h"

namespace adaptdl::integration {
namespace {

using ::testing::Contains;

// Stops the first thread of a process, which trains, while that waits for others; its other threads run on.
// The process can still be killed.
class StoppedThread {
 public:
  explicit StoppedThread(pid_t pid) : pid_(pid), pidfd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {
    if (ptrace(PTRACE_SEIZE, pid_, nullptr, nullptr) != 0) return;
    constexpr int kMostAttempts = 20'000;
    for (int i = 0; i < kMostAttempts; ++i) {
      if (ptrace(PTRACE_INTERRUPT, pid_, nullptr, nullptr) != 0) return;
      if (waitpid(pid_, nullptr, __WALL) != pid_) return;
      if (Waits()) {
        stopped_ = true;
        break;
      }
      if (ptrace(PTRACE_CONT, pid_, nullptr, nullptr) != 0) return;
    }
    // Its parent hears of its end only when the tracer has.
    reaper_ = std::thread([this] {
      int status = 0;
      while (waitpid(pid_, &status, __WALL) == pid_ && !WIFEXITED(status) && !WIFSIGNALED(status)) {
      }
    });
  }
  ~StoppedThread() {
    (void)syscall(SYS_pidfd_send_signal, pidfd_, SIGKILL, nullptr, 0);
    if (reaper_.joinable()) reaper_.join();
    close(pidfd_);
  }
  bool stopped() const { return stopped_; }

 private:
  // In a futex's wait, as in an exchange; what it computes, reads and sleeps is done by other calls.
  bool Waits() const {
    const absl::StatusOr<std::string> call = ReadWholeFile(absl::StrCat("/proc/", pid_, "/syscall"));
    return call.ok() && absl::StartsWith(*call, absl::StrCat(SYS_futex, " "));
  }

  const pid_t pid_;
  const int pidfd_;
  bool stopped_ = false;
  std::thread reaper_;
};

class HangTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(training_.Start({"node-0", "node-1", "node-2"}));
    group_ = training_.group();
  }

  // The others have gone on without it, and it was replaced.
  void ExpectReplaced(pid_t pid, absl::Time since, absl::Duration within, const std::string& what) {
    const absl::Duration usual = training_.usual();
    const auto without =
        training_.cluster().WaitForJob("job", RunningAfterGroup(group_), training_.kPatience);
    ASSERT_TRUE(without.ok()) << without.status() << "\n" << training_.cluster().Logs("job");
    training_.ExpectWithin(within, usual, SteadyNow() - since, what);
    ASSERT_NO_FATAL_FAILURE(training_.AwaitTrainingOn(3));
    EXPECT_THAT(training_.Replicas(), testing::Not(Contains(pid)));
    EXPECT_THAT(training_.cluster().EventReasons("job"), Contains("ReplicaLost"));
    training_.ExpectOneTraining();
  }

  TrainingCluster training_{{.workers = 3, .allocator = false}};
  int64_t group_ = 0;
};

TEST_F(HangTest, AFrozenReplicaIsReplaced) {
  const pid_t victim = training_.Replicas().at(1);
  ASSERT_EQ(kill(victim, SIGSTOP), 0);
  ExpectReplaced(victim, SteadyNow(), training_.kSilence, "a frozen process");
}

// Its process lives, and sends heartbeats.
TEST_F(HangTest, AReplicaWhoseTrainingHangsIsReplaced) {
  const pid_t victim = training_.Replicas().at(1);
  std::ofstream(absl::StrCat(training_.folder(), "/", victim, ".hang")).close();
  ExpectReplaced(victim, SteadyNow(), training_.kHang, "a training thread that hangs");
}

// Its process lives and sends heartbeats, and says that it waits for the others, as they do. They wait for
// it.
TEST_F(HangTest, AReplicaThatIsStoppedWithinAnExchangeIsReplaced) {
  const pid_t victim = training_.Replicas().at(1);
  const StoppedThread training(victim);
  if (!training.stopped())
    GTEST_SKIP() << "A THREAD STOPPED WITHIN AN EXCHANGE IS NOT TESTED: may not trace it";
  ExpectReplaced(victim, SteadyNow(), training_.kHang, "a thread that is stopped within an exchange");
}

}  // namespace
}  // namespace adaptdl::integration
