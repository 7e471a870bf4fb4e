// The program itself, as a user starts it.

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/simulator/toy.h"

namespace adaptdl::simulator {
namespace {

using testing::HasSubstr;

struct Outcome {
  int status = 0;
  std::string output;  // both streams
};

class CommandLineTest : public ToyTest {
 protected:
  Outcome Run(const std::string& arguments) const {
    const std::string command = std::string(ADAPTDL_BINARY_DIR) + "/bin/adaptdl-sim replay --workload " +
                                (folder_ / "workload.csv").string() + " --traces " + folder_.string() + " " +
                                arguments + " 2>&1";
    FILE* pipe = ::popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    Outcome outcome;
    std::array<char, 4096> buffer;
    for (size_t read = 0; (read = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
      outcome.output.append(buffer.data(), read);
    }
    outcome.status = ::pclose(pipe);
    return outcome;
  }
};

TEST_F(CommandLineTest, OptionsReachTheSimulation) {
  Load({"a,10"});
  const Outcome rounds = Run("--cluster 1x4 --policy tiresias --round 2m --restart 1s -o json");
  ASSERT_EQ(rounds.status, 0) << rounds.output;
  EXPECT_EQ(nlohmann::json::parse(rounds.output)["jcts"]["a"], 110 + 1 + 300);
  const Outcome events = Run(
      "--cluster 1x4 --policy tiresias --round events --debounce 500ms --restart per-application -o json");
  ASSERT_EQ(events.status, 0) << events.output;
  EXPECT_NEAR(nlohmann::json::parse(events.output)["jcts"]["a"].get<double>(), 0.5 + 30 + 300, 1e-6);
}

TEST_F(CommandLineTest, RestartsMayCostWhatWasRecorded) {
  Load({"a,0"});
  Write("pauses.json", R"({"pause_s": [7]})");
  const std::string file = " --restart-times " + (folder_ / "pauses.json").string();
  const Outcome outcome = Run("--cluster 1x4 --policy tiresias --restart measured -o json" + file);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(nlohmann::json::parse(outcome.output)["jcts"]["a"], 60 + 7 + 300);
  EXPECT_THAT(Run("--policy tiresias --restart measured").output,
              HasSubstr("--restart: \"measured\" needs --restart-times FILE"));
  EXPECT_THAT(Run("--policy tiresias --restart 30s" + file).output,
              HasSubstr("write --restart measured to use the file"));
}

TEST_F(CommandLineTest, NodesMayFailScaleAndCost) {
  Load({"a,0", "b,0"});
  const Outcome outcome =
      Run("--cluster 1x1 --policy goodput --autoscale 1..2 --node-start 60s --node-mtbf 1h "
          "--checkpoint-period 30s "
          "--price 36 -o json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const nlohmann::json json = nlohmann::json::parse(outcome.output);
  EXPECT_NEAR(json["cost"].get<double>(), json["node_hours"].get<double>() * 36, 1e-6);
  EXPECT_GE(json["node_failures"], 0);
  EXPECT_TRUE(json.contains("lost_work_s"));
  EXPECT_THAT(Run("--cluster 1x1 --policy goodput --node-mtbf 1h -o csv").output,
              HasSubstr("finish_time_fairness,failures,lost_work_s\na,toy,"));
  EXPECT_THAT(Run("--cluster 1x1 --policy goodput --price 36").output, HasSubstr(" node hours, cost "));

  const nlohmann::json plain = nlohmann::json::parse(Run("--cluster 1x1 --policy goodput -o json").output);
  EXPECT_FALSE(plain.contains("cost") || plain.contains("node_hours") || plain.contains("node_failures"));
  EXPECT_THAT(Run("--cluster 4x1 --policy goodput --autoscale 1..2").output,
              HasSubstr("--autoscale: \"1..2\" does not contain the 4 nodes"));
  EXPECT_THAT(Run("--cluster 1x1 --policy optimus --autoscale 1..2").output,
              HasSubstr("--autoscale: this policy does not say"));
  EXPECT_THAT(Run("--policy goodput --spot-price 3").output, HasSubstr("--spot-price: it needs --price"));
  EXPECT_THAT(Run("--policy goodput --node-mtbf often").output, HasSubstr("\"often\" is no duration"));
}

TEST_F(CommandLineTest, TheCourseOfAWatchedJobIsRecorded) {
  Load({"a,10", "b,10"});
  const Outcome outcome = Run("--cluster 1x4 --policy goodput --watch a -o json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const nlohmann::json watched = nlohmann::json::parse(outcome.output)["watched"];
  ASSERT_FALSE(watched.empty());
  // The toy's gradients have no noise.
  EXPECT_EQ(watched[0]["noise_scale"], 0);
  EXPECT_GE(watched[0]["gpus"], 1);
  EXPECT_GE(watched[0]["batch_size"], 100);
  EXPECT_LT(watched[0]["time_s"], watched.back()["time_s"]);

  const Outcome nobody = Run("--cluster 1x4 --policy goodput --watch c -o json");
  EXPECT_NE(nobody.status, 0);
  EXPECT_THAT(nobody.output, HasSubstr("no job of the workload is c"));
}

TEST_F(CommandLineTest, WrongUseIsExplained) {
  Load({"a,10"});
  const Outcome round = Run("--policy tiresias --round soon");
  EXPECT_NE(round.status, 0);
  EXPECT_THAT(round.output, HasSubstr("\"soon\" is neither a duration like 60s nor \"events\""));
  const Outcome policy = Run("--policy magic");
  EXPECT_NE(policy.status, 0);
  EXPECT_THAT(policy.output, HasSubstr("there is no policy \"magic\"; choose one of"));
}

}  // namespace
}  // namespace adaptdl::simulator
