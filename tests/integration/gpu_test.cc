// A GPU that breaks on a node that runs jobs.

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/test_cluster.h"
#include "tests/services/worker/fake_gpus.h"

namespace adaptdl::integration {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(2);

TEST(GpuTest, ALostGpuIsShownAndGivenToNobodyAndTheJobsOnTheOthersGoOn) {
  worker::FakeGpus gpus;
  gpus.Set("gpu GPU-a1 0 0 0 Tesla T4\ngpu GPU-b2 0 0 0 Tesla T4\n");
  TestCluster cluster({.workers = 1, .gpus = "auto"});
  cluster.SetWorkerEnvironment({gpus.variable(),
                                absl::StrCat("ADAPTDL_SERVER_NVML_LIBRARY=", worker::kFakeNvml),
                                "ADAPTDL_SERVER_GPU_CHECK_PERIOD=100ms"});
  const absl::Status started = cluster.Start();
  ASSERT_TRUE(started.ok()) << started;
  // It gets the first of the two.
  const std::string go = cluster.folder() + "/go";
  v1::Job job = cluster.CommandJob(
      "job", {"sh", "-c",
              absl::StrCat("echo $ADAPTDL_NUM_GPUS of $CUDA_VISIBLE_DEVICES; while [ ! -e ", go,
                           " ]; do sleep 0.1; done")});
  v1::Resources& resources = *job.mutable_spec()->mutable_template_()->mutable_resources();
  resources.set_cpu_millis(100);
  resources.set_gpus(1);
  ASSERT_TRUE(cluster.Submit(job).ok());
  ASSERT_TRUE(cluster.WaitForJob("job", RunningWith(1), kPatience).ok());
  ASSERT_TRUE(cluster.WaitForLog("job", "1 of GPU-a1", kPatience)) << cluster.Logs("job");

  gpus.Set("gpu GPU-a1 0 0 0 Tesla T4\ngpu GPU-b2 15 0 0 Tesla T4\n");
  const auto broken = [](const v1::Node& node) { return !node.problems().empty(); };
  const absl::StatusOr<v1::Node> node = cluster.WaitForNode("node-0", broken, kPatience);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->status().phase(), v1::NODE_PHASE_READY);
  EXPECT_EQ(node->capacity().gpus(), 1);
  EXPECT_EQ(node->gpu_type(), "Tesla T4");
  EXPECT_THAT(node->problems(0), HasSubstr("GPU-b2: GPU is lost"));
  EXPECT_THAT(cluster.EventReasons("job"), Contains("NodeProblem"));
  // The other one finds no room there.
  job.set_name("waits");
  ASSERT_TRUE(cluster.Submit(job).ok());
  const auto decided = [](const v1::Job& seen) { return !seen.status().allocation_reason().empty(); };
  const absl::StatusOr<v1::Job> waits = cluster.WaitForJob("waits", decided, kPatience);
  ASSERT_TRUE(waits.ok()) << waits.status();
  EXPECT_EQ(waits->status().phase(), v1::JOB_PHASE_PENDING) << waits->status().ShortDebugString();

  worker::WriteFile(go, "");
  for (const std::string name : {"job", "waits"}) {
    const absl::StatusOr<v1::Job> ended = cluster.WaitForJob(name, Finished, kPatience);
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_EQ(ended->status().phase(), v1::JOB_PHASE_SUCCEEDED) << ended->status().ShortDebugString();
    EXPECT_EQ(ended->status().restarts(), 0);
  }
  EXPECT_THAT(cluster.Logs("waits"), HasSubstr("1 of GPU-a1"));
}

}  // namespace
}  // namespace adaptdl::integration
