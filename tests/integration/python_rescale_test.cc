// A Python program on this project's own package, under a real cluster: its replicas change in place, and one of them
// is killed, while each sample is used once in an epoch and all replicas keep the same parameters, to the last bit.

#include <signal.h>
#include <sys/types.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/faults/training_cluster.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

using ::testing::IsSupersetOf;

class PythonRescaleTest : public testing::TestWithParam<std::vector<std::string>> {
 protected:
  // With Debian's Python, and the package as it was built; or another program that notes the same, whose words
  // scripts/test-python.sh and tests/python/frameworks name.
  void SetUp() override {
    std::vector<std::string> command = {
        "/usr/bin/env", absl::StrCat("PYTHONPATH=", ADAPTDL_BINARY_DIR, "/python"), "/usr/bin/python3",
        absl::StrCat(ADAPTDL_SOURCE_DIR, "/tests/integration/python/recorded_job.py")};
    const char* const other =
        std::getenv("ADAPTDL_TEST_COMMAND");  // NOLINT(concurrency-mt-unsafe): nobody sets it
    if (other != nullptr) command = absl::StrSplit(other, ' ');
    command.push_back(training_.folder());
    command.insert(command.end(), GetParam().begin(), GetParam().end());
    training_.SetCommand(command);
  }

  TrainingCluster training_{{.workers = 3, .allocator = false}};
};

TEST_P(PythonRescaleTest, GrowsShrinksAndLosesAReplicaInPlace) {
  training_.Start({"node-0"});
  training_.Rescale({"node-0", "node-1"});
  training_.Rescale({"node-0", "node-1", "node-2"});

  // The eldest is rank 0, which holds what newcomers are handed.
  const std::vector<pid_t> replicas = training_.Replicas();
  ASSERT_EQ(replicas.size(), 3u);
  const int64_t group = training_.group();
  ASSERT_EQ(kill(replicas.front(), SIGKILL), 0);
  const auto recovered =
      training_.cluster().WaitForJob("job", RunningAfterGroup(group), TrainingCluster::kPatience);
  ASSERT_TRUE(recovered.ok()) << recovered.status() << "\n" << training_.cluster().Logs("job");
  training_.AwaitTrainingOn(3);
  // The others are the processes that they were.
  EXPECT_THAT(training_.Replicas(), IsSupersetOf(std::vector<pid_t>(replicas.begin() + 1, replicas.end())));

  training_.Rescale({"node-1"});
  training_.ExpectOneTraining(/*most_taken_alone=*/0, /*failures=*/1);
}

// As for programs that cannot change in place: SIGTERM, a checkpoint, exit 143, and the next group goes on there.
TEST_P(PythonRescaleTest, GoesByItsCheckpointsWithoutLosingAStep) {
  training_.SetMode(v1::RESCALE_MODE_RESTART);
  training_.Start({"node-0"});
  training_.Rescale({"node-0", "node-1"});
  training_.Rescale({"node-1"});
  training_.ExpectOneTraining(/*most_taken_alone=*/0, /*failures=*/0, /*restarts=*/2);
}

// Arguments of the program beside its folder: processes that read for each replica, and a scaler of the loss.
INSTANTIATE_TEST_SUITE_P(Workers, PythonRescaleTest,
                         testing::Values(std::vector<std::string>{"0"}, std::vector<std::string>{"2"},
                                         std::vector<std::string>{"0", "scaled"}));

}  // namespace
}  // namespace adaptdl::integration
