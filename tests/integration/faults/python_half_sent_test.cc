// Replicas of a Python program die between two messages of a collective: one of the others has the step, or the
// gather, and another has not. Who has not takes the step over, and everything that the next steps go by is the same
// on all replicas, to the last bit: parameters, moments, learning rates, and the factor of a scaler of the loss.

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/faults/training_cluster.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

// A step of three replicas is two messages of each, or four where the program gathers something.
constexpr int kMostMessages = 6;
// Which step the first message is of is chance: about one death in five leaves a step half sent. So many times
// each number of messages, none of them does by less than one chance in a thousand.
constexpr int kMostDeaths = 6 * kMostMessages;

class PythonHalfSentTest : public testing::Test {
 protected:
  void SetUp() override {
    training_.SetCommand({"/usr/bin/env", absl::StrCat("LD_PRELOAD=", DYING_SENDER),
                          absl::StrCat("DYING_SENDER_FOLDER=", training_.folder()),
                          absl::StrCat("PYTHONPATH=", ADAPTDL_BINARY_DIR, "/python"), "/usr/bin/python3",
                          absl::StrCat(ADAPTDL_SOURCE_DIR, "/tests/integration/python/recorded_job.py"),
                          training_.folder(), "--scaled"});
    training_.SetMaxRestarts(2 * kMostDeaths);
  }

  // By a name of its own first: a file that is there is whole.
  void OrderToDie(pid_t replica, int messages) {
    const std::string order = absl::StrCat(training_.folder(), "/", replica, ".dies");
    std::ofstream(order + "-new") << messages;
    std::filesystem::rename(order + "-new", order);
  }

  int StepsTakenOver() {
    const std::filesystem::directory_iterator files(training_.folder());
    return static_cast<int>(std::count_if(
        begin(files), end(files), [](const auto& file) { return file.path().extension() == ".taken_over"; }));
  }

  TrainingCluster training_{{.workers = 3, .allocator = false}};
};

TEST_F(PythonHalfSentTest, WhatSomeHaveTakenTheOthersTakeOver) {
  training_.Start({"node-0", "node-1", "node-2"});
  int deaths = 0;
  while (deaths < kMostMessages || (StepsTakenOver() == 0 && deaths < kMostDeaths)) {
    const int64_t group = training_.group();
    const std::vector<pid_t> replicas = training_.Replicas();
    ASSERT_EQ(replicas.size(), 3u);
    OrderToDie(replicas.front(), deaths++ % kMostMessages + 1);
    // The next group is of the others alone, and the one after it has a replica in its place.
    const auto replaced =
        training_.cluster().WaitForJob("job", RunningAfterGroup(group + 1), TrainingCluster::kPatience);
    ASSERT_TRUE(replaced.ok()) << replaced.status() << "\n" << training_.cluster().Logs("job");
    training_.AwaitTrainingOn(3);
  }
  EXPECT_GT(StepsTakenOver(), 0);
  training_.ExpectOneTraining(/*most_taken_alone=*/0, /*failures=*/deaths);
}

}  // namespace
}  // namespace adaptdl::integration
