// Changes of a replica set that another supervisor goes on with.

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "tests/services/supervisor/rescale_fixture.h"

namespace adaptdl::supervisor {
namespace {

class RescaleRestartTest : public RescaleTest {
 protected:
  // Another supervisor, on a store that kept nothing of how the replicas are reached.
  void BeginAnew() {
    first_.heart = nullptr;
    second_.heart = nullptr;
    first_.join = nullptr;
    second_.join = nullptr;
    n1_ = nullptr;
    n2_ = nullptr;
    Stop();
    {
      const std::unique_ptr<JobStore> store = MakeStore();
      WriteBatch batch;
      batch.put_replicas = store->Load(absl::Now()).value().replicas;
      for (ReplicaRecord& replica : batch.put_replicas) {
        replica.address.clear();
        replica.rescales_in_place = replica.launch_group == 1;  // What is known of members.
        replica.replica.set_joined(false);
      }
      ASSERT_TRUE(store->Commit(batch).ok());
    }
    Start();
  }
};

TEST_F(RescaleRestartTest, ARestartedSupervisorOffersThePlanAgain) {
  StartOne();
  Allocate(job_, {"n1", "n2"});
  const v1::LaunchReplica launch = n2_->NextLaunch();
  n2_->Running(launch);
  second_ = Play(launch, "n2:1");
  second_.join->Formed();
  first_.heart->NextCommand();
  first_.heart = nullptr;
  second_.join = nullptr;
  first_.join = nullptr;
  n1_ = nullptr;
  n2_ = nullptr;
  Stop();
  Start();
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RESCALING);
  Heart again(replicas_.get(), first_.identity, first_.token);
  v1::HeartbeatRequest request;
  request.set_acknowledged_command_id(7);
  again.Send(request);
  const v1::HeartbeatResponse command = again.NextCommand();
  EXPECT_EQ(command.plan().formed().group(), 2);
  EXPECT_GT(command.command_id(), 7);
  Join newcomer(replicas_.get(), second_.identity, second_.token, "n2:1", true);
  Enter(&second_, newcomer.Formed());
  EXPECT_EQ(WaitForPhase("a", v1::JOB_PHASE_RUNNING).status().group(), 2);
}

// A supervisor that is started again knows what was acknowledged: it is told again, and counts once.
// Not every store keeps where replicas are reached.
TEST_F(RescaleRestartTest, APlanIsToldAgainOnceAllHaveSaidAgainWhereTheyAre) {
  StartOne();
  Allocate(job_, {"n1", "n2"});
  const v1::LaunchReplica launch = n2_->NextLaunch();
  n2_->Running(launch);
  second_ = Play(launch, "n2:1");
  second_.join->Formed();
  first_.heart->NextCommand();
  BeginAnew();
  const Join newcomer(replicas_.get(), second_.identity, second_.token, "n2:1", true);
  Heart member(replicas_.get(), first_.identity, first_.token);
  member.BeatWithoutProgress();
  EXPECT_EQ(member.Next().command(), v1::REPLICA_COMMAND_NONE);
  const Join again(replicas_.get(), first_.identity, first_.token, "n1:1", true);
  const v1::GroupFormed plan = member.NextCommand().plan().formed();
  EXPECT_EQ(plan.group(), launch.group());
  EXPECT_EQ(plan.master_address(), "n1:1");
  ASSERT_EQ(plan.members_size(), 2);
  EXPECT_EQ(plan.members(1).address(), "n2:1");
  Join late(replicas_.get(), second_.identity, second_.token, "n2:1", true);
  EXPECT_EQ(late.Formed().members(0).address(), "n1:1");
}

// Nobody is stopped for a wish that comes before all have.
TEST_F(RescaleRestartTest, AJobIsLeftAloneUntilItsMembersHaveJoinedAgain) {
  StartTwo();
  BeginAnew();
  Allocate(job_, {"n2"});
  Heart first(replicas_.get(), first_.identity, first_.token);
  first.BeatWithoutProgress();
  EXPECT_EQ(first.Next().command(), v1::REPLICA_COMMAND_NONE);
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
  const Join first_again(replicas_.get(), first_.identity, first_.token, "n1:1", true);
  const Join second_again(replicas_.get(), second_.identity, second_.token, "n2:1", true);
  EXPECT_EQ(first.NextCommand().plan().formed().rank(), -1);
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RESCALING);
  EXPECT_EQ(Get("a").status().restarts(), 0);
  int met = 0;
  for (const v1::Event& event : Events("a")) met += event.reason() == "RendezvousComplete";
  EXPECT_EQ(met, 1) << "they had met before";
}

TEST_F(RescaleRestartTest, AJobWhoseMembersDoNotJoinAgainRestartsIfItHasTo) {
  options_.cluster.policy.rejoin_patience = absl::Seconds(10);
  StartTwo();
  BeginAnew();
  Allocate(job_, {"n2"});
  const Join first_again(replicas_.get(), first_.identity, first_.token, "n1:1", true);
  Advance(absl::Seconds(9));
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
  Advance(absl::Seconds(1));
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_STOPPING);
}

TEST_F(RescaleRestartTest, WhatARestartedSupervisorIsToldAgainCountsOnce) {
  StartOne();
  Allocate(job_, {"n1", "n2"});
  const v1::LaunchReplica launch = n2_->NextLaunch();
  n2_->Running(launch);
  second_ = Play(launch, "n2:1");
  const v1::GroupFormed plan = first_.heart->NextCommand().plan().formed();
  v1::HeartbeatRequest report;
  report.mutable_entered_group()->set_group(plan.group());
  report.mutable_entered_group()->set_token(plan.token());
  report.mutable_rescale()->set_group(plan.group());
  report.mutable_rescale()->mutable_rebuild()->set_nanos(20'000'000);
  report.set_report_id(2);
  first_.heart->Send(report);
  first_.heart->NextAcknowledged(2);
  first_.heart = nullptr;
  first_.join = nullptr;
  second_.join = nullptr;
  n1_ = nullptr;
  n2_ = nullptr;
  Stop();
  Start();
  EXPECT_EQ(Get("a").status().group(), plan.group());
  first_.identity.set_group(plan.group());
  Heart again(replicas_.get(), first_.identity, plan.token());
  report.clear_entered_group();
  again.Send(report);
  again.NextAcknowledged(2);
  EXPECT_EQ(Get("a").status().rescales(), 1);
  EXPECT_EQ(Get("a").status().rescale_duration().nanos(), 20'000'000);
  int rescaled = 0;
  for (const v1::Event& event : Events("a")) rescaled += event.reason() == "Rescaled";
  EXPECT_EQ(rescaled, 1);
}

// Its supervisor may have committed the change before the stream broke.

}  // namespace
}  // namespace adaptdl::supervisor
