#include "libs/service/flags.h"

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

using ::testing::HasSubstr;

class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() {
    AddDurationFlag(app_, "--poll-period", &period_, "help", absl::Milliseconds(1));
    AddBytesFlag(app_, "--worker-memory", &memory_, "help", 1024);
    app_.add_option("--node-id", node_id_, "help");
    app_.add_option("--label", labels_, "help");
    app_.add_flag("--preemptible", preemptible_, "help");
    ReadAllFromEnvironment(app_);
  }

  ~FlagsTest() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
  }

  void Environment(const std::string& name, const std::string& value) {
    set_.push_back(name);
    setenv(name.c_str(), value.c_str(), 1);
  }

  // Empty: all well.
  std::string Parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());
    try {
      app_.parse(arguments);
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return "";
  }

  CLI::App app_{"test"};
  absl::Duration period_ = absl::Seconds(2);
  int64_t memory_ = 1 << 20;
  std::string node_id_ = "default";
  std::vector<std::string> labels_;
  bool preemptible_ = false;
  std::vector<std::string> set_;
};

TEST_F(FlagsTest, DefaultsStayWhenNothingIsSaid) {
  EXPECT_EQ(Parse({}), "");
  EXPECT_EQ(period_, absl::Seconds(2));
  EXPECT_EQ(memory_, 1 << 20);
  EXPECT_EQ(node_id_, "default");
}

TEST_F(FlagsTest, TheEnvironmentReplacesDefaults) {
  Environment("ADAPTDL_SERVER_POLL_PERIOD", "1h30m");
  Environment("ADAPTDL_SERVER_WORKER_MEMORY", "4Mi");
  Environment("ADAPTDL_SERVER_NODE_ID", "n1");
  Environment("ADAPTDL_SERVER_PREEMPTIBLE", "true");
  EXPECT_EQ(Parse({}), "");
  EXPECT_EQ(period_, absl::Minutes(90));
  EXPECT_EQ(memory_, 4 << 20);
  EXPECT_EQ(node_id_, "n1");
  EXPECT_TRUE(preemptible_);
}

TEST_F(FlagsTest, TheCommandLineWinsOverTheEnvironment) {
  Environment("ADAPTDL_SERVER_POLL_PERIOD", "1h");
  Environment("ADAPTDL_SERVER_NODE_ID", "n1");
  EXPECT_EQ(Parse({"--poll-period", "500ms", "--node-id=n2"}), "");
  EXPECT_EQ(period_, absl::Milliseconds(500));
  EXPECT_EQ(node_id_, "n2");
}

TEST_F(FlagsTest, AnEmptyVariableCountsAsAbsent) {
  Environment("ADAPTDL_SERVER_NODE_ID", "");
  Environment("ADAPTDL_SERVER_POLL_PERIOD", "");
  EXPECT_EQ(Parse({}), "");
  EXPECT_EQ(node_id_, "default");
  EXPECT_EQ(period_, absl::Seconds(2));
}

TEST_F(FlagsTest, AVariableOfAReplicaIsNotRead) {
  Environment("ADAPTDL_NODE_ID", "from-the-replica");
  EXPECT_EQ(Parse({}), "");
  EXPECT_EQ(node_id_, "default");
}

TEST_F(FlagsTest, AListIsWrittenInBracketsInTheEnvironment) {
  Environment("ADAPTDL_SERVER_LABEL", "[a=1,b=2]");
  EXPECT_EQ(Parse({}), "");
  EXPECT_THAT(labels_, ::testing::ElementsAre("a=1", "b=2"));
}

TEST_F(FlagsTest, BadDurationsAreRefusedWithFlagValueAndRemedy) {
  for (const std::string bad : {"60", "abc", "inf", "-inf", "5 parsecs", "1e400s"}) {
    const std::string error = Parse({"--poll-period", bad});
    EXPECT_THAT(error, HasSubstr("--poll-period")) << bad;
    EXPECT_THAT(error, HasSubstr("\"" + bad + "\"")) << bad;
    EXPECT_THAT(error, HasSubstr("60s")) << bad;
  }
  EXPECT_THAT(Parse({"--poll-period=-1s"}), HasSubstr("too short"));
  EXPECT_THAT(Parse({"--poll-period", "0"}), HasSubstr("too short"));
  EXPECT_EQ(period_, absl::Seconds(2));
}

TEST_F(FlagsTest, BadSizesAreRefused) {
  for (const std::string bad : {"many", "1x", "-1Gi", "1e3", "nan", ".", "99999999999Ti", " 1024"}) {
    EXPECT_THAT(Parse({"--worker-memory=" + bad}), HasSubstr("--worker-memory")) << bad;
  }
  EXPECT_THAT(Parse({"--worker-memory", "5"}), HasSubstr("too small"));
}

TEST(ParseBytesTest, KnowsTheUnitsOfKubernetes) {
  EXPECT_EQ(ParseBytes("0").value(), 0);
  EXPECT_EQ(ParseBytes("512").value(), 512);
  EXPECT_EQ(ParseBytes("512B").value(), 512);
  EXPECT_EQ(ParseBytes("2K").value(), 2000);
  EXPECT_EQ(ParseBytes("2Ki").value(), 2048);
  EXPECT_EQ(ParseBytes("1.5G").value(), 1'500'000'000);
  EXPECT_EQ(ParseBytes("3Ti").value(), int64_t{3} << 40);
}

TEST(ServerFlagsTest, FillTheOptions) {
  CLI::App app{"test"};
  ServerOptions options;
  options.name = "allocator";
  options.listen = "127.0.0.1:7101";
  AddServerFlags(app, &options);
  std::vector<std::string> arguments = {"--drain-timeout",   "3s",          "--reflection",
                                        "--log-format=json", "--log-level", "warning"};
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  EXPECT_EQ(options.listen, "127.0.0.1:7101");
  EXPECT_EQ(options.drain_timeout, absl::Seconds(3));
  EXPECT_TRUE(options.reflection);
  EXPECT_EQ(options.log_format, "json");
  EXPECT_EQ(options.log_level, "warning");
}

TEST(ServerFlagsTest, RefuseWhatDoesNotExist) {
  for (const std::string bad :
       {"--log-format=xml", "--log-level=loud", "--max-message-bytes=-1", "--no-such-flag"}) {
    CLI::App app{"test"};
    ServerOptions options;
    AddServerFlags(app, &options);
    EXPECT_THROW(app.parse(std::vector<std::string>{bad}), CLI::ParseError) << bad;
  }
}

}  // namespace
}  // namespace adaptdl::service
