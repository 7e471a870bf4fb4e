#include "libs/base/utf8.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace adaptdl {
namespace {

std::string Repeat(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

TEST(Utf8Test, KnowsWhatIsUtf8) {
  for (const char* good : {"", "a", "plain text of more than eight bytes", "é", "€", "😀", "\x7f",
                           "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF", "12345678é"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "12345678\xC3", "\xC3(", "a\xA9"}) {
    EXPECT_FALSE(IsUtf8(bad)) << bad;
  }
  EXPECT_TRUE(IsUtf8(std::string(3, '\0')));
}

TEST(Utf8Test, NeverCutsWithinACharacter) {
  for (const std::string character : {"a", "é", "€", "😀"}) {
    const std::string text = Repeat(character, 50);
    for (size_t limit = 0; limit <= text.size() + 1; ++limit) {
      const absl::string_view cut = CutUtf8(text, limit);
      EXPECT_TRUE(IsUtf8(cut)) << limit;
      EXPECT_LE(cut.size(), limit);
      EXPECT_GT(cut.size() + character.size(), std::min(limit, text.size()))
          << "as much as there is room for";
    }
  }
}

TEST(Utf8Test, TextThatIsNoneLosesAtMostThreeBytesMoreByTheCut) {
  const std::string text(100, '\x80');
  EXPECT_GE(CutUtf8(text, 50).size(), 47u);
  EXPECT_LE(CutUtf8(text, 50).size(), 50u);
}

TEST(Utf8Test, BytesThatAreNoCharacterAreReplaced) {
  EXPECT_EQ(ToUtf8("a\xC3z"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(ToUtf8("é\xFF"), "é\xEF\xBF\xBD");
  EXPECT_EQ(ToUtf8("unchanged é"), "unchanged é");
  EXPECT_EQ(ToUtf8("é", 1), "");
  EXPECT_EQ(ToUtf8("a\xFF", 3), "a") << "there is no room for the replacement";
}

TEST(Utf8Test, WhateverComesInGoesOutBoundedAndValid) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 40, '\0');
    for (char& c : text) c = static_cast<char>(random() % 2 == 0 ? random() : 0xC0 + random() % 64);
    const size_t limit = random() % 60;
    const std::string result = ToUtf8(text, limit);
    ASSERT_TRUE(IsUtf8(result));
    ASSERT_LE(result.size(), limit);
    if (IsUtf8(text) && text.size() <= limit) {
      ASSERT_EQ(result, text);
    }
  }
}

}  // namespace
}  // namespace adaptdl
