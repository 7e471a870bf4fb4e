#include "services/autoscaler/providers/aws/launch_request.h"

#include <map>
#include <string>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::HasSubstr;

AwsPoolOptions Options() {
  AwsPoolOptions options;
  options.pool = "spot";
  options.state_dir = "/state";
  options.region = "eu-west-1";
  options.instance_types = {"g5.xlarge", "g5.2xlarge"};
  options.image = "ami-1";
  options.worker.image = "registry.example/adaptdl:1";
  options.worker.supervisor = "10.0.0.1:7100";
  options.worker.insecure = true;
  return options;
}

std::map<std::string, std::string> Fleet(const AwsPoolOptions& options) {
  const auto parameters = MakeFleet(options, 3, "key", "template");
  EXPECT_TRUE(parameters.ok()) << parameters.status();
  return {parameters->begin(), parameters->end()};
}

TEST(LaunchRequestTest, AFleetHasATokenAndItsMachinesTheTags) {
  auto fleet = Fleet(Options());
  EXPECT_EQ(fleet["ClientToken"], "key");
  EXPECT_EQ(fleet["Type"], "instant");
  EXPECT_EQ(fleet["TargetCapacitySpecification.TotalTargetCapacity"], "3");
  EXPECT_EQ(fleet["TargetCapacitySpecification.DefaultTargetCapacityType"], "on-demand");
  EXPECT_EQ(fleet["TagSpecification.2.ResourceType"], "instance");
}

TEST(LaunchRequestTest, EachTypeIsTriedInEachPlace) {
  AwsPoolOptions options = Options();
  options.subnets = {"subnet-1", "subnet-2"};
  auto fleet = Fleet(options);
  EXPECT_EQ(fleet["LaunchTemplateConfigs.1.Overrides.4.InstanceType"], "g5.2xlarge");
  EXPECT_EQ(fleet["LaunchTemplateConfigs.1.Overrides.4.SubnetId"], "subnet-2");
}

TEST(LaunchRequestTest, TheTemplateKeepsStrangersFromTheMetadataService) {
  const auto made = MakeLaunchTemplate(Options(), "");
  ASSERT_TRUE(made.ok()) << made.status();
  std::map<std::string, std::string> parameters(made->begin(), made->end());
  EXPECT_EQ(parameters["LaunchTemplateData.MetadataOptions.HttpTokens"], "required");
  EXPECT_EQ(parameters["LaunchTemplateData.MetadataOptions.HttpPutResponseHopLimit"], "1");
  std::string script;
  ASSERT_TRUE(absl::Base64Unescape(parameters["LaunchTemplateData.UserData"], &script));
  EXPECT_THAT(script, HasSubstr("adaptdl-worker"));
}

TEST(LaunchRequestTest, TheTemplatesNameFollowsItsContent) {
  AwsPoolOptions other = Options();
  other.worker.image = "registry.example/adaptdl:2";
  EXPECT_NE(LaunchTemplateName(*MakeLaunchTemplate(Options(), "")),
            LaunchTemplateName(*MakeLaunchTemplate(other, "")));
  EXPECT_EQ(LaunchTemplateName(*MakeLaunchTemplate(Options(), "")),
            LaunchTemplateName(*MakeLaunchTemplate(Options(), "")));
}

TEST(LaunchRequestTest, RefusesOptionsByName) {
  AwsPoolOptions options = Options();
  options.zones = {"eu-west-1a"};
  options.subnets = {"subnet-1"};
  EXPECT_THAT(CheckAwsPoolOptions(options).message(), HasSubstr("zones"));
  options = Options();
  options.max_price = "cheap";
  EXPECT_THAT(CheckAwsPoolOptions(options).message(), HasSubstr("maxPrice"));
  options = Options();
  options.tags = {{"adaptdl:pool", "mine"}};
  EXPECT_THAT(CheckAwsPoolOptions(options).message(), HasSubstr("adaptdl:pool"));
  options = Options();
  options.endpoint = "localhost:5000";
  EXPECT_THAT(CheckAwsPoolOptions(options).message(), HasSubstr("http://127.0.0.1:5000"));
}

}  // namespace
}  // namespace adaptdl::autoscaler
