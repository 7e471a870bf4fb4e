// The real programs, as processes.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/examples/replica_process.h"

namespace {

using ::examples::Environment;
using ::examples::Process;
using ::testing::HasSubstr;

// From the last line; negative: it says none.
double Accuracy(const Process& process) {
  const std::vector<double> accuracies = process.NumbersAfter("test accuracy: ");
  return accuracies.empty() ? -1 : accuracies.back();
}

class MnistProgramsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "adaptdl-mnist-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::unique_ptr<Process>> Start(int replicas, const std::vector<std::string>& arguments) {
    return examples::StartGroup("adaptdl-mnist", replicas, arguments, folder_);
  }

  std::string folder_;
};

const std::vector<std::string> kShort = {"--samples", "2000", "--epochs", "2"};

TEST_F(MnistProgramsTest, ThePlainProgramLearns) {
  Process plain("adaptdl-mnist-plain", kShort, {});
  EXPECT_EQ(plain.Wait(), 0) << plain.output();
  EXPECT_GT(Accuracy(plain), 80) << plain.output();
}

TEST_F(MnistProgramsTest, RealDigitsAreLearnt) {
  const std::string data = std::string(ADAPTDL_SOURCE_DIR) + "/../shared/data/mnist";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no " << data;
  Process elastic("adaptdl-mnist", {"--data", data, "--epochs", "1"}, {});
  EXPECT_EQ(elastic.Wait(), 0) << elastic.output();
  EXPECT_GT(Accuracy(elastic), 94) << elastic.output();
}

TEST_F(MnistProgramsTest, ReplicasThatAreStoppedAndRescaledLearnWhatOneLearns) {
  Process alone("adaptdl-mnist", kShort, {});
  EXPECT_EQ(alone.Wait(), 0) << alone.output();

  auto first = Start(2, kShort);
  ASSERT_TRUE(first[0]->WaitFor("epoch 1:")) << first[0]->output();
  first[1]->Signal(SIGTERM);
  EXPECT_EQ(first[0]->Wait(), 143) << first[0]->output();
  EXPECT_EQ(first[1]->Wait(), 143) << first[1]->output();
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/result.json"));

  auto second = Start(1, kShort);
  EXPECT_EQ(second[0]->Wait(), 0) << second[0]->output();
  EXPECT_THAT(second[0]->output(), HasSubstr("restored checkpoint-1"));
  EXPECT_THAT(second[0]->output(), ::testing::Not(HasSubstr("epoch 1:")));
  // Sums are taken in another order: a few pictures may fall on the other side.
  EXPECT_NEAR(Accuracy(*second[0]), Accuracy(alone), 1.0);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/result.json"));
}

TEST_F(MnistProgramsTest, AKilledPeerEndsTheOthersWithTheirCode) {
  auto group = Start(3, {"--samples", "2000", "--epochs", "100"});
  ASSERT_TRUE(group[0]->WaitFor("epoch 1:")) << group[0]->output();
  group[2]->Signal(SIGKILL);
  EXPECT_EQ(group[2]->Wait(), -SIGKILL);
  EXPECT_EQ(group[0]->Wait(), 75) << group[0]->output();
  EXPECT_EQ(group[1]->Wait(), 75) << group[1]->output();
  EXPECT_THAT(group[0]->output(), HasSubstr("a peer was lost"));
}

TEST_F(MnistProgramsTest, ASecondInterruptKills) {
  Process elastic("adaptdl-mnist", {"--samples", "2000", "--epochs", "100"}, {});
  ASSERT_TRUE(elastic.WaitFor("epoch 1:")) << elastic.output();
  elastic.Signal(SIGINT);
  elastic.Signal(SIGINT);
  const int code = elastic.Wait();
  EXPECT_TRUE(code == -SIGINT || code == 143) << code;
}

TEST_F(MnistProgramsTest, WrongSettingsAreNamed) {
  Process wrong("adaptdl-mnist", {}, {{"ADAPTDL_NUM_REPLICAS", "many"}});
  EXPECT_EQ(wrong.Wait(), 1);
  EXPECT_THAT(wrong.output(), HasSubstr("ADAPTDL_NUM_REPLICAS=\"many\""));
}

TEST_F(MnistProgramsTest, RunsWithoutAClusterAndGoesOnWithAnotherNumberOfReplicas) {
  const auto run = [&](const std::string& replicas) {
    const std::string program = std::string(ADAPTDL_BINARY_DIR) + "/bin/adaptdl-mnist";
    return std::make_unique<Process>(
        "adaptdl",
        std::vector<std::string>{"run", "-n", replicas, "--checkpoint", folder_ + "/checkpoint", "--",
                                 program, "--samples", "2000", "--epochs", "4"},
        Environment{});
  };
  const auto first = run("2");
  ASSERT_TRUE(first->WaitFor("epoch 1:")) << first->output();
  first->Signal(SIGINT);
  EXPECT_EQ(first->Wait(), 143) << first->output();
  EXPECT_THAT(first->output(), HasSubstr("adaptdl: wrote checkpoint-"));
  const auto second = run("1");
  EXPECT_EQ(second->Wait(), 0) << second->output();
  EXPECT_THAT(second->output(), HasSubstr("adaptdl: restored checkpoint-"));
  EXPECT_GT(Accuracy(*second), 80) << second->output();
}

}  // namespace
