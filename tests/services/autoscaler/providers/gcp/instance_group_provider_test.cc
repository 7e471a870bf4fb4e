#include "services/autoscaler/providers/gcp/instance_group_provider.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/gcp/gcp_fixture.h"
#include "tests/services/autoscaler/providers/gcp/fake_instance_group.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class InstanceGroupProviderTest : public ::testing::Test {
 protected:
  InstanceGroupProviderTest() {
    options_.pool = "l4";
    options_.state_dir =
        ::testing::TempDir() + "/gcp-" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(options_.state_dir);
    options_.project = "p";
    options_.zone = "z";
    options_.instance_group = "workers";
    options_.endpoint = google_.url();
    Restart();
  }

  // As after a crash: nothing but the folder and the cloud know anything.
  void Restart() {
    provider_.reset();
    auto provider =
        InstanceGroupProvider::Create(options_, {&http_, &tokens_, &clock_, &pauses_, [] { return 0.5; }});
    ASSERT_TRUE(provider.ok()) << provider.status();
    provider_ = *std::move(provider);
  }

  std::vector<ProvidedNode> Nodes() {
    const auto nodes = provider_->ListNodes();
    EXPECT_TRUE(nodes.ok()) << nodes.status();
    return nodes.value_or(std::vector<ProvidedNode>());
  }
  std::vector<std::string> Ids() {
    std::vector<std::string> ids;
    for (const ProvidedNode& node : Nodes()) ids.push_back(node.node_id);
    return ids;
  }
  std::vector<std::string> Grow(int count) {
    const NodePoolProvider::Created created = provider_->CreateNodes(count, {});
    EXPECT_TRUE(created.status.ok()) << created.status;
    return created.node_ids;
  }

  FakeInstanceGroup google_;
  ManualClock clock_;
  gcp::PassingPauses pauses_{&clock_};
  gcp::CountedTokens tokens_;
  HttpClient http_{{}};
  GcpPoolOptions options_;
  std::unique_ptr<InstanceGroupProvider> provider_;
};

TEST_F(InstanceGroupProviderTest, MakesMachinesByNameAndKnowsThemByNumberAndAddress) {
  const std::vector<std::string> names = Grow(2);
  EXPECT_THAT(names, AllOf(SizeIs(2), Each(StartsWith("adaptdl-l4-"))));
  const std::vector<ProvidedNode> nodes = Nodes();
  ASSERT_THAT(nodes, SizeIs(2));
  EXPECT_EQ(nodes[0].node_id, names[0]);
  EXPECT_EQ(nodes[0].state, ProvidedState::kAlive);
  EXPECT_EQ(nodes[0].instance_id, "1000");
  EXPECT_EQ(nodes[0].address, "10.0.0.000");
  EXPECT_EQ(absl::FormatTime(nodes[0].create_time.value(), absl::UTCTimeZone()), "2030-01-01T07:00:00+00:00");
  Nodes();
  EXPECT_EQ(google_.calls("instances"), 2) << "once for each machine";
}

TEST_F(InstanceGroupProviderTest, EndsTheMachineThatIsNamed) {
  const std::vector<std::string> names = Grow(3);
  EXPECT_TRUE(provider_->TerminateNode(names[1]).ok());
  EXPECT_TRUE(provider_->TerminateNode(names[1]).ok());
  EXPECT_TRUE(provider_->TerminateNode("unknown").ok());
  EXPECT_EQ(Nodes()[1].state, ProvidedState::kStopping);
  google_.Change([&](auto& group) { group.machines.erase(names[1]); });
  EXPECT_THAT(Ids(), ElementsAreArray({names[0], names[2]}));
}

TEST_F(InstanceGroupProviderTest, WhatIsStillToComeIsRequested) {
  google_.Change([](auto& group) { group.settles_at_once = false; });
  const std::vector<std::string> names = Grow(1);
  ASSERT_THAT(Ids(), ElementsAreArray(names));
  EXPECT_EQ(Nodes()[0].state, ProvidedState::kRequested);
  EXPECT_THAT(Nodes()[0].instance_id, IsEmpty()) << "nothing is there that could cost";
  google_.Settle();
  EXPECT_EQ(Nodes()[0].state, ProvidedState::kAlive);
}

TEST_F(InstanceGroupProviderTest, AMachineThatIsNotShownYetCountsAndIsEndedLater) {
  google_.Change([](auto& group) { group.shows_at_once = false; });
  const std::vector<std::string> names = Grow(1);
  EXPECT_THAT(Ids(), ElementsAreArray(names));
  EXPECT_EQ(provider_->TerminateNode(names[0]).code(), absl::StatusCode::kUnavailable);
  Restart();
  EXPECT_THAT(Ids(), ElementsAreArray(names));
  google_.Settle();
  EXPECT_TRUE(provider_->TerminateNode(names[0]).ok());
  EXPECT_EQ(google_.living(), 0);
}

TEST_F(InstanceGroupProviderTest, WantOfCapacityIsSaidOfWhatIsRequestedWhichIsTakenBack) {
  google_.Change([](auto& group) { group.capacity = 1; });
  const std::vector<std::string> names = Grow(2);
  const std::vector<ProvidedNode> nodes = Nodes();
  ASSERT_THAT(nodes, SizeIs(2));
  EXPECT_THAT(nodes[0].hindrance, IsEmpty());
  EXPECT_THAT(nodes[1].hindrance, HasSubstr("ZONE_RESOURCE_POOL_EXHAUSTED: says the test"));
  EXPECT_TRUE(provider_->TerminateNode(names[1]).ok());
  EXPECT_THAT(Ids(), ElementsAreArray({names[0]}));
}

TEST_F(InstanceGroupProviderTest, AQuotaThatIsUsedUpIsWantOfCapacity) {
  google_.FailNext("createInstances", 403, "quotaExceeded");
  EXPECT_EQ(provider_->CreateNodes(1, {}).status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Ids(), IsEmpty());
}

// The call is answered, and what it has begun comes to nothing.
TEST_F(InstanceGroupProviderTest, AnOperationThatFailsIsTold) {
  google_.Change([](auto& group) { group.operation_failure = "QUOTA_EXCEEDED"; });
  const std::vector<std::string> names = Grow(2);
  const std::vector<ProvidedNode> nodes = Nodes();
  ASSERT_THAT(nodes, SizeIs(2));
  EXPECT_THAT(nodes[0].hindrance, HasSubstr("QUOTA_EXCEEDED"));
  EXPECT_TRUE(provider_->TerminateNode(names[0]).ok());
  EXPECT_THAT(Ids(), ElementsAreArray({names[1]}));
  EXPECT_TRUE(provider_->TerminateNode(names[1]).ok());
  EXPECT_THAT(Ids(), IsEmpty());
}

TEST_F(InstanceGroupProviderTest, ALostAnswerMakesNothingTwice) {
  google_.LoseNext("createInstances");
  const std::vector<std::string> names = Grow(2);
  EXPECT_EQ(google_.calls("createInstances"), 2);
  EXPECT_EQ(google_.living(), 2);
  EXPECT_THAT(Ids(), ElementsAreArray(names));
}

// The program dies at each point: before Google hears of it, and after the machines have begun to be.
TEST_F(InstanceGroupProviderTest, ACrashAtAnyPointLeavesNothingBehindAndMakesNothingTwice) {
  for (const bool carried_out : {false, true}) {
    for (const bool shows : {false, true}) {
      SCOPED_TRACE(absl::StrCat(carried_out, shows));
      const int before = google_.living();
      google_.Change([&](auto& group) { group.shows_at_once = shows; });
      options_.patience = absl::ZeroDuration();
      Restart();
      if (carried_out) {
        google_.LoseNext("createInstances");
      } else {
        google_.FailNext("createInstances", 503, "backendError");
      }
      EXPECT_FALSE(provider_->CreateNodes(2, {}).status.ok());
      // What is remembered is in the folder alone.
      Restart();
      EXPECT_THAT(Ids(), SizeIs(before + 2));
      EXPECT_EQ(google_.living(), before + 2);
      google_.Settle();
      EXPECT_THAT(Ids(), SizeIs(before + 2));
      EXPECT_EQ(google_.living(), before + 2);
    }
  }
  // Nothing is left in the journal but the lock.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(options_.state_dir + "/creations"), {}), 1);
}

TEST_F(InstanceGroupProviderTest, ARefusalForGoodIsForgotten) {
  google_.FailNext("createInstances", 403, "forbidden");
  EXPECT_EQ(provider_->CreateNodes(1, {}).status.code(), absl::StatusCode::kPermissionDenied);
  Restart();
  EXPECT_THAT(Ids(), IsEmpty());
  EXPECT_EQ(google_.living(), 0);
}

TEST_F(InstanceGroupProviderTest, ThrottlingAndAnExpiredTokenAreGotOver) {
  google_.FailNext("createInstances", 403, "rateLimitExceeded", 3);
  Grow(1);
  google_.FailNext("listManagedInstances", 401, "authError");
  EXPECT_THAT(Ids(), SizeIs(1));
  EXPECT_EQ(tokens_.refused(), 1);
}

TEST_F(InstanceGroupProviderTest, AMachineThatGoogleTakesBackComesAgainUnderItsNameWithAnotherNumber) {
  const std::string name = Grow(1)[0];
  EXPECT_EQ(Nodes()[0].instance_id, "1000");
  google_.Change([&](auto& group) { group.machines[name].status = "STOPPING"; });
  EXPECT_EQ(Nodes()[0].state, ProvidedState::kStopping);
  google_.Change([&](auto& group) { group.machines[name].action = "RECREATING"; });
  EXPECT_EQ(Nodes()[0].state, ProvidedState::kRequested);
  EXPECT_THAT(Nodes()[0].instance_id, IsEmpty());
  google_.Settle();
  EXPECT_EQ(Nodes()[0].state, ProvidedState::kAlive);
  EXPECT_EQ(Nodes()[0].instance_id, "1001");
  EXPECT_EQ(Nodes()[0].address, "10.0.0.001");
  EXPECT_EQ(provider_->RestartNode(name).code(), absl::StatusCode::kUnimplemented);
}

TEST_F(InstanceGroupProviderTest, ManyAreMadeInSomeCallsAndListedInPages) {
  google_.Change([](auto& group) { group.page = 300; });
  EXPECT_THAT(Grow(501), SizeIs(501));
  EXPECT_EQ(google_.calls("createInstances"), 2);
  EXPECT_THAT(Nodes(), SizeIs(501));
  EXPECT_EQ(google_.calls("listManagedInstances"), 2);
  EXPECT_EQ(google_.calls("instances"), 100) << "the others are asked about in the rounds that follow";
}

TEST_F(InstanceGroupProviderTest, AGroupThatIsNotThereAndOptionsAreRefusedByName) {
  options_.instance_group = "other";
  Restart();
  EXPECT_EQ(provider_->ListNodes().status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(provider_->ListNodes().status().message(), HasSubstr("gcp.instanceGroup \"other\""));
  for (const auto& [field, value] : {std::pair{"gcp.project", &GcpPoolOptions::project},
                                     {"gcp.zone", &GcpPoolOptions::zone},
                                     {"gcp.instanceGroup", &GcpPoolOptions::instance_group},
                                     {"gcp.endpoint", &GcpPoolOptions::endpoint}}) {
    GcpPoolOptions wrong = options_;
    wrong.*value = "../x";
    EXPECT_THAT(std::string(CheckGcpPoolOptions(wrong).message()), StartsWith(field));
  }
}

}  // namespace
}  // namespace adaptdl::autoscaler
