#include "examples/ncf/ratings.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ncf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Choice> Read(const std::string& text, std::string* error) {
  const std::string path = testing::TempDir() + "/ncf_ratings_test.txt";
  std::ofstream(path) << text;
  std::vector<Choice> choices = ReadChoices(path, error);
  std::filesystem::remove(path);
  return choices;
}

TEST(RatingsTest, ReadsTheUsualSeparators) {
  std::string error;
  const std::vector<Choice> expected = {{0, 0}, {1, 1}, {0, 1}};
  EXPECT_EQ(Read("196\t242\t3\t881250949\n7\t1\t3\t9\n196\t1\t5\t2\n", &error), expected);
  EXPECT_EQ(Read("196::242::3::881250949\n7::1::3::9\n196::1::5::2\n", &error), expected);
  EXPECT_EQ(Read("userId,movieId,rating\n196,242,3\n7,1,4.5\n196,1,5\n", &error), expected);
  EXPECT_EQ(error, "");
}

TEST(RatingsTest, AFileWithoutChoicesIsRefused) {
  std::string error;
  Read("nothing here\n", &error);
  EXPECT_THAT(error, HasSubstr("ncf_ratings_test.txt holds no users with several items"));
}

TEST(RatingsTest, TheLastChoiceOfEachUserIsTheTest) {
  const Ratings ratings({{0, 0}, {1, 1}, {0, 2}, {1, 3}, {0, 4}});
  EXPECT_EQ(ratings.users(), 2);
  EXPECT_EQ(ratings.items(), 5);
  EXPECT_THAT(ratings.train(), ElementsAre(Choice{0, 0}, Choice{1, 1}, Choice{0, 2}));
  EXPECT_THAT(ratings.test(), ElementsAre(Choice{1, 3}, Choice{0, 4}));
}

TEST(RatingsTest, NotChosenItemsAreNotChosenAndDiffer) {
  const Ratings ratings({{0, 0}, {1, 1}, {0, 2}, {1, 3}, {0, 4}, {1, 9}});
  std::set<int64_t> items;
  for (uint64_t draw = 0; draw < 100; ++draw) {
    items.insert(ratings.NotChosen(0, draw));
    EXPECT_EQ(ratings.NotChosen(0, draw), ratings.NotChosen(0, draw));
  }
  EXPECT_THAT(items, ElementsAre(1, 3, 5, 6, 7, 8, 9));
}

}  // namespace
}  // namespace ncf
