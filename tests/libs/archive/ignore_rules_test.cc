// The rules of gitignore(5), each with what it leaves out and what not.

#include "libs/archive/ignore_rules.h"

#include <string>

#include "gtest/gtest.h"

namespace adaptdl::archive {
namespace {

struct Case {
  const char* rules;
  const char* path;
  bool is_folder;
  bool ignored;
};

class IgnoreRulesTest : public testing::TestWithParam<Case> {};

TEST_P(IgnoreRulesTest, DecidesAsGitDoes) {
  const Case& c = GetParam();
  EXPECT_EQ(IgnoreRules::Below(nullptr, "", c.rules)->Ignores(c.path, c.is_folder), c.ignored)
      << c.rules << " / " << c.path;
}

INSTANTIATE_TEST_SUITE_P(
    Rules, IgnoreRulesTest,
    testing::Values(Case{"*.bin", "a.bin", false, true}, Case{"*.bin", "deep/er/a.bin", false, true},
                    Case{"*.bin", "a.binary", false, false}, Case{"data", "data", false, true},
                    Case{"data", "x/data", true, true}, Case{"data/", "data", false, false},
                    Case{"data/", "x/data", true, true}, Case{"/data", "data", true, true},
                    Case{"/data", "x/data", true, false}, Case{"x/data", "x/data", true, true},
                    Case{"x/data", "y/x/data", true, false}, Case{"**/data", "y/x/data", true, true},
                    Case{"**/data", "data", true, true}, Case{"a/**/b", "a/b", false, true},
                    Case{"a/**/b", "a/x/y/b", false, true}, Case{"a/**/b", "c/a/b", false, false},
                    Case{"a/**", "a/x", false, true}, Case{"a/**", "a", true, false},
                    Case{"a/*", "a/x/y", false, false}, Case{"# no rule", "# no rule", false, false},
                    Case{"\\#yes", "#yes", false, true}, Case{"\\!yes", "!yes", false, true},
                    Case{"trailing   ", "trailing", false, true}, Case{"kept\\ ", "kept ", false, true},
                    Case{"windows\r", "windows", false, true},
                    Case{"*.log\n!keep.log", "keep.log", false, false},
                    Case{"!keep.log\n*.log", "keep.log", false, true}, Case{"a?c", "abc", false, true},
                    Case{"a?c", "ac", false, false}, Case{"[a-c]x", "bx", false, true},
                    Case{"[!a-c]x", "bx", false, false}, Case{"[^a-c]x", "dx", false, true},
                    Case{"[]]x", "]x", false, true}, Case{"[[:digit:]]x", "7x", false, true},
                    Case{"[[:digit:]]x", "ax", false, false}, Case{"[open", "[open", false, false},
                    Case{"a*b*c", "axxbyyc", false, true}, Case{"a*b*c", "axxbyy", false, false},
                    Case{"/", "x", true, false}, Case{"", "x", false, false},
                    Case{"\xef\xbb\xbfmarked", "marked", false, true}));

TEST(IgnoreRulesFilesTest, FilesFurtherDownStandAboveThoseFurtherUp) {
  const auto outer = IgnoreRules::Below(nullptr, "", "*.txt");
  const auto inner = IgnoreRules::Below(outer, "sub", "!*.txt\n/only");
  EXPECT_TRUE(inner->Ignores("a.txt", false));
  EXPECT_FALSE(inner->Ignores("sub/a.txt", false));
  EXPECT_TRUE(inner->Ignores("sub/only", false));
  EXPECT_FALSE(inner->Ignores("sub/sub/only", false));
  EXPECT_FALSE(inner->Ignores("subway/only", false));
}

TEST(IgnoreRulesFilesTest, TheRuleThatLeavesAFileOutIsNamed) {
  const auto outer = IgnoreRules::Below(IgnoreRules::BuiltIn(), "", "# data\n\n*.bin\n", ".gitignore");
  const auto inner = IgnoreRules::Below(outer, "sub", "!*.bin\n/only/", ".adaptdlignore");
  EXPECT_EQ(inner->WhyIgnored("a.bin", false), ".gitignore:3: *.bin");
  EXPECT_EQ(inner->WhyIgnored("sub/only", true), "sub/.adaptdlignore:2: /only/");
  EXPECT_EQ(inner->WhyIgnored("sub/__pycache__", true), "built in: __pycache__/");
  EXPECT_EQ(inner->WhyIgnored("sub/a.bin", false), "");
  EXPECT_EQ(inner->WhyIgnored("train.py", false), "");
}

TEST(IgnoreRulesFilesTest, LeavesOutWhatNoJobNeeds) {
  const auto rules = IgnoreRules::BuiltIn();
  EXPECT_TRUE(rules->Ignores(".git", true));
  EXPECT_TRUE(rules->Ignores("pkg/__pycache__", true));
  EXPECT_TRUE(rules->Ignores("pkg/a.pyc", false));
  EXPECT_FALSE(rules->Ignores(".gitignore", false));
  EXPECT_FALSE(rules->Ignores("train.py", false));
}

// A rule that takes others exponential time.
TEST(IgnoreRulesFilesTest, ManyStarsTakeNoLongerThanFew) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  std::string folders;
  for (int i = 0; i < 100; ++i) folders += "**/";
  const auto rules = IgnoreRules::Below(nullptr, "", pattern + "b\n" + folders + "b");
  EXPECT_FALSE(rules->Ignores(std::string(250, 'a'), false));
  std::string deep;
  for (int i = 0; i < 120; ++i) deep += "a/";
  EXPECT_FALSE(rules->Ignores(deep + "a", false));
  EXPECT_TRUE(rules->Ignores(deep + "b", false));
}

}  // namespace
}  // namespace adaptdl::archive
