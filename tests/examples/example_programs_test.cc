// The example programs on data of their own making: both versions learn, and the elastic one goes on after a
// stop with another number of replicas.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/examples/replica_process.h"

namespace examples {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

struct Example {
  std::string name;
  std::vector<std::string> arguments;
};
void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

class ExampleProgramsTest : public ::testing::TestWithParam<Example> {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "adaptdl-examples-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string program() const { return "adaptdl-" + GetParam().name; }

  std::string folder_;
};

void ExpectLearning(const Process& process, size_t epochs) {
  const std::vector<double> losses = process.NumbersAfter("train loss ");
  ASSERT_THAT(losses, SizeIs(epochs)) << process.output();
  EXPECT_LT(losses.back(), losses.front()) << process.output();
}

TEST_P(ExampleProgramsTest, ThePlainProgramLearns) {
  Process plain(program() + "-plain", GetParam().arguments, {});
  EXPECT_EQ(plain.Wait(), 0) << plain.output();
  ExpectLearning(plain, 2);
}

TEST_P(ExampleProgramsTest, TheElasticProgramLearnsAndGoesOnAfterAStop) {
  auto two = StartGroup(program(), 2, GetParam().arguments, folder_);
  ASSERT_TRUE(two[0]->WaitFor("epoch 1:")) << two[0]->output();
  two[1]->Signal(SIGTERM);
  EXPECT_EQ(two[0]->Wait(), 143) << two[0]->output();
  EXPECT_EQ(two[1]->Wait(), 143) << two[1]->output();

  auto one = StartGroup(program(), 1, GetParam().arguments, folder_);
  EXPECT_EQ(one[0]->Wait(), 0) << one[0]->output();
  EXPECT_THAT(one[0]->output(), HasSubstr("restored checkpoint-1"));
  EXPECT_THAT(one[0]->output(), Not(HasSubstr("epoch 1:")));
  const std::vector<double> before = two[0]->NumbersAfter("train loss ");
  const std::vector<double> after = one[0]->NumbersAfter("train loss ");
  ASSERT_THAT(before, SizeIs(1));
  ASSERT_THAT(after, SizeIs(1)) << one[0]->output();
  EXPECT_LT(after[0], before[0]);
}

TEST_P(ExampleProgramsTest, HelpSaysWhatItDoes) {
  Process help(program(), {"--help"}, {});
  EXPECT_EQ(help.Wait(), 0);
  EXPECT_THAT(help.output(), HasSubstr("--data"));
}

std::vector<std::string> With(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

const Example kCifar = {
    "cifar", {"--samples", "400", "--epochs", "2", "--width", "4", "--batch-size", "16", "--lr", "0.05"}};
const Example kNcf = {"ncf", {"--samples", "4000", "--epochs", "2", "--width", "8", "--batch-size", "64"}};
const Example kTransformer = {"transformer", {"--samples", "1000", "--epochs", "2", "--width", "16"}};

TEST(ExamplePrecisionTest, ShortNumbersLearnToo) {
  for (const Example& example : {kCifar, kTransformer}) {
    SCOPED_TRACE(example.name);
    Process program("adaptdl-" + example.name, With(example.arguments, {"--precision", "bf16"}), {});
    EXPECT_EQ(program.Wait(), 0) << program.output();
    ExpectLearning(program, 2);
  }
}

TEST(ExamplePrecisionTest, WhatIsImpossibleIsSaid) {
  Process on_cpu("adaptdl-cifar", With(kCifar.arguments, {"--device", "cpu", "--precision", "fp16"}), {});
  EXPECT_EQ(on_cpu.Wait(), 1);
  EXPECT_THAT(on_cpu.output(), HasSubstr("--precision fp16 needs a GPU; give bf16 on a CPU"));
  Process unknown("adaptdl-cifar", {"--precision", "fp8"}, {});
  EXPECT_NE(unknown.Wait(), 0);
  EXPECT_THAT(unknown.output(), HasSubstr("--precision"));
  // LibTorch alone has no GradScaler.
  Process plain("adaptdl-cifar-plain", {"--precision", "bf16"}, {});
  EXPECT_NE(plain.Wait(), 0);
}

TEST(ExampleDeviceTest, AGpuThatIsNotThereIsMissedAtOnce) {
  for (const Example& example : {Example{"mnist", {}}, kCifar, kNcf, kTransformer}) {
    SCOPED_TRACE(example.name);
    // Whatever this machine has.
    Process program("adaptdl-" + example.name, With(example.arguments, {"--device", "cuda"}),
                    {{"CUDA_VISIBLE_DEVICES", ""}});
    EXPECT_EQ(program.Wait(), 1);
    EXPECT_THAT(program.output(), HasSubstr("--device cuda: LibTorch sees no GPU"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExampleProgramsTest, ::testing::Values(kCifar, kNcf, kTransformer),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace examples
