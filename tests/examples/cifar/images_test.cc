#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "examples/cifar/cifar_file.h"
#include "examples/cifar/drawn_images.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cifar {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CifarFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".bin";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void Write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string ErrorOf(const std::string& bytes) {
    Write(bytes);
    std::string error;
    AppendCifarFile(path_, &images_, &error);
    return error;
  }

  std::string path_;
  LabelledImages images_;
};

std::string Record(char label, char pixel) { return label + std::string(kImageBytes, pixel); }

TEST_F(CifarFileTest, RecordsAreAppended) {
  EXPECT_EQ(ErrorOf(Record(3, 'a') + Record(9, 'b')), "");
  EXPECT_EQ(ErrorOf(Record(0, 'c')), "");
  EXPECT_THAT(images_.labels, ElementsAre(3, 9, 0));
  ASSERT_EQ(images_.pixels.size(), 3 * kImageBytes);
  EXPECT_EQ(images_.pixels[0], 'a');
  EXPECT_EQ(images_.pixels[kImageBytes], 'b');
  EXPECT_EQ(images_.pixels.back(), 'c');
}

TEST_F(CifarFileTest, OtherFilesAreRefusedWithTheirName) {
  EXPECT_THAT(ErrorOf(Record(3, 'a') + "x"), HasSubstr(path_ + " has 3074 bytes"));
  EXPECT_THAT(ErrorOf(Record(3, 'a') + Record(10, 'a')), HasSubstr("has the label 10"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("cannot be read"));
  EXPECT_TRUE(images_.labels.empty());
  std::string error;
  AppendCifarFile(path_ + ".none", &images_, &error);
  EXPECT_THAT(error, HasSubstr("cannot be read"));
}

TEST(DrawnImagesTest, AreTheSameForTheSameSeedAndOfAllClasses) {
  const LabelledImages images = DrawImages(200, 7);
  EXPECT_EQ(images.pixels, DrawImages(200, 7).pixels);
  EXPECT_NE(images.pixels, DrawImages(200, 8).pixels);
  EXPECT_EQ(std::set<int>(images.labels.begin(), images.labels.end()).size(), kClasses);
}

}  // namespace
}  // namespace cifar
