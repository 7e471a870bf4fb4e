// What the metadata services of clouds say, and what of it is believed.

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "services/worker/notices/aws_metadata.h"
#include "services/worker/notices/azure_metadata.h"
#include "services/worker/notices/gcp_metadata.h"
#include "services/worker/notices/instance_metadata.h"
#include "tests/services/worker/notices/fake_metadata.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::HasSubstr;

constexpr char kAction[] = "/latest/meta-data/spot/instance-action";
constexpr char kRebalance[] = "/latest/meta-data/events/recommendations/rebalance";
constexpr char kPreempted[] = "/computeMetadata/v1/instance/preempted";
constexpr char kMaintenance[] = "/computeMetadata/v1/instance/maintenance-event";
constexpr char kEvents[] = "/metadata/scheduledevents";
constexpr char kName[] = "/metadata/instance/compute/name";

class MetadataTest : public testing::Test {
 protected:
  // What is noticed; none, and a failure of the test if nobody could be asked.
  std::optional<Notice> Look(NoticeSource& source) {
    const absl::StatusOr<std::optional<Notice>> notice = source.Look({});
    EXPECT_TRUE(notice.ok()) << notice.status();
    return notice.ok() ? *notice : std::nullopt;
  }
  static absl::Time At(const std::string& text) {
    absl::Time time;
    std::string error;
    EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &time, &error)) << error;
    return time;
  }

  // At 2001-09-09T01:46:40Z.
  ManualClock clock_;
  FakeMetadata service_;
};

TEST_F(MetadataTest, AwsSaysThatASpotInstanceIsTakenBack) {
  AwsMetadata aws(service_.url(), &clock_);
  EXPECT_FALSE(Look(aws).has_value());
  service_.Set(kAction, R"({"action": "terminate", "time": "2001-09-09T01:48:40Z"})");
  const std::optional<Notice> notice = Look(aws);
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->deadline, At("2001-09-09T01:48:40Z"));
  EXPECT_EQ(notice->reason, "AWS takes the spot instance back (terminate)");
  EXPECT_FALSE(notice->likely_only);
  EXPECT_EQ(service_.TimesAsked("PUT /latest/api/token"), 1) << "one token for many questions";
}

TEST_F(MetadataTest, ARebalanceRecommendationIsOnlyLikely) {
  AwsMetadata aws(service_.url(), &clock_);
  service_.Set(kRebalance, R"({"noticeTime": "2001-09-09T01:46:40Z"})");
  const std::optional<Notice> notice = Look(aws);
  ASSERT_TRUE(notice.has_value());
  EXPECT_TRUE(notice->likely_only);
  EXPECT_EQ(notice->deadline, absl::InfiniteFuture());
  service_.Set(kAction, R"({"action": "stop", "time": "2001-09-09T01:48:40Z"})");
  EXPECT_FALSE(Look(aws)->likely_only) << "what is certain counts more";
}

TEST_F(MetadataTest, ATimeThatIsOverIsNow) {
  AwsMetadata aws(service_.url(), &clock_);
  service_.Set(kAction, R"({"action": "hibernate", "time": "2001-01-01T00:00:00Z"})");
  EXPECT_EQ(Look(aws)->deadline, clock_.Now());
}

TEST_F(MetadataTest, ATokenIsRenewedBeforeItsEndAndWhenItDoesNotCount) {
  AwsMetadata aws(service_.url(), &clock_);
  EXPECT_FALSE(Look(aws).has_value());
  service_.ForgetTokens();
  EXPECT_FALSE(Look(aws).has_value());
  EXPECT_EQ(service_.TimesAsked("PUT /latest/api/token"), 2);
  clock_.Advance(absl::Hours(4));
  EXPECT_FALSE(Look(aws).has_value());
  EXPECT_EQ(service_.TimesAsked("PUT /latest/api/token"), 3);
}

TEST_F(MetadataTest, WithoutATokenNothingIsKnown) {
  AwsMetadata aws(service_.url(), &clock_);
  for (const int status : {403, 404, 500}) {
    service_.Set("/latest/api/token", "", status);
    EXPECT_EQ(aws.Look({}).status().code(), absl::StatusCode::kUnavailable) << status;
  }
  // It would end the header, and begin another one.
  service_.Set("/latest/api/token", "a\r\nX-Other: b");
  EXPECT_THAT(aws.Look({}).status().ToString(), HasSubstr("can't be one"));
}

TEST_F(MetadataTest, AnswersOfAwsThatAreNoneAreErrors) {
  AwsMetadata aws(service_.url(), &clock_);
  for (const std::string& text :
       {std::string(), std::string("terminate"), std::string("[]"), std::string("{}"),
        std::string("{\"action\": 1}"), std::string(R"({"action": "terminate"})"),
        std::string(R"({"action": "terminate", "time": "soon"})"), std::string("\xff\xfe"),
        std::string(50'000, '['), std::string(100'000, ' ')}) {
    service_.Set(kAction, text);
    EXPECT_FALSE(aws.Look({}).ok()) << text.substr(0, 40);
  }
  service_.Set(kAction, "", 503);
  EXPECT_FALSE(aws.Look({}).ok());
  service_.Set(kAction, R"({"action": "terminate", "time": "2001-09-09T01:48:40Z"})");
  EXPECT_TRUE(Look(aws).has_value()) << "the next one counts";
}

TEST_F(MetadataTest, OneThatDoesNotAnswerIsGivenUpSoon) {
  service_.Hang("/slow");
  MetadataClient client(service_.url(), absl::Milliseconds(50));
  EXPECT_EQ(client.Get("/slow", {}, {}).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(MetadataTest, NoProxyIsAsked) {
  setenv("http_proxy", "http://127.0.0.1:1", /*overwrite=*/1);
  service_.Set("/x", "here");
  EXPECT_EQ(*MetadataClient(service_.url()).Get("/x", {}, {}), "here");
  unsetenv("http_proxy");
}

TEST_F(MetadataTest, GoogleSaysThatAVmIsPreempted) {
  GcpMetadata gcp(service_.url(), &clock_);
  service_.Set(kPreempted, "FALSE");
  service_.Set(kMaintenance, "NONE");
  EXPECT_FALSE(Look(gcp).has_value());
  clock_.Advance(absl::Seconds(2));
  service_.Set(kPreempted, "TRUE");
  const std::optional<Notice> notice = Look(gcp);
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->deadline, clock_.Now() + absl::Seconds(28))
      << "it may have come right after the last look";
  EXPECT_EQ(notice->reason, "Google Cloud preempts the VM");
}

TEST_F(MetadataTest, MaintenanceOfGoogleIsANoticeWhereItEndsTheVm) {
  GcpMetadata gcp(service_.url(), &clock_);
  service_.Set(kPreempted, "FALSE");
  service_.Set(kMaintenance, "MIGRATE_ON_HOST_MAINTENANCE");
  EXPECT_FALSE(Look(gcp).has_value());
  service_.Set(kMaintenance, "TERMINATE_ON_HOST_MAINTENANCE");
  const std::optional<Notice> notice = Look(gcp);
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->deadline, clock_.Now() + absl::Seconds(60));
}

TEST_F(MetadataTest, AnswersOfGoogleThatAreNoneAreErrors) {
  GcpMetadata gcp(service_.url(), &clock_);
  service_.Set(kPreempted, "<html>who are you?</html>");
  EXPECT_FALSE(gcp.Look({}).ok());
  service_.Set(kPreempted, "", 500);
  EXPECT_FALSE(gcp.Look({}).ok());
}

std::string EventOf(const std::string& type, const std::string& resource, const std::string& not_before) {
  return absl::StrCat(R"({"EventId": "1", "EventStatus": "Scheduled", "EventType": ")", type,
                      R"(", "ResourceType": "VirtualMachine", "Resources": [")", resource,
                      R"("], "NotBefore": ")", not_before, R"("})");
}
std::string Events(const std::string& events) {
  return absl::StrCat(R"({"DocumentIncarnation": 1, "Events": [)", events, "]}");
}

TEST_F(MetadataTest, AzureSaysThatThisMachineIsTaken) {
  AzureMetadata azure(service_.url(), &clock_);
  service_.Set(kName, "spot_3");
  service_.Set(kEvents, Events(""));
  EXPECT_FALSE(Look(azure).has_value());
  const std::string time = "Sun, 09 Sep 2001 01:47:10 GMT";
  service_.Set(kEvents, Events(absl::StrCat(EventOf("Preempt", "spot_4", time), ",",
                                            EventOf("Freeze", "spot_3", time))));
  EXPECT_FALSE(Look(azure).has_value()) << "another machine of the set, and what ends nothing";
  for (const std::string type : {"Preempt", "Terminate", "Reboot", "Redeploy"}) {
    service_.Set(kEvents, Events(absl::StrCat(EventOf(type, "SPOT_3", "Sun, 09 Sep 2001 02:00:00 GMT"), ",",
                                              EventOf(type, "spot_3", time))));
    const std::optional<Notice> notice = Look(azure);
    ASSERT_TRUE(notice.has_value()) << type;
    EXPECT_EQ(notice->deadline, clock_.Now() + absl::Seconds(30)) << "the first one counts";
    EXPECT_EQ(notice->reason, absl::StrCat("Azure takes the machine (", type, ")"));
  }
  service_.Set(kEvents, Events(EventOf("Preempt", "spot_3", "")));
  EXPECT_EQ(Look(azure)->deadline, clock_.Now()) << "it has begun";
  EXPECT_EQ(service_.TimesAsked(absl::StrCat("GET ", kName)), 1);
}

TEST_F(MetadataTest, AnswersOfAzureThatAreNoneAreErrors) {
  AzureMetadata azure(service_.url(), &clock_);
  service_.Set(kName, "no name\n\x01");
  EXPECT_FALSE(azure.Look({}).ok());
  service_.Set(kName, "vm");
  for (const std::string& text : {std::string("{}"), std::string(R"({"Events": 1})"), std::string("null"),
                                  Events(EventOf("Preempt", "vm", "yesterday"))}) {
    service_.Set(kEvents, text);
    EXPECT_FALSE(azure.Look({}).ok()) << text;
  }
  service_.Set(kEvents, Events(R"(1, {"EventType": 5}, {"EventType": "Preempt", "Resources": "vm"})"));
  EXPECT_FALSE(Look(azure).has_value());
}

TEST_F(MetadataTest, CloudsSayWhatTheMachineIsCalledAndWhereItIs) {
  service_.Set("/latest/meta-data/instance-id", "i-0123\n");
  service_.Set("/latest/meta-data/local-ipv4", "10.0.0.7");
  service_.Set("/computeMetadata/v1/instance/id", "4711");
  service_.Set("/computeMetadata/v1/instance/network-interfaces/0/ip", "10.0.0.8");
  service_.Set("/metadata/instance/compute/vmId", "1b4e28ba");
  service_.Set("/metadata/instance/network/interface/0/ipv4/ipAddress/0/privateIpAddress", "10.0.0.9");
  const auto identity = [&](Cloud cloud) {
    return MakeInstanceMetadata(cloud, service_.url(), &clock_)->Identify({});
  };
  EXPECT_EQ(identity(Cloud::kAws)->instance_id, "i-0123");
  EXPECT_EQ(identity(Cloud::kAws)->address, "10.0.0.7");
  EXPECT_EQ(identity(Cloud::kGcp)->instance_id, "4711");
  EXPECT_EQ(identity(Cloud::kGcp)->address, "10.0.0.8");
  EXPECT_EQ(identity(Cloud::kAzure)->instance_id, "1b4e28ba");
  EXPECT_EQ(identity(Cloud::kAzure)->address, "10.0.0.9");
  service_.Set("/latest/meta-data/local-ipv4", "here");
  EXPECT_THAT(identity(Cloud::kAws).status().ToString(), HasSubstr("\"here\", is no IP address"));
  service_.Set("/latest/meta-data/instance-id", std::string(1000, 'i'));
  EXPECT_EQ(identity(Cloud::kAws).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FindCloud, GoesByWhatTheFirmwareSays) {
  const TempFolder machine;
  EXPECT_EQ(FindCloud(machine.path()), Cloud::kNone);
  WriteFile(machine / "sys_vendor", "Microsoft Corporation\n");
  EXPECT_EQ(FindCloud(machine.path()), Cloud::kNone) << "any machine under Hyper-V";
  WriteFile(machine / "chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n");
  EXPECT_EQ(FindCloud(machine.path()), Cloud::kAzure);
  WriteFile(machine / "product_name", "Google Compute Engine\n");
  EXPECT_EQ(FindCloud(machine.path()), Cloud::kGcp);
  WriteFile(machine / "bios_version", "4.11.amazon\n");
  EXPECT_EQ(FindCloud(machine.path()), Cloud::kAws);
  WriteFile(machine / "bios_version", "1.0\n");
  WriteFile(machine / "sys_vendor", "Amazon EC2\n");
  EXPECT_EQ(FindCloud(machine.path()), Cloud::kAws);
}

TEST(ParseCloud, KnowsNamesOnly) {
  EXPECT_EQ(*ParseCloud("none"), Cloud::kNone);
  EXPECT_EQ(*ParseCloud("gcp"), Cloud::kGcp);
  EXPECT_THAT(ParseCloud("moon").status().ToString(), HasSubstr("--instance-metadata \"moon\""));
  const ManualClock clock;
  EXPECT_EQ(MakeInstanceMetadata(Cloud::kNone, "", &clock), nullptr);
}

}  // namespace
}  // namespace adaptdl::worker
