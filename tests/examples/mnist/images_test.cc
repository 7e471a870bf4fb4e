#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "examples/mnist/drawn_digits.h"
#include "examples/mnist/idx_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnist {
namespace {

using ::testing::HasSubstr;

class IdxFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "adaptdl-idx-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string Number(uint32_t value) {
    return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
            static_cast<char>(value)};
  }
  void Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
  }
  void WritePair(uint32_t count, size_t image_bytes, const std::string& labels) {
    Write("t10k-images-idx3-ubyte",
          Number(0x803) + Number(count) + Number(28) + Number(28) + std::string(image_bytes, '\x07'));
    Write("t10k-labels-idx1-ubyte", Number(0x801) + Number(count) + labels);
  }

  std::string folder_;
  std::string error_;
};

TEST_F(IdxFileTest, ReadsPlainFiles) {
  WritePair(2, 2 * 784, std::string("\x03\x09", 2));
  const LabelledImages images = ReadIdxPair(folder_, "t10k", &error_);
  EXPECT_EQ(error_, "");
  EXPECT_THAT(images.labels, ::testing::ElementsAre(3, 9));
  ASSERT_EQ(images.pixels.size(), 2 * 784u);
  EXPECT_EQ(images.pixels[783], 7);
}

TEST_F(IdxFileTest, ReadsTheRealOnes) {
  const std::string folder = std::string(ADAPTDL_SOURCE_DIR) + "/../shared/data/mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const LabelledImages images = ReadIdxPair(folder, "t10k", &error_);
  EXPECT_EQ(error_, "");
  EXPECT_EQ(images.labels.size(), 10'000u);
  EXPECT_EQ(images.labels[0], 7);
}

TEST_F(IdxFileTest, NamesTheFileThatIsWrong) {
  ReadIdxPair(folder_, "t10k", &error_);
  EXPECT_THAT(error_, HasSubstr("no t10k-images-idx3-ubyte"));
  WritePair(2, 2 * 784 - 1, std::string(2, '\0'));
  ReadIdxPair(folder_, "t10k", &error_);
  EXPECT_THAT(error_, HasSubstr("t10k-images-idx3-ubyte is cut short"));
  WritePair(2, 2 * 784, std::string("\x03\x0b", 2));
  ReadIdxPair(folder_, "t10k", &error_);
  EXPECT_THAT(error_, HasSubstr("label 11"));
  WritePair(4'000'000'000u, 0, "");
  ReadIdxPair(folder_, "t10k", &error_);
  EXPECT_THAT(error_, HasSubstr("4000000000 images"));
  Write("t10k-images-idx3-ubyte", "not IDX at all");
  ReadIdxPair(folder_, "t10k", &error_);
  EXPECT_THAT(error_, HasSubstr("magic number"));
}

TEST(DrawDigits, IsDeterministicBySeed) {
  const LabelledImages images = DrawDigits(50, 1);
  EXPECT_EQ(images.pixels, DrawDigits(50, 1).pixels);
  EXPECT_EQ(images.labels, DrawDigits(50, 1).labels);
  EXPECT_NE(images.pixels, DrawDigits(50, 2).pixels);
  for (uint8_t label : images.labels) EXPECT_LE(label, 9);
}

TEST(MnistExample, BecomesElasticByAtMostFifteenChangedLines) {
  const std::string folder = std::string(ADAPTDL_SOURCE_DIR) + "/examples/mnist/";
  const std::string command = "diff " + folder + "mnist_plain.cc " + folder + "mnist_elastic.cc";
  std::FILE* diff = popen(command.c_str(), "r");
  ASSERT_NE(diff, nullptr);
  int changed = 0;
  char line[1024];
  while (std::fgets(line, sizeof(line), diff) != nullptr) changed += line[0] == '<' || line[0] == '>';
  pclose(diff);
  EXPECT_GT(changed, 0);
  // Lines taken out and lines put in, each counted.
  EXPECT_LE(changed, 15);
}

}  // namespace
}  // namespace mnist
