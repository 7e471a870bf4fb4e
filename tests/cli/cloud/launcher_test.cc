#include "cli/cloud/launcher.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "tests/cli/cloud/cloud_test_file.h"
#include "tests/libs/aws/aws_fixture.h"
#include "tests/libs/http/test_server.h"

namespace adaptdl::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// As far as a launch sees it. Its handler and the test do not run at the same time.
class FakeAmazon {
 public:
  struct Machine {
    std::string state = "pending";
    std::string role = {};
    std::string pool = {};
  };

  FakeAmazon() : server_([this](Exchange& exchange) { Serve(exchange); }) {}

  std::string url() const { return server_.url(); }

  std::map<std::string, Machine> machines;
  std::string console;
  // Whether the head tells, and lets somebody in.
  bool tells = true;
  bool is_open = true;
  // A worker that is seen when the head has ended.
  bool has_late_worker = false;
  std::vector<std::string> calls;
  std::vector<std::string> tokens;

 private:
  void Serve(Exchange& exchange) {
    std::map<std::string, std::string> form;
    for (const absl::string_view pair : absl::StrSplit(exchange.request().body, '&')) {
      const std::pair<std::string, std::string> parts = absl::StrSplit(pair, absl::MaxSplits('=', 1));
      form[Decode(parts.first)] = Decode(parts.second);
    }
    const std::string action = form["Action"];
    calls.push_back(action);
    exchange.Answer(200, absl::StrCat("<A>", Answer(action, form), "</A>"));
  }

  static std::string Decode(const std::string& text) {
    std::string decoded;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%') {
        decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
        i += 2;
      } else {
        decoded += text[i];
      }
    }
    return decoded;
  }

  std::string Answer(const std::string& action, std::map<std::string, std::string>& form) {
    if (action == "DescribeInstances") return Describe();
    if (action == "RunInstances") return Run(form);
    if (action == "GetConsoleOutput")
      return absl::StrCat("<output>", absl::Base64Escape(console), "</output>");
    if (action == "TerminateInstances") {
      machines[form["InstanceId.1"]].state = "terminated";
      if (std::exchange(has_late_worker, false)) machines["i-late"] = {.state = "running", .pool = "spot"};
      return "";
    }
    if (action == "DescribeSecurityGroups" && is_open) {
      return "<securityGroupInfo><item><ipPermissions><item><ipProtocol>tcp</ipProtocol><fromPort>7000</"
             "fromPort>"
             "<toPort>8000</toPort><ipRanges><item><cidrIp>10.0.0.0/8</cidrIp></item></ipRanges></item></"
             "ipPermissions>"
             "</item></securityGroupInfo>";
    }
    if (action == "DescribeLaunchTemplates")
      return "<launchTemplates><item><launchTemplateName>adaptdl-x</launchTemplateName></item></"
             "launchTemplates>";
    return "";
  }

  std::string Run(std::map<std::string, std::string>& form) {
    tokens.push_back(form["ClientToken"]);
    machines["i-head"] = {.state = "pending", .role = form["TagSpecification.1.Tag.2.Value"]};
    std::string script;
    absl::Base64Unescape(form["UserData"], &script);
    const size_t begin = script.find("-----BEGIN CERTIFICATE-----");
    const std::string end = "-----END CERTIFICATE-----\n";
    const std::string recipient = script.substr(begin, script.find(end, begin) + end.size() - begin);
    if (tells)
      console = *Seal({.cluster = "demo", .authority = "the authority\n", .token = "the-token"}, recipient);
    return "<instancesSet><item><instanceId>i-head</instanceId></item></instancesSet>";
  }

  // Machines run from the second look on.
  std::string Describe() {
    std::string answer = "<reservationSet><item><instancesSet>";
    for (auto& [id, machine] : machines) {
      absl::StrAppend(&answer, "<item><instanceId>", id, "</instanceId><instanceState><name>", machine.state,
                      "</name></instanceState><privateIpAddress>10.0.0.5</privateIpAddress><tagSet>");
      if (!machine.role.empty())
        absl::StrAppend(&answer, "<item><key>adaptdl:role</key><value>", machine.role, "</value></item>");
      if (!machine.pool.empty())
        absl::StrAppend(&answer, "<item><key>adaptdl:pool</key><value>", machine.pool, "</value></item>");
      answer += "</tagSet></item>";
      if (machine.state == "pending") machine.state = "running";
    }
    return answer + "</instancesSet></item></reservationSet>";
  }

  TestServer server_;
};

class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    home_ = absl::StrCat(::testing::TempDir(), "/launcher-",
                         ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(home_);
    setenv("XDG_CONFIG_HOME", home_.c_str(), 1);
    cluster_ = *ParseClusterFile(kClusterText, "c.yaml");
  }
  ~LauncherTest() override { std::filesystem::remove_all(home_); }

  absl::StatusOr<std::optional<Profile>> Up(bool dry_run = false) {
    Ec2Machines ec2 = Machines(dry_run);
    return Launcher(cluster_, Parts(&ec2, dry_run)).Up();
  }
  absl::Status Down(bool dry_run = false) {
    Ec2Machines ec2 = Machines(dry_run);
    return Launcher(cluster_, Parts(&ec2, dry_run)).Down();
  }

  Ec2Machines Machines(bool dry_run) {
    return Ec2Machines({.cluster = "demo",
                        .region = "us-east-1",
                        .endpoint = amazon_.url(),
                        .dry_run = dry_run,
                        .tell = [this](const std::string& text) { told_.push_back(text); }},
                       {&http_, &credentials_, &clock_, &pauses_, [] { return 0.5; }});
  }
  LauncherParts Parts(Ec2Machines* ec2, bool dry_run) {
    return {.ec2 = ec2,
            .clock = &clock_,
            .pauses = &pauses_,
            .tell = [this](const std::string& text) { told_.push_back(text); },
            .dry_run = dry_run};
  }

  std::string home_;
  FakeAmazon amazon_;
  HttpClient http_{{}};
  aws::CountedCredentials credentials_;
  ManualClock clock_;
  aws::ManualPauses pauses_{&clock_};
  ClusterFile cluster_;
  std::vector<std::string> told_;
};

TEST_F(LauncherTest, MakesAHeadAndKeepsWhatItTells) {
  const auto profile = Up();
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_TRUE(profile->has_value());
  EXPECT_EQ((*profile)->head, "i-head");
  EXPECT_EQ((*profile)->supervisor, "10.0.0.5:7100");
  const auto mode = std::filesystem::status((*profile)->token_file).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(std::filesystem::status(*ProfileFolder("demo")).permissions(), std::filesystem::perms::owner_all);
}

TEST_F(LauncherTest, OneThatIsThereIsLeftAsItIs) {
  ASSERT_TRUE(Up().ok());
  amazon_.calls.clear();
  const auto again = Up();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->supervisor, "10.0.0.5:7100");
  EXPECT_THAT(amazon_.calls, ElementsAre("DescribeInstances"));
}

TEST_F(LauncherTest, CutShortItGoesOnWithTheSameToken) {
  amazon_.tells = false;
  EXPECT_TRUE(absl::IsDeadlineExceeded(Up().status()));
  // EC2 does not show it yet.
  amazon_.machines.clear();
  amazon_.tells = true;
  const auto again = Up();
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(amazon_.tokens.size(), 2u);
  EXPECT_EQ(amazon_.tokens[0], amazon_.tokens[1]);
}

TEST_F(LauncherTest, AHeadThatSomebodyElseHasLaunchedIsNotTaken) {
  ASSERT_TRUE(Up().ok());
  std::filesystem::remove_all(home_);
  const auto elsewhere = Up();
  EXPECT_TRUE(absl::IsPermissionDenied(elsewhere.status())) << elsewhere.status();
  EXPECT_EQ(amazon_.tokens.size(), 1u);
}

TEST_F(LauncherTest, AHeadThatNobodyCanReachIsNotMade) {
  amazon_.is_open = false;
  EXPECT_THAT(Up().status().message(), HasSubstr("TCP port 7100"));
  EXPECT_THAT(amazon_.calls, Not(Contains("RunInstances")));
}

TEST_F(LauncherTest, AHeadThatHasEndedIsNamed) {
  ASSERT_TRUE(Up().ok());
  amazon_.machines["i-head"].state = "terminated";
  EXPECT_THAT(Up().status().message(), HasSubstr("adaptdl cloud down demo"));
  amazon_.machines["i-head"].state = "stopped";
  EXPECT_THAT(Up().status().message(), HasSubstr("is stopped: start it"));
}

TEST_F(LauncherTest, ADryRunSaysTheCallsAndChangesNothing) {
  const auto nothing = Up(/*dry_run=*/true);
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_FALSE(nothing->has_value());
  EXPECT_TRUE(amazon_.machines.empty());
  EXPECT_FALSE(std::filesystem::exists(*ProfileFolder("demo")));
  EXPECT_THAT(told_, Contains(HasSubstr("RunInstances ImageId=ami-1 InstanceType=m7i.large")));
  for (const std::string& text : told_) EXPECT_THAT(text, Not(HasSubstr("PRIVATE KEY")));
  ASSERT_TRUE(Up().ok());
  ASSERT_TRUE(Down(/*dry_run=*/true).ok());
  EXPECT_EQ(amazon_.machines["i-head"].state, "running");
  EXPECT_THAT(told_, Contains("TerminateInstances InstanceId.1=i-head"));
}

TEST_F(LauncherTest, TheHeadEndsFirstAndLateWorkersToo) {
  ASSERT_TRUE(Up().ok());
  amazon_.machines["i-a"] = {.state = "running", .pool = "spot"};
  amazon_.has_late_worker = true;
  told_.clear();
  const absl::Status down = Down();
  ASSERT_TRUE(down.ok()) << down;
  for (const auto& [id, machine] : amazon_.machines) EXPECT_EQ(machine.state, "terminated") << id;
  EXPECT_THAT(told_, ElementsAre("ending the head i-head", "ending i-a", "ending i-late",
                                 "left: the files of jobs, in fs-1:/"));
  EXPECT_THAT(amazon_.calls, Contains("DeleteLaunchTemplate"));
  EXPECT_FALSE(std::filesystem::exists(*ProfileFolder("demo")));
  // Again: there is nothing to do.
  EXPECT_TRUE(Down().ok());
}

TEST_F(LauncherTest, AMachineThatDoesNotEndIsToldOf) {
  amazon_.machines["i-a"] = {.state = "shutting-down", .pool = "spot"};
  EXPECT_TRUE(absl::IsDeadlineExceeded(Down()));
}

}  // namespace
}  // namespace adaptdl::cli
