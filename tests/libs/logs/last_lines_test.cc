#include "libs/logs/last_lines.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace adaptdl::logs {
namespace {

v1::LogLine Entry(const std::string& text, bool partial = false,
                  v1::LogSource source = v1::LOG_SOURCE_STDOUT) {
  v1::LogLine line;
  line.set_text(text);
  line.set_partial(partial);
  line.set_source(source);
  return line;
}

std::string TakeAll(LastLines* last) {
  Lines lines;
  last->TakeAll(&lines);
  std::string texts;
  for (const v1::LogLine& line : lines) absl::StrAppend(&texts, line.text(), "|");
  return texts;
}

TEST(LastLinesTest, KeepsSoMany) {
  LastLines last(2);
  EXPECT_EQ(TakeAll(&last), "");
  for (const char* text : {"a", "b", "c"}) last.Add(Entry(text));
  EXPECT_EQ(TakeAll(&last), "b|c|");
  EXPECT_EQ(TakeAll(&last), "");
}

TEST(LastLinesTest, PartsAreOneLineAndGoTogether) {
  LastLines last(2);
  last.Add(Entry("a1", true));
  last.Add(Entry("x", false, v1::LOG_SOURCE_STDERR));
  last.Add(Entry("a2"));
  EXPECT_EQ(TakeAll(&last), "a1|x|a2|");
  last.Add(Entry("a1", true));
  last.Add(Entry("x", false, v1::LOG_SOURCE_STDERR));
  last.Add(Entry("a2"));
  last.Add(Entry("b"));
  EXPECT_EQ(TakeAll(&last), "x|b|");
}

TEST(LastLinesTest, HoldsNoMoreThanSoManyBytes) {
  LastLines last(1'000'000, 100'000);
  for (int i = 0; i < 100; ++i) last.Add(Entry(std::string(10'000, 'x')));
  last.Add(Entry("end"));
  const std::string texts = TakeAll(&last);
  EXPECT_LE(texts.size(), 100'000u);
  EXPECT_GE(texts.size(), 80'000u);
  EXPECT_EQ(texts.substr(texts.size() - 5), "|end|");
}

}  // namespace
}  // namespace adaptdl::logs
