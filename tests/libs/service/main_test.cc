#include "libs/service/main.h"
#include "libs/service/log_writer.h"

#include <signal.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/service/server.h"

namespace adaptdl::service {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Outcome {
  int code;
  std::string out;
  std::string error;
};

Outcome Main(std::vector<std::string> arguments, const std::function<absl::Status()>& run) {
  CLI::App app{"A program for tests"};
  ServerOptions options;
  options.name = "tester";
  AddServerFlags(app, &options);
  int count = 0;
  app.add_option("--count", count, "A number");
  arguments.insert(arguments.begin(), "adaptdl-tester");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code = RunMain(app, static_cast<int>(argv.size()), argv.data(), run);
  EXPECT_TRUE(log::Flush(absl::Seconds(30)));
  const std::string error = ::testing::internal::GetCapturedStderr();
  return {code, ::testing::internal::GetCapturedStdout(), error};
}

const auto kMustNotRun = [] {
  ADD_FAILURE() << "ran in spite of the flags";
  return absl::OkStatus();
};

TEST(RunMainTest, ReturnsZeroWhenAllWentWell) {
  EXPECT_EQ(Main({}, [] { return absl::OkStatus(); }).code, 0);
}

TEST(RunMainTest, AFailureIsTold) {
  const Outcome outcome = Main({}, [] { return absl::UnavailableError("the port is taken"); });
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("the port is taken"));
}

TEST(RunMainTest, FlagsThatContradictEachOtherAreAUsageError) {
  EXPECT_EQ(Main({}, [] { return absl::InvalidArgumentError("--min over --max"); }).code, 2);
}

TEST(RunMainTest, AWrongFlagEndsWithTwoAndItsName) {
  const Outcome unknown = Main({"--no-such-flag"}, kMustNotRun);
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.error, AllOf(HasSubstr("--no-such-flag"), HasSubstr("--help")));
  EXPECT_THAT(Main({"--cuont=3"}, kMustNotRun).error, HasSubstr("did you mean --count?"));
  const Outcome wrong = Main({"--count", "many"}, kMustNotRun);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.error, AllOf(HasSubstr("--count"), HasSubstr("many")));
}

TEST(RunMainTest, AWrongVariableIsNamed) {
  setenv("ADAPTDL_SERVER_COUNT", "many", 1);
  const Outcome outcome = Main({}, kMustNotRun);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.error, HasSubstr("environment variable ADAPTDL_SERVER_COUNT"));
  EXPECT_EQ(Main({"--count", "3"}, [] { return absl::OkStatus(); }).code, 0);
  EXPECT_THAT(Main({"--count=several"}, kMustNotRun).error,
              ::testing::Not(HasSubstr("ADAPTDL_SERVER_COUNT")));
  unsetenv("ADAPTDL_SERVER_COUNT");
}

TEST(RunMainTest, TellsItsVersionAndItsFlags) {
  const Outcome version = Main({"--version"}, kMustNotRun);
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, HasSubstr("adaptdl-tester 0."));
  const Outcome help = Main({"--help"}, kMustNotRun);
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out,
              AllOf(HasSubstr("--listen"), HasSubstr("ADAPTDL_SERVER_DRAIN_TIMEOUT"), HasSubstr("--count")));
}

TEST(RunMainTest, RunsWithTheTerminationSignalsBlocked) {
  Main({}, [] {
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    EXPECT_TRUE(sigismember(&blocked, SIGTERM));
    EXPECT_TRUE(sigismember(&blocked, SIGINT));
    return absl::OkStatus();
  });
}

TEST(RunMainTest, LogsAreSetUpBeforeTheProgramRuns) {
  const Outcome outcome = Main({"--log-format", "json"}, [] { return absl::InternalError("broken"); });
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("\"message\":\"broken\""), HasSubstr("\"service\":\"tester\""),
                                   HasSubstr("\"code\":\"INTERNAL\"")));
}

}  // namespace
}  // namespace adaptdl::service
