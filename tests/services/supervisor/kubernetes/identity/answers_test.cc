#include "services/supervisor/kubernetes/identity/answers.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

constexpr absl::Duration kLifetime = absl::Seconds(10);
constexpr absl::Duration kMemory = absl::Minutes(10);
const absl::Time kStart = absl::FromUnixSeconds(1000);

TEST(AnswersTest, CountForALifetimeAndAreRecalledForLonger) {
  Answers<int> answers(10, kLifetime, kMemory);
  answers.Keep("a", 1, kStart);
  EXPECT_EQ(*answers.Find("a", kStart + kLifetime - absl::Nanoseconds(1)), 1);
  EXPECT_EQ(answers.Find("a", kStart + kLifetime), nullptr);
  EXPECT_EQ(*answers.Recall("a", kStart + kLifetime), 1);
  EXPECT_EQ(answers.Recall("a", kStart + kMemory), nullptr);
  EXPECT_EQ(answers.Find("b", kStart), nullptr);
}

TEST(AnswersTest, TheNewestOneCounts) {
  Answers<int> answers(10, kLifetime, kMemory);
  answers.Keep("a", 1, kStart);
  answers.Keep("a", 2, kStart + kLifetime);
  EXPECT_EQ(*answers.Find("a", kStart + kLifetime), 2);
}

TEST(AnswersTest, AreNeverMoreThanTheMost) {
  Answers<int> answers(3, kLifetime, kMemory);
  for (int i = 0; i < 100; ++i) {
    answers.Keep(absl::StrCat(i), i, kStart);
    EXPECT_LE(answers.size(), 3u);
    EXPECT_EQ(*answers.Find(absl::StrCat(i), kStart), i);
  }
}

TEST(AnswersTest, ThoseThatAreOverMakeRoomFirst) {
  Answers<int> answers(2, kLifetime, kMemory);
  answers.Keep("old", 1, kStart);
  answers.Keep("young", 2, kStart + kLifetime);
  answers.Keep("new", 3, kStart + kMemory);
  EXPECT_EQ(answers.size(), 2u);
  EXPECT_NE(answers.Recall("young", kStart + kMemory), nullptr);
}

}  // namespace
}  // namespace adaptdl::supervisor
