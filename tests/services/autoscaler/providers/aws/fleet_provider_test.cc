#include "services/autoscaler/providers/aws/fleet_provider.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/aws/aws_fixture.h"
#include "tests/services/autoscaler/providers/aws/fake_ec2.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class FleetProviderTest : public ::testing::Test {
 protected:
  FleetProviderTest() {
    options_.pool = "spot";
    options_.state_dir =
        ::testing::TempDir() + "/fleet-" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(options_.state_dir);
    options_.region = "eu-west-1";
    options_.endpoint = ec2_.url();
    options_.instance_types = {"g5.xlarge", "g5.2xlarge"};
    options_.zones = {"eu-west-1a", "eu-west-1b"};
    options_.image = "ami-1";
    options_.spot = true;
    options_.worker.kind = LaunchKind::kBinary;
    options_.worker.binary = "/usr/bin/adaptdl-worker";
    options_.worker.supervisor = "10.0.0.1:7100";
    options_.worker.insecure = true;
    Restart();
  }

  // As after a crash: nothing but the folder and the cloud know anything.
  void Restart() {
    provider_.reset();
    auto provider =
        FleetProvider::Create(options_, {&http_, &credentials_, &clock_, &pauses_, [] { return 0.5; }});
    ASSERT_TRUE(provider.ok()) << provider.status();
    provider_ = *std::move(provider);
  }

  std::vector<std::string> Ids() {
    const auto nodes = provider_->ListNodes();
    EXPECT_TRUE(nodes.ok()) << nodes.status();
    std::vector<std::string> ids;
    for (const ProvidedNode& node : nodes.ok() ? *nodes : std::vector<ProvidedNode>())
      ids.push_back(node.node_id);
    return ids;
  }

  FakeEc2 ec2_;
  HttpClient http_{{}};
  aws::CountedCredentials credentials_;
  ManualClock clock_;
  aws::ManualPauses pauses_{&clock_};
  AwsPoolOptions options_;
  std::unique_ptr<FleetProvider> provider_;
};

TEST_F(FleetProviderTest, MakesMachinesAndFindsThemByTheirTags) {
  const NodePoolProvider::Created created = provider_->CreateNodes(2, {});
  EXPECT_TRUE(created.status.ok()) << created.status;
  EXPECT_THAT(created.node_ids, ElementsAre("i-0", "i-1"));
  const auto nodes = provider_->ListNodes();
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  ASSERT_THAT(*nodes, SizeIs(2));
  EXPECT_EQ((*nodes)[0].state, ProvidedState::kAlive);
  EXPECT_EQ((*nodes)[0].instance_id, "i-0");
  EXPECT_EQ((*nodes)[0].address, "10.0.0.7");
  EXPECT_EQ(absl::FormatTime((*nodes)[0].create_time.value(), absl::UTCTimeZone()),
            "2030-01-01T00:00:00+00:00");
  EXPECT_EQ(ec2_.machines()["i-0"].tags["adaptdl:pool"], "spot");
  EXPECT_EQ(ec2_.last("CreateFleet")["TargetCapacitySpecification.DefaultTargetCapacityType"], "spot");
}

TEST_F(FleetProviderTest, EndsMachines) {
  provider_->CreateNodes(2, {});
  EXPECT_TRUE(provider_->TerminateNode("i-0").ok());
  EXPECT_THAT(Ids(), ElementsAre("i-1"));
  EXPECT_TRUE(provider_->TerminateNode("i-unknown").ok());
}

TEST_F(FleetProviderTest, WantOfCapacityIsSaidWithWhatThereWas) {
  ec2_.SetCapacity(1);
  const NodePoolProvider::Created created = provider_->CreateNodes(3, {});
  EXPECT_THAT(created.node_ids, ElementsAre("i-0"));
  EXPECT_EQ(created.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(created.status.message(), HasSubstr("InsufficientInstanceCapacity: none is left"));
  EXPECT_THAT(Ids(), ElementsAre("i-0"));
}

TEST_F(FleetProviderTest, AMachineThatIsNotShownYetCountsAndIsEndedLater) {
  ec2_.SetShowsAtOnce(false);
  provider_->CreateNodes(1, {});
  auto nodes = provider_->ListNodes();
  ASSERT_THAT(*nodes, SizeIs(1));
  EXPECT_EQ((*nodes)[0].state, ProvidedState::kRequested);
  EXPECT_EQ(provider_->TerminateNode("i-0").code(), absl::StatusCode::kUnavailable);
  Restart();
  EXPECT_THAT(Ids(), ElementsAre("i-0"));
  ec2_.ShowAll();
  EXPECT_TRUE(provider_->TerminateNode("i-0").ok());
  EXPECT_THAT(Ids(), IsEmpty());
}

TEST_F(FleetProviderTest, WhatIsNeverShownIsGivenUp) {
  ec2_.SetShowsAtOnce(false);
  provider_->CreateNodes(1, {});
  clock_.Advance(absl::Minutes(11));
  Ids();
  EXPECT_THAT(Ids(), IsEmpty());
}

TEST_F(FleetProviderTest, ALostAnswerMakesNothingTwice) {
  ec2_.LoseNext("CreateFleet");
  const NodePoolProvider::Created created = provider_->CreateNodes(2, {});
  EXPECT_TRUE(created.status.ok()) << created.status;
  EXPECT_EQ(ec2_.living(), 2);
  EXPECT_THAT(Ids(), SizeIs(2));
}

// The program dies at each point: before EC2 hears of it, and after EC2 has made the machines.
TEST_F(FleetProviderTest, ACrashAtAnyPointLeavesNothingBehindAndMakesNothingTwice) {
  for (const bool carried_out : {false, true}) {
    for (const bool shows : {false, true}) {
      SCOPED_TRACE(absl::StrCat(carried_out, shows));
      const int before = ec2_.living();
      ec2_.SetShowsAtOnce(shows);
      options_.patience = absl::ZeroDuration();
      Restart();
      if (carried_out) {
        ec2_.LoseNext("CreateFleet");
      } else {
        ec2_.FailNext("CreateFleet", "RequestLimitExceeded");
      }
      provider_->CreateNodes(2, {});
      // What is remembered is in the folder alone.
      Restart();
      Ids();
      EXPECT_EQ(ec2_.living(), before + 2);
      Restart();
      EXPECT_THAT(Ids(), SizeIs(before + 2));
      ec2_.ShowAll();
      EXPECT_THAT(Ids(), SizeIs(before + 2));
      EXPECT_EQ(ec2_.living(), before + 2);
      EXPECT_TRUE(std::filesystem::is_empty(options_.state_dir + "/creations") ||
                  std::distance(std::filesystem::directory_iterator(options_.state_dir + "/creations"), {}) ==
                      1)
          << "but for the lock";
    }
  }
}

TEST_F(FleetProviderTest, ARefusalForGoodIsForgotten) {
  ec2_.FailNext("CreateFleet", "UnauthorizedOperation");
  EXPECT_EQ(provider_->CreateNodes(1, {}).status.code(), absl::StatusCode::kPermissionDenied);
  Restart();
  EXPECT_THAT(Ids(), IsEmpty());
  EXPECT_EQ(ec2_.living(), 0);
}

TEST_F(FleetProviderTest, ThrottlingIsWaitedFor) {
  ec2_.FailNext("CreateFleet", "RequestLimitExceeded", 3);
  EXPECT_TRUE(provider_->CreateNodes(1, {}).status.ok());
  EXPECT_EQ(ec2_.living(), 1);
}

TEST_F(FleetProviderTest, ExpiredCredentialsAreAskedForAnew) {
  ec2_.FailNext("DescribeInstances", "ExpiredToken");
  EXPECT_THAT(Ids(), IsEmpty());
  EXPECT_EQ(credentials_.refused(), 1);
}

TEST_F(FleetProviderTest, AMachineThatEc2TakesBackIsStoppingAndThenGone) {
  provider_->CreateNodes(1, {});
  ec2_.Set("i-0", "shutting-down", "Server.SpotInstanceTermination");
  const auto nodes = provider_->ListNodes();
  ASSERT_THAT(*nodes, SizeIs(1));
  EXPECT_EQ((*nodes)[0].state, ProvidedState::kStopping);
  EXPECT_THAT((*nodes)[0].hindrance, HasSubstr("SpotInstanceTermination"));
  ec2_.Set("i-0", "terminated", "Server.SpotInstanceTermination");
  EXPECT_THAT(Ids(), IsEmpty());
  EXPECT_EQ(provider_->RestartNode("i-0").code(), absl::StatusCode::kUnimplemented);
}

TEST_F(FleetProviderTest, TheLaunchTemplateIsMadeOnce) {
  provider_->CreateNodes(1, {});
  provider_->CreateNodes(1, {});
  Restart();
  EXPECT_TRUE(provider_->CreateNodes(1, {}).status.ok());
  const std::vector<std::string> actions = ec2_.actions();
  EXPECT_EQ(std::count(actions.begin(), actions.end(), "CreateLaunchTemplate"), 2) << "once by each program";
}

TEST_F(FleetProviderTest, AnotherClustersMachinesAreNotTouched) {
  provider_->CreateNodes(1, {});
  options_.cluster = "other";
  options_.state_dir += "-other";
  Restart();
  EXPECT_THAT(Ids(), IsEmpty());
}

TEST_F(FleetProviderTest, OneFolderHasOneProvider) {
  const auto second =
      FleetProvider::Create(options_, {&http_, &credentials_, &clock_, &pauses_, [] { return 0.5; }});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(FleetProviderTest, RefusesOptionsByName) {
  provider_.reset();
  options_.image.clear();
  EXPECT_THAT(FleetProvider::Create(options_, {&http_, &credentials_, &clock_, &pauses_, [] { return 0.5; }})
                  .status()
                  .message(),
              HasSubstr("image"));
}

}  // namespace
}  // namespace adaptdl::autoscaler
