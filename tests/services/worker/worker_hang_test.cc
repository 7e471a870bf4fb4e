// A worker whose disk, shared storage or process spawner hangs: the supervisor hears of it all the same. And
// one whose storage fails: the job is not to blame.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/worker_fixture.h"

namespace adaptdl::worker {
namespace {

using ::testing::HasSubstr;

class HangingWorkerTest : public WorkerTest {
 protected:
  HangingWorkerTest() {
    environment_ = {"LD_PRELOAD=" ADAPTDL_BINARY_DIR "/tests/libhanging_disk.so",
                    "HANGING_DISK_FOLDER=" + folder_.path(), "HANGING_DISK_GATE=" + gate_.path()};
  }
  ~HangingWorkerTest() override {
    for (const std::string call : {"mkdir", "open", "fsync", "fork"}) LetGo(call);
  }

  // From now on such calls hang.
  void Hang(const std::string& call) { ASSERT_EQ(mkfifo((gate_ / call).c_str(), 0600), 0); }
  bool AwaitHanging(const std::string& call) { return WaitForFile(gate_ / (call + ".hangs")); }
  // From now on such calls fail with EIO.
  void Fail(const std::string& call) { WriteFile(gate_ / (call + ".fails"), ""); }
  void LetGo(const std::string& call) {
    const std::string fifo = gate_ / call;
    // Whoever comes between these finds somebody who writes; who comes later, nothing.
    const int fd = open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    unlink(fifo.c_str());
    close(fd);
  }

  // Whether heartbeats come that were not on their way already.
  bool IsHeard() { return supervisor_.WaitForHeartbeats(supervisor_.heartbeats() + 5); }

  TempFolder gate_;
};

TEST_F(HangingWorkerTest, IsHeardAndObeysWhileTheStorageHangs) {
  ASSERT_TRUE(supervisor_.TakeHello().has_value());
  supervisor_.Launch(Shell("first", Until("go") + "exit 3"));
  ASSERT_TRUE(WaitForRunning("first").has_value());
  Hang("mkdir");
  supervisor_.Launch(Shell("r", "exit 4", 2));
  ASSERT_TRUE(AwaitHanging("mkdir"));
  EXPECT_TRUE(IsHeard());
  // A launch that hangs is called off at once, and gives its GPUs back.
  supervisor_.StopReplica(Id("r"));
  const auto called_off = WaitForExit("r");
  ASSERT_TRUE(called_off.has_value());
  EXPECT_EQ(called_off->replica().exit_code(), 143);
  EXPECT_THAT(called_off->replica().message(), HasSubstr("before it was started"));
  // Others are not held up.
  Touch("go");
  EXPECT_EQ(WaitForExit("first")->replica().exit_code(), 3);
  supervisor_.Launch(Shell("next", "exit 5", 2));
  EXPECT_TRUE(supervisor_.WaitForState(Id("next"), v1::REPLICA_STATE_LAUNCHING).has_value());
  LetGo("mkdir");
  EXPECT_EQ(WaitForExit("next")->replica().exit_code(), 5);
  EXPECT_FALSE(std::filesystem::exists(ReplicaFolder(Id("r")) + "/running.json"));
}

TEST_F(HangingWorkerTest, IsHeardWhileItsOwnDiskHangs) {
  ASSERT_TRUE(supervisor_.TakeHello().has_value());
  supervisor_.Launch(Shell("r", "trap 'exit 143' TERM; touch ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  ASSERT_TRUE(WaitForFile(Share() + "/ready"));
  Hang("fsync");
  supervisor_.Launch(Shell("s", "exit 4"));
  ASSERT_TRUE(AwaitHanging("fsync"));
  EXPECT_TRUE(IsHeard());
  supervisor_.StopReplica(Id("r"));
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 143);
  supervisor_.Acknowledge(Id("r"));
  EXPECT_TRUE(IsHeard());
  LetGo("fsync");
  EXPECT_EQ(WaitForExit("s")->replica().exit_code(), 4);
  EXPECT_TRUE(WaitForFile(ReplicaFolder(Id("r")) + "/acknowledged"));
}

TEST_F(HangingWorkerTest, IsHeardWhileAProcessDoesNotStart) {
  ASSERT_TRUE(supervisor_.TakeHello().has_value());
  Hang("fork");
  supervisor_.Launch(Shell("r", "trap 'exit 143' TERM; touch ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(AwaitHanging("fork"));
  EXPECT_TRUE(IsHeard());
  // The stop waits for the process, and nobody for the stop.
  supervisor_.StopReplica(Id("r"), 0);
  EXPECT_TRUE(IsHeard());
  LetGo("fork");
  EXPECT_TRUE(WaitForExit("r").has_value());
}

TEST_F(HangingWorkerTest, IsHeardWhileItLooksForAShim) {
  ASSERT_TRUE(supervisor_.TakeHello().has_value());
  supervisor_.Launch(Shell("r", "sleep 1000"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  const std::string running = ReadFile(ReplicaFolder(Id("r")) + "/running.json");
  const int replica = atoi(running.c_str() + running.find("\"pid\":") + 6);
  int shim = 0;
  const std::string stat = ReadFile(absl::StrCat("/proc/", replica, "/stat"));
  ASSERT_EQ(sscanf(stat.c_str() + stat.rfind(')') + 1, " %*c %d", &shim), 1);
  Hang("open");
  ASSERT_EQ(kill(shim, SIGKILL), 0);
  ASSERT_TRUE(AwaitHanging("open"));
  supervisor_.StopReplica(Id("r"));
  EXPECT_TRUE(IsHeard());
  LetGo("open");
  EXPECT_TRUE(supervisor_.WaitForState(Id("r"), v1::REPLICA_STATE_LOST).has_value());
  EXPECT_TRUE(WaitForFile(ReplicaFolder(Id("r")) + "/exit.json"));
}

TEST_F(HangingWorkerTest, ALaunchThatFailsByTheStorageIsNotTheJobsFault) {
  Fail("mkdir");
  supervisor_.Launch(Shell("r", "exit 4"));
  const auto lost = supervisor_.WaitForState(Id("r"), v1::REPLICA_STATE_LOST);
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->replica().end_cause(), v1::END_CAUSE_STORAGE) << lost->ShortDebugString();
}

TEST_F(HangingWorkerTest, AFailureWhileTheStorageFailsIsNotTheJobsFault) {
  supervisor_.Launch(Shell("healthy", "exit 1"));
  const auto own = WaitForExit("healthy");
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->replica().end_cause(), v1::END_CAUSE_UNSPECIFIED);
  supervisor_.Launch(Shell("r", Until("go") + "exit 1"));
  ASSERT_TRUE(WaitForRunning("r").has_value());
  Fail("open");
  Touch("go");
  const auto exit = WaitForExit("r");
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->replica().exit_code(), 1);
  EXPECT_EQ(exit->replica().end_cause(), v1::END_CAUSE_STORAGE);
  EXPECT_THAT(exit->replica().message(), HasSubstr("the storage does not work"));
}

}  // namespace
}  // namespace adaptdl::worker
