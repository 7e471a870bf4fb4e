#include "services/autoscaler/providers/aws/group_provider.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/aws/aws_fixture.h"
#include "tests/services/autoscaler/providers/aws/fake_scaling_group.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class GroupProviderTest : public ::testing::Test {
 protected:
  GroupProviderTest() {
    options_.pool = "training";
    options_.state_dir =
        ::testing::TempDir() + "/group-" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(options_.state_dir);
    options_.region = "eu-west-1";
    options_.endpoint = amazon_.url();
    options_.auto_scaling_group = "workers";
    Restart();
  }

  // As after a crash: nothing but the folder and the cloud know anything.
  void Restart() {
    provider_.reset();
    auto provider =
        GroupProvider::Create(options_, {&http_, &credentials_, &clock_, &pauses_, [] { return 0.5; }});
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
  void Grow(int count) {
    const absl::Status status = provider_->CreateNodes(count, {}).status;
    ASSERT_TRUE(status.ok()) << status;
  }

  ManualClock clock_;
  FakeScalingGroup amazon_{&clock_};
  HttpClient http_{{}};
  aws::CountedCredentials credentials_;
  aws::ManualPauses pauses_{&clock_};
  AwsPoolOptions options_;
  std::unique_ptr<GroupProvider> provider_;
};

TEST_F(GroupProviderTest, GrowsTheGroupAndFindsItsMachines) {
  const NodePoolProvider::Created created = provider_->CreateNodes(2, {});
  EXPECT_TRUE(created.status.ok()) << created.status;
  EXPECT_THAT(created.node_ids, ElementsAre("training-requested-0", "training-requested-1"));
  const std::vector<ProvidedNode> nodes = Nodes();
  ASSERT_THAT(nodes, SizeIs(2));
  EXPECT_EQ(nodes[0].node_id, "i-0");
  EXPECT_EQ(nodes[0].state, ProvidedState::kAlive);
  EXPECT_EQ(nodes[0].instance_id, "i-0");
  EXPECT_EQ(nodes[0].address, "10.0.0.7");
  EXPECT_TRUE(nodes[0].create_time.has_value());
  Grow(1);
  EXPECT_EQ(amazon_.group().desired, 3);
  EXPECT_THAT(Ids(), ElementsAre("i-0", "i-1", "i-2"));
}

TEST_F(GroupProviderTest, WhatIsStillToComeIsRequested) {
  amazon_.Change([](auto& group) { group.settles_at_once = false; });
  Grow(2);
  EXPECT_THAT(Ids(), ElementsAre("training-requested-0", "training-requested-1"));
  EXPECT_EQ(Nodes()[0].state, ProvidedState::kRequested);
  EXPECT_THAT(Nodes()[0].instance_id, IsEmpty()) << "nothing is there that could cost";
  Restart();
  EXPECT_THAT(Ids(), SizeIs(2));
  amazon_.Settle();
  amazon_.Change([](auto& group) {
    group.machines["i-1"].lifecycle = "Pending";
    group.machines["i-1"].state = "pending";
  });
  EXPECT_THAT(Ids(), ElementsAre("i-0", "i-1"));
  EXPECT_EQ(Nodes()[1].state, ProvidedState::kRequested);
}

TEST_F(GroupProviderTest, EndsTheMachineThatIsNamed) {
  Grow(3);
  EXPECT_TRUE(provider_->TerminateNode("i-1").ok());
  EXPECT_EQ(amazon_.group().desired, 2) << "no other one is made in its place";
  EXPECT_EQ(Nodes()[1].state, ProvidedState::kStopping);
  EXPECT_THAT(Ids(), ElementsAre("i-0", "i-1", "i-2"));
  // Once more does nothing more; nor does a strange one.
  EXPECT_TRUE(provider_->TerminateNode("i-1").ok());
  Restart();
  EXPECT_TRUE(provider_->TerminateNode("i-1").ok());
  EXPECT_TRUE(provider_->TerminateNode("i-unknown").ok());
  EXPECT_EQ(amazon_.group().desired, 2);
  amazon_.Change([](auto& group) { group.machines["i-1"].state = "terminated"; });
  EXPECT_THAT(Ids(), ElementsAre("i-0", "i-2"));
}

TEST_F(GroupProviderTest, ALostAnswerOfAnEndEndsNothingElse) {
  Grow(2);
  amazon_.LoseNext("TerminateInstanceInAutoScalingGroup");
  EXPECT_EQ(provider_->TerminateNode("i-0").code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(provider_->TerminateNode("i-0").ok());
  EXPECT_EQ(amazon_.calls("TerminateInstanceInAutoScalingGroup"), 1);
  EXPECT_EQ(amazon_.group().desired, 1);
}

TEST_F(GroupProviderTest, WantOfCapacityIsSaidOfWhatIsRequestedWhichIsTakenBack) {
  amazon_.Change([](auto& group) { group.capacity = 1; });
  Grow(3);
  std::vector<ProvidedNode> nodes = Nodes();
  ASSERT_THAT(nodes, SizeIs(3));
  EXPECT_THAT(nodes[0].hindrance, IsEmpty());
  EXPECT_THAT(nodes[1].hindrance, HasSubstr("InsufficientInstanceCapacity"));
  EXPECT_TRUE(provider_->TerminateNode("training-requested-1").ok());
  EXPECT_TRUE(provider_->TerminateNode("training-requested-0").ok());
  EXPECT_EQ(amazon_.group().desired, 1);
  EXPECT_THAT(Ids(), ElementsAre("i-0"));
  EXPECT_TRUE(provider_->TerminateNode("training-requested-0").ok()) << "it has come, or is withdrawn";
  EXPECT_EQ(amazon_.group().desired, 1);
}

TEST_F(GroupProviderTest, AFailureOfThePastHindersNothing) {
  amazon_.Change([](auto& group) { group.capacity = 0; });
  Grow(1);
  EXPECT_THAT(Nodes()[0].hindrance, HasSubstr("InsufficientInstanceCapacity"));
  EXPECT_TRUE(provider_->TerminateNode("training-requested-0").ok());
  amazon_.Change([](auto& group) { group.settles_at_once = false; });
  clock_.Advance(absl::Minutes(1));
  Grow(1);
  EXPECT_THAT(Nodes()[0].hindrance, IsEmpty());
  Restart();
  EXPECT_THAT(Nodes()[0].hindrance, HasSubstr("InsufficientInstanceCapacity")) << "it may be of now";
  clock_.Advance(absl::Minutes(16));
  EXPECT_THAT(Nodes()[0].hindrance, IsEmpty());
}

TEST_F(GroupProviderTest, TheGroupsBoundsAreRespectedAndTold) {
  amazon_.Change([](auto& group) { group.max_size = 2; });
  const NodePoolProvider::Created created = provider_->CreateNodes(3, {});
  EXPECT_THAT(created.node_ids, SizeIs(2));
  EXPECT_EQ(created.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(created.status.message(), HasSubstr("MaxSize 2, 3 more are wanted: raise MaxSize"));
  EXPECT_THAT(provider_->CreateNodes(1, {}).node_ids, IsEmpty());
  amazon_.Change([](auto& group) { group.min_size = 2; });
  const absl::Status status = provider_->TerminateNode("i-0");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("lower MinSize"));
  EXPECT_EQ(amazon_.living(), 2);
}

// The program dies at each point: before Amazon hears of it, and after the group was resized.
TEST_F(GroupProviderTest, ACrashAtAnyPointNeitherDoublesNorLoses) {
  for (const bool carried_out : {false, true}) {
    for (const bool settles : {false, true}) {
      SCOPED_TRACE(absl::StrCat(carried_out, settles));
      const int before = amazon_.group().desired;
      amazon_.Change([&](auto& group) { group.settles_at_once = settles; });
      options_.patience = absl::ZeroDuration();
      Restart();
      if (carried_out) {
        amazon_.LoseNext("SetDesiredCapacity");
      } else {
        amazon_.FailNext("SetDesiredCapacity", "Throttling");
      }
      EXPECT_FALSE(provider_->CreateNodes(2, {}).status.ok());
      EXPECT_EQ(amazon_.group().desired, before + (carried_out ? 2 : 0));
      // What is remembered is in the folder alone.
      Restart();
      EXPECT_THAT(Ids(), SizeIs(before + 2));
      EXPECT_EQ(amazon_.group().desired, before + 2);
      amazon_.Settle();
      EXPECT_THAT(Ids(), SizeIs(before + 2));
      EXPECT_EQ(amazon_.living(), before + 2);
    }
  }
  // Nothing is left in the journal but the lock.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(options_.state_dir + "/creations"), {}), 1);
}

TEST_F(GroupProviderTest, ANumberOfLongAgoIsNotAskedForAgain) {
  options_.patience = absl::ZeroDuration();
  Restart();
  amazon_.FailNext("SetDesiredCapacity", "Throttling");
  EXPECT_FALSE(provider_->CreateNodes(2, {}).status.ok());
  clock_.Advance(absl::Hours(1));
  Restart();
  EXPECT_THAT(Ids(), IsEmpty());
  EXPECT_EQ(amazon_.group().desired, 0);
}

// The group shows late what it was told: what was asked for counts all the same.
TEST_F(GroupProviderTest, AGroupThatShowsItsSizeLateIsNotResizedTwice) {
  Grow(3);
  amazon_.Change([](auto& group) { group.desired = 1; });
  EXPECT_THAT(Ids(), SizeIs(3));
  Grow(1);
  EXPECT_EQ(amazon_.group().desired, 4);
}

TEST_F(GroupProviderTest, ARefusalForGoodIsForgotten) {
  amazon_.FailNext("SetDesiredCapacity", "AccessDenied");
  EXPECT_EQ(provider_->CreateNodes(1, {}).status.code(), absl::StatusCode::kPermissionDenied);
  Restart();
  EXPECT_THAT(Ids(), IsEmpty());
  EXPECT_EQ(amazon_.calls("SetDesiredCapacity"), 1);
}

TEST_F(GroupProviderTest, ThrottlingAndExpiredCredentialsAreGotOver) {
  amazon_.FailNext("SetDesiredCapacity", "Throttling", 3);
  Grow(1);
  amazon_.FailNext("DescribeAutoScalingGroups", "ExpiredToken");
  EXPECT_THAT(Ids(), ElementsAre("i-0"));
  EXPECT_EQ(credentials_.refused(), 1);
}

TEST_F(GroupProviderTest, AMachineThatIsTakenBackIsReplacedByTheGroup) {
  Grow(2);
  amazon_.Change([](auto& group) {
    group.machines["i-0"].state = "shutting-down";
    group.machines["i-0"].reason = "Server.SpotInstanceTermination";
  });
  // The group does not know it yet; what it will do counts already.
  std::vector<ProvidedNode> nodes = Nodes();
  ASSERT_THAT(nodes, SizeIs(3));
  EXPECT_EQ(nodes[0].state, ProvidedState::kStopping);
  EXPECT_THAT(nodes[0].hindrance, HasSubstr("SpotInstanceTermination"));
  EXPECT_EQ(nodes[2].node_id, "training-requested-0");
  // It needs no end, which would take the other one's place away.
  EXPECT_TRUE(provider_->TerminateNode("i-0").ok());
  EXPECT_EQ(amazon_.group().desired, 2);
  amazon_.Change([](auto& group) { group.machines["i-0"].lifecycle = "Terminating"; });
  amazon_.Settle();
  EXPECT_THAT(Ids(), ElementsAre("i-0", "i-1", "i-2"));
  EXPECT_EQ(provider_->RestartNode("i-0").code(), absl::StatusCode::kUnimplemented);
}

TEST_F(GroupProviderTest, NothingIsDoneByWhichAmazonCouldEndAMachineOfItsChoice) {
  amazon_.Change([](auto& group) { group.protects_new = false; });
  const NodePoolProvider::Created created = provider_->CreateNodes(1, {});
  EXPECT_EQ(created.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(created.status.message(), HasSubstr("NewInstancesProtectedFromScaleIn"));
  amazon_.Change([](auto& group) { group.protects_new = true; });
  Grow(1);
  amazon_.Change([](auto& group) {
    group.machines["i-0"].is_protected = false;
    group.capacity = 0;
  });
  Grow(1);
  EXPECT_EQ(provider_->TerminateNode("training-requested-0").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(amazon_.living(), 1);
}

TEST_F(GroupProviderTest, AMachineInStandbyIsNoLongerHeld) {
  Grow(1);
  amazon_.Change([](auto& group) {
    group.machines["i-0"].lifecycle = "Standby";
    group.desired = 0;
  });
  EXPECT_EQ(Nodes()[0].state, ProvidedState::kReleased);
  EXPECT_EQ(provider_->TerminateNode("i-0").code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(GroupProviderTest, AGroupThatIsNotThereOrGoesIsNamed) {
  amazon_.Change([](auto& group) { group.status = "Delete in progress"; });
  EXPECT_THAT(provider_->ListNodes().status().message(), HasSubstr("Delete in progress"));
  options_.auto_scaling_group = "other";
  Restart();
  EXPECT_EQ(provider_->ListNodes().status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(provider_->ListNodes().status().message(), HasSubstr("aws.autoScalingGroup \"other\""));
}

}  // namespace
}  // namespace adaptdl::autoscaler
