// Programs that were written for AdaptDL learn MNIST's digits on this project's package as well as a plain loop of PyTorch does:
// alone, with three replicas, and on a cluster where they become two, three and one again in place, and one is killed. Each
// sample is used once in an epoch, and all replicas have the same parameters after each step, to the last bit.
//
// ADAPTDL_ACCURACY_SEEDS and ADAPTDL_ACCURACY_EPOCHS set how much is trained; scripts/test-python-accuracy.sh runs it at
// full length. Needs MNIST's test images.

#include <signal.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "tests/integration/faults/training_cluster.h"
#include "tests/integration/python_program.h"
#include "tests/integration/training_data.h"

namespace adaptdl::integration {
namespace {

// The first four fifths of the images.
constexpr size_t kSamples = 8000;
constexpr absl::Duration kPatience = absl::Minutes(20);

struct Program {
  std::string name;
  // What plain_digits.py calls it.
  std::string plain;
  std::string path;
  // Otherwise goodput chooses the batch size, as the program is.
  bool batch_stays;
};
void PrintTo(const Program& program, std::ostream* out) { *out << program.name; }

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What the processes of a run noted is one training of all samples.
void ExpectOneTraining(const std::string& folder, int epochs, bool batch_stays) {
  const auto record = ReadTrainingRecord(folder);
  ASSERT_TRUE(record.ok()) << record.status();
  const absl::Status alike = AllAlike(*record);
  EXPECT_TRUE(alike.ok()) << alike;
  EXPECT_EQ(Rollbacks(*record), 0);
  const auto steps = StepsThatCount(*record);
  ASSERT_TRUE(steps.ok()) << steps.status();
  const absl::Status once = EachSampleOncePerPass(*steps, kSamples, /*whole=*/batch_stays);
  EXPECT_TRUE(once.ok()) << once;
  ASSERT_FALSE(record->weights.empty());
  for (const std::vector<double>& weights : record->weights) {
    ASSERT_EQ(weights, record->weights[0]);
    EXPECT_EQ(weights[0], epochs);
  }
}

class PythonAccuracyTest : public testing::TestWithParam<Program> {
 protected:
  void SetUp() override {
    if (TrainingData()[0] != "--data") GTEST_SKIP() << "MNIST's test images are not here";
    if (!GetParam().batch_stays && seeds_ == 1) GTEST_SKIP() << "at full length only";
  }

  std::vector<std::string> Arguments(int seed) const {
    return {"--data", TrainingData()[1], "--epochs", absl::StrCat(epochs_), "--seed", absl::StrCat(seed)};
  }

  // The program, noting what it does in `folder`.
  std::vector<std::string> Recorded(const std::string& folder, int seed) const {
    std::vector<std::string> arguments = {folder, absl::StrCat(ADAPTDL_SOURCE_DIR, "/", GetParam().path)};
    for (const std::string& argument : Arguments(seed)) arguments.push_back(argument);
    if (GetParam().batch_stays) arguments.insert(arguments.end(), {"--max-batch-size", "0"});
    return PythonProgram("tests/integration/python/recorded.py", arguments);
  }

  // The accuracy that a program that trains on this machine has in the end. -1: it failed.
  static double Run(const std::vector<std::string>& command, const std::string& folder) {
    const std::string log = folder + "/log";
    Process process = Process::Start(command, log);
    EXPECT_EQ(process.Wait(kPatience), 0) << ReadFile(log);
    return LastTestAccuracy(ReadFile(log));
  }

  static double Plain(std::vector<std::string> arguments) {
    const TestCluster folder({});
    return Run(PythonProgram("tests/integration/python/plain_digits.py", arguments), folder.folder());
  }

  double OnThisMachine(int replicas, int seed) const {
    const TestCluster folder({});
    std::vector<std::string> command = Recorded(folder.folder(), seed);
    if (replicas > 1) {
      command.insert(command.begin(), {absl::StrCat(ADAPTDL_BINARY_DIR, "/bin/adaptdl"), "run", "-n",
                                       absl::StrCat(replicas), "--"});
    }
    const double accuracy = Run(command, folder.folder());
    ExpectOneTraining(folder.folder(), epochs_, GetParam().batch_stays);
    return accuracy;
  }

  double OnACluster(int seed) const {
    TrainingCluster training({.workers = 3, .allocator = false});
    training.SetCommand(Recorded(training.folder(), seed));
    ChangeWhileItTrains(&training);
    std::filesystem::remove(training.folder() + "/epochs");
    const auto job = training.cluster().WaitForJob("job", Finished, kPatience);
    EXPECT_TRUE(job.ok()) << job.status() << training.cluster().Logs("job");
    if (!job.ok()) return -1;
    EXPECT_EQ(job->status().phase(), v1::JOB_PHASE_SUCCEEDED) << training.cluster().Logs("job");
    EXPECT_EQ(job->status().restarts(), 0) << training.cluster().Logs("job");
    EXPECT_GE(job->status().rescales(), 3);
    ExpectOneTraining(training.folder(), epochs_, GetParam().batch_stays);
    return training.cluster().TestAccuracy("job");
  }

  // From one replica to two, to three, of which one is killed, and to one, each after a fifth of the epochs.
  void ChangeWhileItTrains(TrainingCluster* training) const {
    const auto train_until = [&](int fifth) {
      const int epochs = epochs_ * fifth / 5;
      const std::string file = training->folder() + "/epochs";
      std::ofstream(file + ".new") << epochs;
      std::filesystem::rename(file + ".new", file);
      const auto there = training->cluster().WaitForJob(
          "job", [=](const v1::Job& job) { return job.status().progress().epoch() >= epochs; }, kPatience);
      ASSERT_TRUE(there.ok()) << there.status() << training->cluster().Logs("job");
    };
    std::ofstream(training->folder() + "/epochs") << 0;
    training->Start({"node-0"});
    train_until(1);
    training->Rescale({"node-0", "node-1"});
    train_until(2);
    training->Rescale({"node-0", "node-1", "node-2"});
    train_until(3);
    const std::vector<pid_t> replicas = training->Replicas();
    ASSERT_EQ(replicas.size(), 3u);
    const int64_t group = training->group();
    ASSERT_EQ(kill(replicas.front(), SIGKILL), 0);
    const auto recovered = training->cluster().WaitForJob("job", RunningAfterGroup(group), kPatience);
    ASSERT_TRUE(recovered.ok()) << recovered.status() << training->cluster().Logs("job");
    training->AwaitTrainingOn(3);
    train_until(4);
    training->Rescale({"node-1"});
  }

  void Measure(const std::string& way, int seed, double accuracy) {
    std::cout << "accuracy of " << GetParam().name << ", seed " << seed << ", " << way << ": "
              << absl::StrFormat("%.2f", accuracy) << " %" << std::endl;
    ASSERT_GE(accuracy, 0) << "the program told none";
    sums_[way] += accuracy;
  }

  const int seeds_ = FromEnvironment("ADAPTDL_ACCURACY_SEEDS", 1);
  const int epochs_ = FromEnvironment("ADAPTDL_ACCURACY_EPOCHS", 5);
  // Over all seeds, in percent.
  std::map<std::string, double> sums_;
};

TEST_P(PythonAccuracyTest, IsThatOfThePlainLoop) {
  for (int seed = 1; seed <= seeds_; ++seed) {
    std::vector<std::string> plain = Arguments(seed);
    plain.insert(plain.begin(), GetParam().plain);
    ASSERT_NO_FATAL_FAILURE(Measure("plain", seed, Plain(plain)));
    // How much accuracies differ by chance.
    plain.push_back("--own-order");
    if (seeds_ > 1 && GetParam().batch_stays) {
      ASSERT_NO_FATAL_FAILURE(Measure("plain, another order", seed, Plain(plain)));
    }
    ASSERT_NO_FATAL_FAILURE(Measure("alone", seed, OnThisMachine(1, seed)));
    ASSERT_NO_FATAL_FAILURE(Measure("adaptdl run -n 3", seed, OnThisMachine(3, seed)));
    ASSERT_NO_FATAL_FAILURE(Measure("cluster", seed, OnACluster(seed)));
  }
  // One seed says little.
  const double tolerance = seeds_ > 2 ? 0.3 : 1.0;
  for (const std::string way : {"alone", "adaptdl run -n 3", "cluster"}) {
    EXPECT_NEAR(sums_[way] / seeds_, sums_["plain"] / seeds_, tolerance) << way;
  }
}

constexpr char kTutorial[] = "tests/integration/python/tutorial_job.py";
constexpr char kExample[] = "examples/python-mnist/mnist.py";

INSTANTIATE_TEST_SUITE_P(Programs, PythonAccuracyTest,
                         testing::Values(Program{"tutorial", "tutorial", kTutorial, true},
                                         Program{"tutorial_goodput", "tutorial", kTutorial, false},
                                         Program{"example", "mnist", kExample, true},
                                         Program{"example_goodput", "mnist", kExample, false}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace adaptdl::integration
