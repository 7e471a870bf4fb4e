// The real package adaptdl from the Python registry, under a real cluster beside a C++ job:
// examples/python-mnist is re-scaled while it trains, because of what it has told about itself, and learns as
// well as a run that is left alone.

#include <sys/wait.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/test_cluster.h"
#include "tests/integration/training_data.h"

namespace adaptdl::integration {
namespace {

using ::testing::HasSubstr;

// The package reports hints every half minute, first after one: this is to last longer than that on a fast
// core too.
constexpr int kEpochs = 30;
// Long enough for a second replica to be worth what a change is taken to cost, before one was measured.
constexpr int kCppEpochs = 24;
constexpr absl::Duration kPatience = absl::Minutes(8);

// What a command writes to its standard output. `status`: its exit code.
std::string OutputOf(const std::string& command, int* status) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  char part[256];
  while (fgets(part, sizeof(part), pipe) != nullptr) output += part;
  *status = WEXITSTATUS(pclose(pipe));
  return std::string(absl::StripAsciiWhitespace(output));
}

class PythonJobTest : public testing::Test {
 protected:
  void SetUp() override {
    int status = 0;
    python_ = OutputOf(
        absl::StrCat(ADAPTDL_SOURCE_DIR, "/tests/integration/python/venv.sh ", ADAPTDL_BINARY_DIR), &status);
    if (status == 77) {
      std::cerr << "\n*** SKIPPED: the real Python package is not to be had here, nothing was tested with "
                   "it. ***\n\n";
      GTEST_SKIP() << "no PyTorch, or no Python registry";
    }
    ASSERT_EQ(status, 0);
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  v1::Job PythonJob(const std::string& name, int max_replicas) {
    v1::Job job = cluster_.CommandJob(
        name, {python_, absl::StrCat(ADAPTDL_SOURCE_DIR, "/examples/python-mnist/mnist.py"), "--epochs",
               absl::StrCat(kEpochs)});
    for (const std::string& argument : TrainingData())
      job.mutable_spec()->mutable_template_()->add_args(argument);
    job.mutable_spec()->set_max_replicas(max_replicas);
    return job;
  }

  std::string python_;
  TestCluster cluster_{{.workers = 5, .adaptdl_http = true}};
};

TEST_F(PythonJobTest, GrowsOnItsHintsBesideACppJobAndLearnsAsWell) {
  ASSERT_TRUE(cluster_.Submit(PythonJob("python", 2)).ok());
  ASSERT_TRUE(cluster_.Submit(PythonJob("alone", 1)).ok());
  v1::Job cpp = cluster_.MnistJob("cpp", MnistArguments(kCppEpochs));
  cpp.mutable_spec()->set_max_replicas(2);
  ASSERT_TRUE(cluster_.Submit(cpp).ok());

  // One replica until it has told how fast it is, two afterwards.
  const auto measured = cluster_.WaitForJob(
      "python", [](const v1::Job& job) { return job.status().hints().has_perf_params(); }, kPatience);
  ASSERT_TRUE(measured.ok()) << measured.status() << "\n" << cluster_.Logs("python");
  EXPECT_EQ(measured->status().hints().init_batch_size(), 64);
  EXPECT_EQ(measured->status().hints().max_batch_size(), 256);
  EXPECT_GT(measured->status().hints().grad_params().var(), 0);
  EXPECT_EQ(measured->status().hints().max_profiled_replicas(), 1);
  const auto grown = cluster_.WaitForJob("python", RunningWith(2), kPatience);
  ASSERT_TRUE(grown.ok()) << grown.status() << "\n" << cluster_.Logs("python");
  EXPECT_EQ(grown->status().restarts(), 1);
  EXPECT_FALSE(grown->status().allocation_explanation().empty());

  const auto rescaled = cluster_.WaitForJob(
      "cpp", [](const v1::Job& job) { return job.status().rescales() >= 1; }, kPatience);
  ASSERT_TRUE(rescaled.ok()) << rescaled.status();
  for (const std::string job : {"python", "alone", "cpp"}) {
    const auto ended = cluster_.WaitForJob(job, Finished, kPatience);
    ASSERT_TRUE(ended.ok()) << ended.status() << "\n" << cluster_.Logs(job);
    EXPECT_EQ(ended->status().phase(), v1::JOB_PHASE_SUCCEEDED) << ended->status().ShortDebugString();
    EXPECT_EQ(ended->status().failures(), 0) << cluster_.Logs(job);
  }
  EXPECT_THAT(cluster_.Logs("python"), HasSubstr("first step of start 1 with 2 replicas"));
  EXPECT_NEAR(cluster_.TestAccuracy("python"), cluster_.TestAccuracy("alone"), 1.0);
  EXPECT_GE(cluster_.TestAccuracy("python"), 95.0);
}

}  // namespace
}  // namespace adaptdl::integration
