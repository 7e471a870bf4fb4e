#include "libs/logs/line_filter.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace adaptdl::logs {
namespace {

v1::LogLine Line(const std::string& text, int second = 0, bool partial = false,
                 v1::LogSource source = v1::LOG_SOURCE_STDOUT) {
  v1::LogLine line;
  line.set_text(text);
  line.mutable_time()->set_seconds(second);
  line.set_partial(partial);
  line.set_source(source);
  return line;
}

std::unique_ptr<LineFilter> Filter(const std::string& pattern, absl::Time since = absl::InfinitePast()) {
  auto filter = LineFilter::Create(since, pattern);
  EXPECT_TRUE(filter.ok()) << filter.status();
  return filter.ok() ? *std::move(filter) : nullptr;
}

std::string Texts(const Lines& lines) {
  std::string texts;
  for (const v1::LogLine& line : lines) absl::StrAppend(&texts, line.text(), "|");
  return texts;
}

TEST(LineFilterTest, LeavesLinesSinceATimeWithThePattern) {
  const auto filter = Filter("los+ [0-9]", absl::FromUnixSeconds(5));
  Lines wanted;
  filter->Add(Line("loss 1", 4), &wanted);
  filter->Add(Line("loss 2", 5), &wanted);
  filter->Add(Line("accuracy", 6), &wanted);
  filter->Add(Line("the loss 3 of all", 7), &wanted);
  filter->Add(Line("\xff\xfe loss 4 \xff", 8), &wanted);
  filter->Finish(&wanted);
  EXPECT_EQ(Texts(wanted), "loss 2|the loss 3 of all|\xff\xfe loss 4 \xff|");
}

TEST(LineFilterTest, WithoutAPatternAllAreWanted) {
  const auto filter = Filter("");
  Lines wanted;
  filter->Add(Line("part ", 0, true), &wanted);
  filter->Add(Line("", 0), &wanted);
  EXPECT_EQ(Texts(wanted), "part ||");
}

TEST(LineFilterTest, APatternIsFoundAcrossThePartsOfALine) {
  const auto filter = Filter("error: disk");
  Lines wanted;
  filter->Add(Line("an err", 1, true), &wanted);
  filter->Add(Line("nothing", 1, true, v1::LOG_SOURCE_STDERR), &wanted);
  filter->Add(Line("or: di", 2, true), &wanted);
  filter->Add(Line(" at all", 2, false, v1::LOG_SOURCE_STDERR), &wanted);
  EXPECT_EQ(Texts(wanted), "");
  filter->Add(Line("sk", 3), &wanted);
  EXPECT_EQ(Texts(wanted), "an err|or: di|sk|");
  filter->Add(Line("error: disk, not ended", 4, true), &wanted);
  filter->Finish(&wanted);
  EXPECT_EQ(Texts(wanted), "an err|or: di|sk|error: disk, not ended|");
}

TEST(LineFilterTest, ALineIsAsOldAsItsBeginning) {
  const auto filter = Filter("", absl::FromUnixSeconds(5));
  Lines wanted;
  filter->Add(Line("old ", 4, true), &wanted);
  filter->Add(Line("line", 6), &wanted);
  filter->Add(Line("new", 6), &wanted);
  EXPECT_EQ(Texts(wanted), "new|");
}

TEST(LineFilterTest, ALineWithoutEndGoesByItsBeginning) {
  for (const bool begins_well : {true, false}) {
    const auto filter = Filter("needle");
    Lines wanted;
    const std::string hay(16 << 10, '.');
    if (begins_well) filter->Add(Line("needle", 1, true), &wanted);
    for (int i = 0; i < 64; ++i) filter->Add(Line(hay, 1, true), &wanted);
    filter->Add(Line("needle", 1, true), &wanted);
    filter->Add(Line("end", 1), &wanted);
    EXPECT_EQ(wanted.size(), begins_well ? 67 : 0);
    // The next one is another.
    filter->Add(Line("a needle", 2), &wanted);
    EXPECT_EQ(wanted.size(), begins_well ? 68 : 1);
  }
}

TEST(LineFilterTest, RefusesPatternsThatAreNoneOrTakeTooMuch) {
  EXPECT_TRUE(CheckPattern("").ok());
  EXPECT_TRUE(CheckPattern("^(epoch|step) \\d+").ok());
  EXPECT_TRUE(CheckPattern(std::string(kMaxPattern, 'x')).ok());
  for (const std::string& pattern :
       {std::string("("), std::string("a{2000}"), std::string("((a{100}){100}){100}"), std::string("(?<=a)b"),
        std::string(kMaxPattern + 1, 'x'), std::string("(\\pL{500}){1,3}")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckPattern(pattern))) << pattern.substr(0, 40);
  }
  // Nothing grows with the square of the line.
  const auto filter = Filter("(a*)*b");
  EXPECT_FALSE(filter->Wants(absl::InfiniteFuture(), std::string(1 << 20, 'a')));
}

}  // namespace
}  // namespace adaptdl::logs
