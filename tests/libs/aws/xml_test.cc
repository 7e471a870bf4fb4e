#include "libs/aws/xml.h"

#include <string>

#include "gtest/gtest.h"

namespace adaptdl::aws {
namespace {

TEST(XmlTest, ReadsWhatIsThereAndNothingWhereNothingIs) {
  const auto answer = ParseXml(
      "<?xml version=\"1.0\"?><Answer xmlns=\"http://x/\"><set><item><id>i-1</id><n>7</n></item>"
      "<item><id>i-2</id></item><other/></set><text>a &lt; b</text></Answer>");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->name(), "Answer");
  EXPECT_EQ(answer->Text("text"), "a < b");
  const auto items = answer->Items("set");
  ASSERT_EQ(items.size(), 2);
  EXPECT_EQ(items[0].Text("id"), "i-1");
  EXPECT_EQ(items[0].Integer("n"), 7);
  EXPECT_EQ(items[1].Integer("n"), 0);
  EXPECT_EQ(answer->Text("set/nothing/at/all"), "");
  EXPECT_FALSE(answer->At("nothing"));
  EXPECT_TRUE(answer->Items("nothing").empty());
  EXPECT_EQ(XmlElement().Text("a"), "");
}

TEST(XmlTest, RefusesWhatIsNone) {
  for (const char* text : {"", "{}", "<a>", "<a></b>", "<!-- -->"})
    EXPECT_EQ(ParseXml(text).status().code(), absl::StatusCode::kUnknown) << text;
}

TEST(XmlTest, GrowsNotByEntities) {
  const auto answer = ParseXml("<!DOCTYPE a [<!ENTITY b \"cccccccccc\">]><a>&b;&b;</a>");
  EXPECT_LE(answer.ok() ? answer->Text().size() : 0, 6);
}

TEST(XmlTest, TakesElementsAsDeepAsTheyCome) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "<a>";
  for (int i = 0; i < 200'000; ++i) text += "</a>";
  const auto answer = ParseXml(text);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->Text(), "");
}

}  // namespace
}  // namespace adaptdl::aws
