// A worker whose GPUs break while replicas use others.

#include <csignal>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/fake_gpus.h"
#include "tests/services/worker/worker_fixture.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GpuWorkerTest : public WorkerTest {
 protected:
  GpuWorkerTest() {
    gpus_.Set(Gpus(0, 0));
    gpu_flags_ = {absl::StrCat("--nvml-library=", kFakeNvml), "--gpu-check-period=50ms"};
    environment_ = {gpus_.variable(), "CUDA_VISIBLE_DEVICES=GPU-aa,GPU-bb"};
  }

  // With these codes of NVML for the two that are visible.
  static std::string Gpus(int first, int second) {
    return absl::StrCat("gpu GPU-aa1 ", first, " 0 0 Tesla T4\ngpu GPU-cc1 0 0 0 Tesla T4\ngpu GPU-bb1 ",
                        second, " 0 0 Tesla T4\n");
  }
  v1::LaunchReplica User(const std::string& name, const std::string& file) {
    return Shell(name, "echo \"gpus=$ADAPTDL_NUM_GPUS:$CUDA_VISIBLE_DEVICES\"; " + Until(file), 1);
  }

  FakeGpus gpus_;
};

TEST_F(GpuWorkerTest, WithdrawsALostGpuAndLeavesTheOthersAlone) {
  const auto before = supervisor_.TakeRegistration();
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->capacity().gpus(), 2);
  EXPECT_EQ(before->gpu_type(), "Tesla T4");
  EXPECT_THAT(before->problems(), IsEmpty());
  supervisor_.Launch(User("a", "go"));
  supervisor_.Launch(User("b", "stay"));
  ASSERT_TRUE(WaitForRunning("a").has_value());
  ASSERT_TRUE(WaitForRunning("b").has_value());

  gpus_.Set(Gpus(15, 0));
  const auto broken = supervisor_.TakeRegistration();
  ASSERT_TRUE(broken.has_value());
  EXPECT_THAT(broken->problems(), ElementsAre(HasSubstr("GPU-aa1: GPU is lost (NVML 15)")));
  EXPECT_EQ(broken->capacity().gpus(), 2) << "a replica still has it";
  Touch("go");
  ASSERT_TRUE(WaitForExit("a").has_value());
  const auto withdrawn = supervisor_.TakeRegistration();
  ASSERT_TRUE(withdrawn.has_value());
  EXPECT_EQ(withdrawn->capacity().gpus(), 1);
  EXPECT_THAT(withdrawn->problems(), ElementsAre(HasSubstr("GPU-aa1")));

  supervisor_.Launch(Shell("c", "true", 1));
  const auto refused = supervisor_.WaitForState(Id("c"), v1::REPLICA_STATE_LOST);
  ASSERT_TRUE(refused.has_value());
  EXPECT_THAT(refused->replica().message(), HasSubstr("1 do not work"));
  Touch("stay");
  EXPECT_EQ(WaitForExit("b")->replica().exit_code(), 0);
  EXPECT_THAT(LogOf("a"), HasSubstr("gpus=1:GPU-aa1"));
  EXPECT_THAT(LogOf("b"), HasSubstr("gpus=1:GPU-bb1"));
}

TEST_F(GpuWorkerTest, TellsTheSupervisorHowMuchOfTheMachineIsInUse) {
  gpus_.Set(
      "gpu GPU-aa1 0 0 0 Tesla T4\nuse 85 1000 4000 71 62500\ngpu GPU-cc1 0 0 0 Tesla T4\n"
      "gpu GPU-bb1 0 0 0 Tesla T4\nuse 5 0 4000 30 9000\n");
  // What was there before the figures may come first.
  auto use = supervisor_.WaitForUse(
      [](const v1::MachineUse& use) { return use.gpus_size() == 2 && use.gpus(1).utilization() > 0; });
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->gpus(0).uuid(), "GPU-aa1");
  EXPECT_EQ(use->gpus(0).utilization(), 0.85);
  EXPECT_EQ(use->gpus(0).temperature_celsius(), 71);
  EXPECT_EQ(use->gpus(1).uuid(), "GPU-bb1") << "in the driver's order, only those that are offered";
  EXPECT_EQ(use->gpus(1).index(), 2);
  EXPECT_EQ(use->gpus(1).power_watts(), 9);
  EXPECT_GT(use->memory_bytes(), 0);
  EXPECT_LT(use->memory_bytes(), use->memory_total_bytes());
  EXPECT_GE(use->cpus(), 0);
  gpus_.Set(Gpus(15, 0));
  use = supervisor_.WaitForUse([](const v1::MachineUse& use) { return use.gpus_size() == 1; });
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->gpus(0).uuid(), "GPU-bb1");
}

TEST_F(GpuWorkerTest, GpusKeepTheirOwnersOverARestartThoughOthersAreGone) {
  supervisor_.Launch(User("b", "go"));
  ASSERT_TRUE(WaitForRunning("b").has_value());
  KillWorker();
  gpus_.Set("gpu GPU-bb1 0 0 0 Tesla T4\ngpu GPU-aa1 0 0 0 Tesla T4\n");
  StartWorker();
  supervisor_.TakeHello();
  supervisor_.TakeHello();
  supervisor_.Launch(User("c", "go"));
  ASSERT_TRUE(WaitForRunning("c").has_value());
  Touch("go");
  ASSERT_TRUE(WaitForExit("b").has_value());
  ASSERT_TRUE(WaitForExit("c").has_value());
  EXPECT_THAT(LogOf("b"), HasSubstr("gpus=1:GPU-aa1"));
  EXPECT_THAT(LogOf("c"), HasSubstr("gpus=1:GPU-bb1"));
}

TEST_F(GpuWorkerTest, ADriverThatHangsHoldsNothingUp) {
  ASSERT_TRUE(supervisor_.TakeHello().has_value());
  gpus_.Set(Gpus(-1, 0));
  ASSERT_TRUE(WaitForFile(gpus_.path() + ".hangs"));
  EXPECT_TRUE(supervisor_.WaitForHeartbeats(supervisor_.heartbeats() + 5));
  supervisor_.Launch(Shell("r", "exit 3"));
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 3);
  EXPECT_EQ(EndWorker(SIGTERM), 0);
}

}  // namespace
}  // namespace adaptdl::worker
