#include "libs/elastic/control/trial_params.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "adaptdl/trial.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::elastic {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<TrialParams> ReadTrial(const std::map<std::string, std::string>& variables) {
  return ReadTrialParams([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TrialParams SomeTrial() {
  const auto params = ReadTrial(
      {{"ADAPTDL_TRIAL_PARAMS",
        R"({"lr": 0.1, "layers": 3, "width": 64.0, "rule": "adascale", "warm": true, "decay": null})"},
       {"ADAPTDL_TRIAL_NUMBER", "7"},
       {"ADAPTDL_TRIAL_SEARCH", "digits"}});
  EXPECT_TRUE(params.ok()) << params.status();
  return *params;
}

TEST(TrialParams, HaveValuesOfTheirKind) {
  const TrialParams params = SomeTrial();
  EXPECT_EQ(params.search, "digits");
  EXPECT_EQ(params.number, 7);
  EXPECT_EQ(*NumberOf(params, "lr", 1), 0.1);
  EXPECT_EQ(*NumberOf(params, "layers", 1), 3.0);
  EXPECT_EQ(*IntegerOf(params, "layers", 1), 3);
  EXPECT_EQ(*IntegerOf(params, "width", 1), 64);
  EXPECT_EQ(*TextOf(params, "rule", ""), "adascale");
  EXPECT_TRUE(*FlagOf(params, "warm", false));
}

TEST(TrialParams, AreTheDefaultWhereTheTrialHasNone) {
  const TrialParams params = SomeTrial();
  EXPECT_EQ(*NumberOf(params, "momentum", 0.9), 0.9);
  EXPECT_EQ(*NumberOf(params, "decay", 0.5), 0.5);  // a choice that is none
  const auto none = ReadTrial({});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->number, 0);
  EXPECT_EQ(*TextOf(*none, "rule", "linear"), "linear");
}

TEST(TrialParams, OfAnotherKindSayWhichAndWhatToDo) {
  const TrialParams params = SomeTrial();
  EXPECT_THAT(
      std::string(NumberOf(params, "rule", 1).status().message()),
      HasSubstr("the parameter \"rule\" of trial 7 of the search \"digits\" is the text \"adascale\", "
                "and the program asks for a number: change"));
  EXPECT_FALSE(IntegerOf(params, "lr", 1).ok());
  EXPECT_FALSE(IntegerOf(params, "warm", 1).ok());
  EXPECT_FALSE(TextOf(params, "layers", "").ok());
  EXPECT_FALSE(FlagOf(params, "layers", true).ok());
}

TEST(TrialParams, ThatAreNoneAreRefused) {
  for (const char* text : {"[1]", "{", "3", R"({"lr": [1, 2]})"}) {
    const auto params = ReadTrial({{"ADAPTDL_TRIAL_PARAMS", text}});
    EXPECT_EQ(params.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(params.status().message()), HasSubstr("ADAPTDL_TRIAL_PARAMS"));
  }
  EXPECT_THAT(std::string(ReadTrial({{"ADAPTDL_TRIAL_NUMBER", "0"}}).status().message()),
              HasSubstr("ADAPTDL_TRIAL_NUMBER=\"0\": give a whole number from 1"));
}

TEST(TrialParamsDeathTest, OfAnotherKindEndTheProgram) {
  const auto ask = [] {
    setenv("ADAPTDL_TRIAL_PARAMS", R"({"lr": "much"})", 1);  // NOLINT(concurrency-mt-unsafe): the only thread
    trial::Number("lr", 0.1);
  };
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(1), "the parameter \"lr\"");
  EXPECT_EQ(trial::Number("lr", 0.1), 0.1);
  EXPECT_EQ(trial::TrialNumber(), 0);
  EXPECT_FALSE(trial::Has("lr"));
}

}  // namespace
}  // namespace adaptdl::elastic
