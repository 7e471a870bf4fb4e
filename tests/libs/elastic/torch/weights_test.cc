#include "adaptdl/weights.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/temp_folder.h"
#include "torch/nn/modules/batchnorm.h"
#include "torch/nn/modules/linear.h"
#include "torch/utils.h"

namespace adaptdl {
namespace {

std::string OutputOf(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output.push_back(static_cast<char>(c));
  pclose(pipe);
  return output;
}

TEST(Weights, ReadBackWhatWasExported) {
  elastic::TempFolder folder;
  const std::string path = folder.path() + "/weights.safetensors";
  torch::nn::Linear model(3, 2);
  ASSERT_TRUE(ExportWeights(*model, path));
  torch::nn::Linear other(3, 2);
  ASSERT_TRUE(ImportWeights(*other, path));
  EXPECT_TRUE(torch::equal(other->weight, model->weight));
  EXPECT_TRUE(torch::equal(other->bias, model->bias));
}

TEST(Weights, SayWhatCannotBeWrittenOrRead) {
  elastic::TempFolder folder;
  torch::nn::Linear model(3, 2);
  EXPECT_FALSE(ExportWeights(*model, folder.path() + "/missing/weights.safetensors"));
  EXPECT_FALSE(ImportWeights(*model, folder.path() + "/missing"));
  std::ofstream(folder.path() + "/other") << "not weights";
  EXPECT_FALSE(ImportWeights(*model, folder.path() + "/other"));
}

TEST(Weights, ArePythonsToo) {
  if (OutputOf("python3 -c 'print(1)'") != "1\n") GTEST_SKIP() << "python3 is not installed";
  elastic::TempFolder folder;
  const std::string path = folder.path() + "/weights.safetensors";
  torch::nn::BatchNorm1d model(2);
  {
    torch::NoGradGuard no_gradients;
    model->weight.copy_(torch::tensor({1.5, -2.0}));
    model->running_var.copy_(torch::tensor({0.25, 8.0}));
    model->num_batches_tracked.fill_(7);
  }
  ASSERT_TRUE(ExportWeights(*model, path));
  EXPECT_EQ(OutputOf("python3 " ADAPTDL_SOURCE_DIR "/tests/libs/elastic/torch/read_safetensors.py " + path),
            "bias F32 [2] [0.0, 0.0]\n"
            "num_batches_tracked I64 [] [7.0]\n"
            "running_mean F32 [2] [0.0, 0.0]\n"
            "running_var F32 [2] [0.25, 8.0]\n"
            "weight F32 [2] [1.5, -2.0]\n");
}

}  // namespace
}  // namespace adaptdl
