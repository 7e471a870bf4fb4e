// A Python program on this project's own package, under a real cluster: its replicas change in place, and one of them
// is killed, while each sample is used once in an epoch and all replicas keep the same parameters, to the last bit.

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/integration/described.h"
#include "tests/integration/faults/training_cluster.h"
#include "tests/integration/python_program.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

using ::testing::IsSupersetOf;

// What the job reads, by how many processes, and what else it does.
struct Program {
  std::string name;
  std::vector<std::string> arguments;
  // A replica takes with it how far it has read its streams: without it the job goes on from its checkpoint, unless none was
  // being read.
  bool recovers_in_place = true;
};
void PrintTo(const Program& program, std::ostream* out) { *out << program.name; }

class PythonRescaleTest : public testing::TestWithParam<Program> {
 protected:
  // Our own, or another that notes the same, whose words tests/python/frameworks names.
  void SetUp() override {
    std::vector<std::string> command = PythonProgram("tests/integration/python/recorded_job.py", {});
    const char* const other =
        std::getenv("ADAPTDL_TEST_COMMAND");  // NOLINT(concurrency-mt-unsafe): nobody sets it
    if (other != nullptr) command = absl::StrSplit(other, ' ');
    command.push_back(training_.folder());
    command.insert(command.end(), GetParam().arguments.begin(), GetParam().arguments.end());
    training_.SetCommand(command);
  }

  // What is shown of the loss that it reports, over all changes.
  void ExpectLoss() {
    if (std::getenv("ADAPTDL_TEST_COMMAND") != nullptr) return;  // NOLINT(concurrency-mt-unsafe): as above
    const nlohmann::json progress = DescribedProgress(training_.cluster(), "job");
    auto metrics = ReportedMetrics(progress);
    EXPECT_EQ(metrics["loss"].value("step", ""), progress.value("optimizerSteps", "none")) << progress;
    EXPECT_GT(progress.value("gradientNoiseScale", 0.0), 0) << progress;
    EXPECT_GT(progress["stepTimes"].value("compute", 0.0), 0) << progress;
    EXPECT_GT(progress["stepTimes"].value("data", 0.0), 0) << progress;
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
  const std::vector<pid_t> now = training_.Replicas();

  training_.Rescale({"node-1"});
  if (GetParam().recovers_in_place) {
    // The others are the processes that they were.
    EXPECT_THAT(now, IsSupersetOf(std::vector<pid_t>(replicas.begin() + 1, replicas.end())));
    training_.ExpectOneTraining(/*most_repeated=*/0, /*failures=*/1);
  } else {
    // Between two passes it takes nothing with it.
    const int restarts = recovered->status().restarts();
    EXPECT_LE(restarts, 1);
    training_.ExpectOneTraining(std::numeric_limits<int64_t>::max(), /*failures=*/1, restarts);
  }
  ExpectLoss();
}

// As for programs that cannot change in place: SIGTERM, a checkpoint, exit 143, and the next group goes on there.
TEST_P(PythonRescaleTest, GoesByItsCheckpointsWithoutLosingAStep) {
  training_.SetMode(v1::RESCALE_MODE_RESTART);
  training_.Start({"node-0"});
  training_.Rescale({"node-0", "node-1"});
  training_.Rescale({"node-1"});
  training_.ExpectOneTraining(/*most_repeated=*/0, /*failures=*/0, /*restarts=*/2);
}

INSTANTIATE_TEST_SUITE_P(
    All, PythonRescaleTest,
    testing::Values(Program{"Indices", {}}, Program{"IndicesByWorkers", {"--workers", "2"}},
                    Program{"Streams", {"--data", "streams"}, false},
                    Program{"StreamsByWorkers", {"--data", "streams", "--workers", "2"}, false},
                    Program{"Text", {"--data", "text"}}, Program{"Distributed", {"--distributed"}},
                    Program{"Scaled", {"--scaled"}}),
    [](const testing::TestParamInfo<Program>& program) { return program.param.name; });

}  // namespace
}  // namespace adaptdl::integration
