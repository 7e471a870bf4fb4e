// Nodes that go away, or may: what their jobs are told, and what the allocator sees.

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "libs/jobspec/placement.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LeavingTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    n1_ = AddWorker("n1");
    job_ = Submit(NewJob("a"));
    Allocate(job_, {"n1"});
    launch_ = n1_->NextLaunch();
    n1_->Running(launch_);
    WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  }

  v1::Node GetNode() {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListNodesResponse response;
    EXPECT_TRUE(nodes_->ListNodes(&context, {}, &response).ok());
    EXPECT_EQ(response.nodes_size(), 1);
    return response.nodes_size() == 1 ? response.nodes(0) : v1::Node();
  }
  void Notice(const v1::PreemptionNotice& notice) {
    v1::ConnectRequest request;
    *request.mutable_preemption_notice() = notice;
    n1_->Send(request);
    n1_->AwaitHeard();
  }
  v1::PreemptionNotice Certain(absl::Duration left) const {
    v1::PreemptionNotice notice;
    notice.set_reason("spot reclaim");
    notice.mutable_deadline()->set_seconds(absl::ToUnixSeconds(clock_.Now() + left));
    return notice;
  }
  static v1::PreemptionNotice Likely() {
    v1::PreemptionNotice notice;
    notice.set_reason("rebalance");
    notice.set_likely_only(true);
    return notice;
  }
  std::vector<v1::Event> EventsOf(const std::string& reason) {
    std::vector<v1::Event> found;
    for (const v1::Event& event : Events("a")) {
      if (event.reason() == reason) found.push_back(event);
    }
    return found;
  }
  bool IsMarked() {
    const v1::Node node = GetNode();
    return node.taints_size() == 1 && node.taints(0).key() == jobspec::kLikelyToLeave;
  }
  void Register(const std::optional<v1::PreemptionNotice>& notice) {
    n1_->Disconnect();
    n1_->leaving = notice;
    ASSERT_TRUE(n1_->Register().ok());
    n1_->Connect({FakeWorker::ReportOf(launch_, v1::REPLICA_STATE_RUNNING)});
    n1_->AwaitHeard();
  }

  std::unique_ptr<FakeWorker> n1_;
  v1::Job job_;
  v1::LaunchReplica launch_;
};

TEST_F(LeavingTest, JobsAreToldWhichNodeGoesWhenAndWhy) {
  Notice(Certain(absl::Seconds(30)));
  const std::vector<v1::Event> events = EventsOf("NodePreempted");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].message(), "node n1 goes away, 30 s are left: spot reclaim");
  EXPECT_EQ(events[0].node_id(), "n1");
  EXPECT_EQ(GetNode().status().preemption_time().seconds(), absl::ToUnixSeconds(clock_.Now()) + 30);
}

TEST_F(LeavingTest, OnlyAnEarlierEndIsNews) {
  Notice(Certain(absl::Seconds(120)));
  Notice(Certain(absl::Seconds(120)));
  Notice(Certain(absl::Seconds(180)));
  EXPECT_EQ(GetNode().status().preemption_time().seconds(), absl::ToUnixSeconds(clock_.Now()) + 120);
  EXPECT_THAT(EventsOf("NodePreempted"), SizeIs(1));
  Notice(Certain(absl::Seconds(10)));
  EXPECT_EQ(GetNode().status().preemption_time().seconds(), absl::ToUnixSeconds(clock_.Now()) + 10);
}

TEST_F(LeavingTest, ANoticeThatComesWithARegistrationIsToldAsWell) {
  Register(Certain(absl::Seconds(30)));
  EXPECT_EQ(GetNode().status().phase(), v1::NODE_PHASE_DRAINING);
  EXPECT_THAT(EventsOf("NodePreempted"), SizeIs(1));
  // It says so whenever it registers, and on each stream.
  Register(n1_->leaving);
  Notice(*n1_->leaving);
  EXPECT_THAT(EventsOf("NodePreempted"), SizeIs(1));
}

TEST_F(LeavingTest, ANodeThatMayGoTakesNothingNewAndKeepsWhatItHas) {
  Notice(Likely());
  const v1::Node node = GetNode();
  EXPECT_EQ(node.status().phase(), v1::NODE_PHASE_DRAINING);
  EXPECT_FALSE(node.status().has_preemption_time());
  EXPECT_EQ(node.status().message(), "may be taken away: rebalance");
  EXPECT_TRUE(IsMarked());
  EXPECT_EQ(Snapshot().nodes(0).taints(0).key(), jobspec::kLikelyToLeave) << "the allocator sees it";
  EXPECT_THAT(EventsOf("NodeLikelyPreempted"), SizeIs(1));
  EXPECT_THAT(EventsOf("NodePreempted"), IsEmpty());
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(Apply({AllocationOf(Submit(NewJob("b")), {"n1"})}).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(LeavingTest, WhatIsCertainReplacesWhatIsLikely) {
  Notice(Likely());
  Notice(Certain(absl::Seconds(30)));
  EXPECT_TRUE(GetNode().status().has_preemption_time());
  EXPECT_FALSE(IsMarked());
  EXPECT_THAT(EventsOf("NodePreempted"), SizeIs(1));
  Notice(Likely());
  EXPECT_TRUE(GetNode().status().has_preemption_time()) << "and is not taken back";
  EXPECT_FALSE(IsMarked());
}

TEST_F(LeavingTest, LikelihoodLastsOverRegistrationsThatSayItAndNoLonger) {
  Notice(Likely());
  Register(Likely());
  EXPECT_TRUE(IsMarked());
  EXPECT_THAT(EventsOf("NodeLikelyPreempted"), SizeIs(1));
  Register(std::nullopt);
  EXPECT_EQ(GetNode().status().phase(), v1::NODE_PHASE_READY);
  EXPECT_FALSE(IsMarked());
}

TEST_F(LeavingTest, AnAdministratorsDrainIsMoreThanALikelihood) {
  Notice(Likely());
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::DrainNodeRequest request;
  request.set_request_id("drain");
  request.set_node_id("n1");
  request.set_reason("maintenance");
  v1::DrainNodeResponse response;
  ASSERT_TRUE(nodes_->DrainNode(&context, request, &response).ok());
  EXPECT_EQ(GetNode().status().message(), "maintenance");
  EXPECT_FALSE(IsMarked());
  Notice(Likely());
  EXPECT_FALSE(IsMarked());
  Register(std::nullopt);
  EXPECT_EQ(GetNode().status().phase(), v1::NODE_PHASE_DRAINING);
}

TEST_F(LeavingTest, WhatTheCloudCallsAMachineIsBounded) {
  n1_->node()->set_instance_id("i-0123");
  Register(std::nullopt);
  EXPECT_EQ(GetNode().instance_id(), "i-0123");
  n1_->node()->set_instance_id(std::string(1000, 'i'));
  EXPECT_THAT(n1_->Register().error_message(), HasSubstr("node.instance_id"));
}

}  // namespace
}  // namespace adaptdl::supervisor
