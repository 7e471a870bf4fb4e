// Changes of a replica set while its members run, over real gRPC with played workers and replicas.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/services/supervisor/rescale_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(RescaleTest, APlanNamesNoMembersWhereTheyAreNotWanted) {
  StartOne();
  first_.heart = std::make_unique<Heart>(replicas_.get(), first_.identity, first_.token);
  v1::HeartbeatRequest hello;
  hello.set_omit_members(true);
  first_.heart->Send(hello);
  first_.heart->Next();
  Allocate(job_, {"n1", "n2"});
  const v1::LaunchReplica launch = n2_->NextLaunch();
  n2_->Running(launch);
  second_ = Play(launch, "n2:1");
  const v1::GroupFormed plan = first_.heart->NextCommand().plan().formed();
  EXPECT_EQ(plan.world_size(), 2);
  EXPECT_EQ(plan.master_address(), "n1:1");
  EXPECT_EQ(plan.members_size(), 0);
}

TEST_F(RescaleTest, GrowsWhileTheGroupTrains) {
  StartOne();
  Allocate(job_, {"n2", "n1"});
  const v1::LaunchReplica launch = n2_->NextLaunch();
  EXPECT_EQ(launch.group(), 2);
  EXPECT_EQ(launch.rank(), 1);
  EXPECT_EQ(launch.num_replicas(), 2);
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RESCALING);
  EXPECT_EQ(Get("a").status().group(), 1);
  n2_->Running(launch);
  clock_.Advance(absl::Seconds(2));
  second_ = Play(launch, "n2:1");
  const v1::GroupFormed formed = second_.join->Formed();
  EXPECT_EQ(formed.group(), 2);
  EXPECT_EQ(formed.rank(), 1);
  EXPECT_EQ(formed.master_address(), "n1:1");
  EXPECT_EQ(formed.token(), launch.token());
  const v1::HeartbeatResponse command = first_.heart->NextCommand();
  EXPECT_EQ(command.command(), v1::REPLICA_COMMAND_RESCALE);
  const v1::GroupFormed& plan = command.plan().formed();
  EXPECT_EQ(plan.group(), 2);
  EXPECT_EQ(plan.rank(), 0);
  EXPECT_EQ(plan.token(), launch.token());
  EXPECT_EQ(plan.members(1).address(), "n2:1");
  first_.heart->Acknowledge(command.command_id());
  EXPECT_EQ(first_.heart->Next().command(), v1::REPLICA_COMMAND_NONE);

  const v1::ReplicaIdentity old = first_.identity;
  const std::string old_token = first_.token;
  Enter(&second_, formed);
  const v1::Job after = WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(after.status().group(), 2);
  EXPECT_EQ(after.status().rescales(), 1);
  EXPECT_EQ(after.status().restarts(), 0);
  EXPECT_THAT(after.status().allocation(), ElementsAre("n1", "n2"));
  EXPECT_EQ(after.status().replicas(0).replica_id(), first_.launch.replica_id());
  EXPECT_EQ(after.status().replicas(0).group(), 2);
  // A member on its way speaks for the old group still, and is told again.
  Heart late(replicas_.get(), old, old_token);
  late.BeatWithoutProgress();
  EXPECT_EQ(late.NextCommand().plan().formed().group(), 2);
  Enter(&first_, plan);
  Heart stale(replicas_.get(), old, old_token);
  stale.BeatWithoutProgress();
  EXPECT_EQ(stale.End().error_code(), grpc::StatusCode::ABORTED);

  v1::HeartbeatRequest times;
  times.mutable_rescale()->set_group(2);
  times.mutable_rescale()->mutable_rebuild()->set_nanos(20'000'000);
  times.mutable_rescale()->mutable_synchronize()->set_nanos(30'000'000);
  times.mutable_rescale()->mutable_first_step()->set_nanos(50'000'000);
  first_.heart->Send(times);
  first_.heart->Next();
  first_.heart->Send(times);
  first_.heart->Next();
  EXPECT_EQ(Get("a").status().rescale_duration().nanos(), 100'000'000);
  std::vector<std::string> told;
  for (const v1::Event& event : Events("a")) {
    if (event.reason() == "Rescaled") told.push_back(event.message());
  }
  EXPECT_THAT(told,
              ElementsAre(HasSubstr("group 1 → 2, 1 to 2 replicas; ready after 2s, agreed 0, pause 100ms")));
}

// Newer replicas keep their stream, and number what they report.
TEST_F(RescaleTest, MembersEnterOnTheStreamThatTheyHave) {
  StartOne();
  Allocate(job_, {"n2", "n1"});
  const v1::LaunchReplica launch = n2_->NextLaunch();
  n2_->Running(launch);
  second_ = Play(launch, "n2:1");
  const v1::HeartbeatResponse command = first_.heart->NextCommand();
  const v1::GroupFormed plan = command.plan().formed();

  // What was not heard to be obeyed is said with each answer.
  v1::HeartbeatRequest entered;
  entered.set_acknowledged_command_id(command.command_id());
  entered.mutable_entered_group()->set_group(plan.group());
  entered.mutable_entered_group()->set_token(plan.token());
  entered.mutable_rescale()->set_group(plan.group());
  entered.mutable_rescale()->mutable_rebuild()->set_nanos(20'000'000);
  entered.set_report_id(2);
  first_.heart->Send(entered);
  EXPECT_TRUE(first_.heart->NextAcknowledged(2).takes_reports());
  const v1::Job after = WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(after.status().group(), 2);
  EXPECT_EQ(after.status().rescales(), 1);
  EXPECT_EQ(after.status().rescale_duration().nanos(), 20'000'000);
  // What was not heard to be acknowledged comes again, and what is new has a larger number.
  first_.heart->Send(entered);
  v1::HeartbeatRequest checkpoint;
  checkpoint.mutable_checkpoint()->set_error("the disk is full");
  checkpoint.set_report_id(3);
  first_.heart->Send(checkpoint);
  first_.heart->NextAcknowledged(3);
  EXPECT_EQ(Get("a").status().checkpoint_error(), "the disk is full");
  int rescaled = 0;
  for (const v1::Event& event : Events("a")) rescaled += event.reason() == "Rescaled";
  EXPECT_EQ(rescaled, 1);
  // It is the same stream: the next command comes over it.
  Enter(&second_, second_.join->Formed());
  Allocate(job_, {"n1"});
  EXPECT_EQ(first_.heart->NextCommand().plan().formed().group(), 3);
}

TEST_F(RescaleTest, NobodyEntersWithoutTheGroupsSecret) {
  StartOne();
  Allocate(job_, {"n2", "n1"});
  const v1::LaunchReplica launch = n2_->NextLaunch();
  n2_->Running(launch);
  second_ = Play(launch, "n2:1");
  const v1::GroupFormed plan = first_.heart->NextCommand().plan().formed();
  v1::HeartbeatRequest entered;
  entered.mutable_entered_group()->set_group(plan.group());
  entered.mutable_entered_group()->set_token(first_.token);
  entered.set_report_id(1);
  first_.heart->Send(entered);
  EXPECT_EQ(first_.heart->End().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Get("a").status().group(), 1);
}

TEST_F(RescaleTest, ShrinksAtOnce) {
  StartTwo();
  Allocate(job_, {"n2"});
  const v1::HeartbeatResponse leave = first_.heart->NextCommand();
  EXPECT_EQ(leave.command(), v1::REPLICA_COMMAND_RESCALE);
  EXPECT_EQ(leave.plan().formed().rank(), -1);
  EXPECT_TRUE(leave.plan().formed().token().empty());
  const v1::HeartbeatResponse stay = second_.heart->NextCommand();
  EXPECT_EQ(stay.plan().formed().rank(), 0);
  EXPECT_EQ(stay.plan().formed().master_address(), "n2:1");
  // It leaves before the supervisor hears from those that stay.
  n1_->Exited(first_.launch, 143);
  WaitFor("a",
          [](const v1::Job& job) { return job.status().replicas(0).state() == v1::REPLICA_STATE_EXITED; });
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RESCALING);
  Enter(&second_, stay.plan().formed());
  const v1::Job after = WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  EXPECT_THAT(after.status().allocation(), ElementsAre("n2"));
  EXPECT_EQ(after.status().failures(), 0);
  n2_->Exited(second_.launch, 0);
  WaitForPhase("a", v1::JOB_PHASE_SUCCEEDED);
}

TEST_F(RescaleTest, LeaversThatAreStillThereAreStopped) {
  StartTwo();
  Allocate(job_, {"n2"});
  Enter(&second_, second_.heart->NextCommand().plan().formed());
  EXPECT_EQ(n1_->NextStop().replica_id(), first_.launch.replica_id());
  EXPECT_EQ(ReportHints(first_.identity, first_.token, v1::Hints()).error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(RescaleTest, MovesToOtherNodesInTwoSteps) {
  StartOne();
  Allocate(job_, {"n2"});
  const v1::LaunchReplica launch = n2_->NextLaunch();
  n2_->Running(launch);
  second_ = Play(launch, "n2:1");
  const v1::GroupFormed both = second_.join->Formed();
  EXPECT_EQ(both.world_size(), 2);
  Enter(&second_, both);
  const v1::HeartbeatResponse alone = second_.heart->NextCommand();
  EXPECT_EQ(alone.plan().formed().group(), 3);
  EXPECT_EQ(alone.plan().formed().rank(), 0);
  Enter(&second_, alone.plan().formed());
  EXPECT_EQ(n1_->NextStop().replica_id(), first_.launch.replica_id());
  EXPECT_THAT(WaitForPhase("a", v1::JOB_PHASE_RUNNING).status().allocation(), ElementsAre("n2"));
}

// Each has a whole node, and is to have half of both.
TEST_F(RescaleTest, OfTwoThatWaitForEachOthersSlotsOneShrinksAtOnce) {
  v1::Job spec = NewJob("a");
  spec.mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(2000);
  const auto start = [&](const std::string& name, FakeWorker* worker, std::vector<Player>* players) {
    spec.set_name(name);
    const v1::Job job = Submit(spec);
    const std::string node = worker->node()->node_id();
    Allocate(job, {node, node});
    for (int i = 0; i < 2; ++i) {
      players->push_back(Play(worker->NextLaunch(), absl::StrCat(name, ":", i + 1)));
      worker->Running(players->back().launch);
    }
    WaitForPhase(name, v1::JOB_PHASE_RUNNING);
    for (Player& player : *players) Enter(&player, player.join->Formed());
    return job;
  };
  std::vector<Player> a;
  std::vector<Player> b;
  const v1::Job first = start("a", n1_.get(), &a);
  const v1::Job second = start("b", n2_.get(), &b);
  const grpc::Status applied = Apply({AllocationOf(first, {"n1", "n2"}), AllocationOf(second, {"n2", "n1"})});
  ASSERT_TRUE(applied.ok()) << applied.error_message();
  Advance(absl::Milliseconds(100));
  const v1::GroupFormed alone = a[0].heart->NextCommand().plan().formed();
  EXPECT_EQ(alone.world_size(), 1);
  EXPECT_EQ(Get("b").status().allocation_size(), 2);
  Enter(&a[0], alone);
  EXPECT_EQ(n1_->NextStop().replica_id(), a[1].launch.replica_id());
  n1_->Exited(a[1].launch, 143);
  // The other one gets what it waited for, and leaves in its turn.
  const v1::LaunchReplica newcomer = n1_->NextLaunch();
  EXPECT_EQ(newcomer.job(), "b");
  n1_->Running(newcomer);
  Player joins = Play(newcomer, "b:3");
  const v1::GroupFormed both = joins.join->Formed();
  EXPECT_EQ(both.world_size(), 2);
  Enter(&joins, both);
  EXPECT_EQ(n2_->NextStop().replica_id(), b[1].launch.replica_id());
  n2_->Exited(b[1].launch, 143);
  EXPECT_EQ(n2_->NextLaunch().job(), "a");
  EXPECT_EQ(Get("a").status().restarts() + Get("b").status().restarts(), 0);
}

TEST_F(RescaleTest, GoesOnWithoutAMemberThatCrashed) {
  StartTwo();
  n1_->Exited(first_.launch, 9);
  const v1::HeartbeatResponse command = second_.heart->NextCommand();
  EXPECT_EQ(command.plan().formed().group(), 2);
  EXPECT_EQ(command.plan().formed().world_size(), 1);
  v1::Job job = WaitForPhase("a", v1::JOB_PHASE_RESCALING);
  EXPECT_EQ(job.status().reason(), "Recovering");
  EXPECT_EQ(job.status().failures(), 1);
  Enter(&second_, command.plan().formed());
  job = WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(job.status().group(), 2);
  // Back to what it is to have, after the back-off.
  n1_->Heartbeat();
  n2_->Heartbeat();
  Advance(absl::Seconds(1));
  const v1::LaunchReplica launch = n1_->NextLaunch();
  EXPECT_EQ(launch.group(), 3);
  EXPECT_EQ(Get("a").status().restarts(), 0);
}

TEST_F(RescaleTest, BrokenGroupsGoOnWithThoseThatSaySo) {
  StartTwo();
  second_.heart->Broken(1);
  second_.heart->Next();
  n1_->Heartbeat();
  n2_->Heartbeat();
  Advance(absl::Seconds(6));
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
  Advance(absl::Seconds(1));
  const v1::HeartbeatResponse command = second_.heart->NextCommand();
  EXPECT_EQ(command.plan().formed().world_size(), 1);
  EXPECT_TRUE(command.plan().broken());
  EXPECT_EQ(n1_->NextStop().replica_id(), first_.launch.replica_id());
  EXPECT_EQ(Get("a").status().failures(), 0);
}

TEST_F(RescaleTest, AFrozenMemberThatOthersWaitForIsKilled) {
  StartTwo();
  v1::HeartbeatRequest request;
  for (int64_t seconds = 1; seconds <= 7; seconds += 2) {
    EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
    request.mutable_activity()->mutable_waiting()->set_seconds(seconds);
    second_.heart->Send(request);
    second_.heart->Next();
    n1_->Heartbeat();
    n2_->Heartbeat();
    Advance(absl::Seconds(2));
  }
  const v1::HeartbeatResponse command = second_.heart->NextCommand();
  EXPECT_EQ(command.plan().formed().world_size(), 1);
  EXPECT_TRUE(command.plan().broken());
  const v1::StopReplica stop = n1_->NextStop();
  EXPECT_EQ(stop.replica_id(), first_.launch.replica_id());
  EXPECT_TRUE(stop.has_grace_period());
  EXPECT_EQ(stop.grace_period().seconds(), 0);
  EXPECT_TRUE(HasEvent("a", "ReplicaLost"));
  EXPECT_EQ(Get("a").status().failures(), 0);
}

TEST_F(RescaleTest, AMemberThatHangsIsKilled) {
  StartTwo();
  v1::HeartbeatRequest hangs;
  hangs.mutable_activity()->mutable_idle()->set_seconds(11);
  hangs.mutable_activity()->mutable_patience()->set_seconds(10);
  v1::HeartbeatRequest waits;
  waits.mutable_activity()->mutable_waiting()->set_seconds(9);
  first_.heart->Send(hangs);
  first_.heart->Next();
  second_.heart->Send(waits);
  second_.heart->Next();
  Advance(absl::Seconds(1));
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
  waits.mutable_activity()->mutable_waiting()->set_seconds(10);
  second_.heart->Send(waits);
  second_.heart->Next();
  Advance(absl::Seconds(1));
  EXPECT_EQ(second_.heart->NextCommand().plan().formed().world_size(), 1);
  EXPECT_EQ(n1_->NextStop().replica_id(), first_.launch.replica_id());
}

// Both send heartbeats, and wait for each other.
TEST_F(RescaleTest, OfTwoThatDoNotReachEachOtherOneGoesAndTheNodesAreKeptApart) {
  StartTwo();
  v1::HeartbeatRequest request;
  v1::Activity* activity = request.mutable_activity();
  activity->mutable_waiting()->set_seconds(12);
  activity->mutable_patience()->set_seconds(10);
  activity->mutable_standing()->set_group(1);
  activity->mutable_standing()->set_collective(7);
  activity->mutable_standing()->mutable_stalled()->set_seconds(11);
  activity->mutable_standing()->set_peer(1);
  first_.heart->Send(request);
  first_.heart->Next();
  activity->mutable_standing()->set_peer(0);
  second_.heart->Send(request);
  second_.heart->Next();
  Advance(absl::Seconds(1));
  const v1::GroupFormed next = first_.heart->NextCommand().plan().formed();
  EXPECT_EQ(next.world_size(), 1);
  EXPECT_EQ(n2_->NextStop().replica_id(), second_.launch.replica_id());
  n2_->Exited(second_.launch, 75);
  const auto unreachable = [&] {
    std::vector<std::string> pairs;
    const v1::ClusterSnapshot snapshot = Snapshot();
    for (const v1::Node& node : snapshot.nodes()) {
      for (const std::string& other : node.status().unreachable_nodes()) {
        pairs.push_back(absl::StrCat(node.node_id(), "-", other));
      }
    }
    return pairs;
  };
  EXPECT_THAT(unreachable(), ElementsAre("n1-n2", "n2-n1"));
  // Nothing is launched there, though the allocator wants it still.
  Enter(&first_, next);
  Advance(absl::Seconds(10));
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(Get("a").status().allocation_size(), 1);
  Advance(absl::Seconds(20));
  EXPECT_THAT(unreachable(), ElementsAre());
  EXPECT_EQ(n2_->NextLaunch().num_replicas(), 2);
}

TEST_F(RescaleTest, BrokenGroupsGoOnAtOnceWhenAllSaySo) {
  StartTwo();
  first_.heart->Broken(1);
  second_.heart->Broken(1);
  EXPECT_EQ(first_.heart->NextCommand().plan().formed().world_size(), 2);
  EXPECT_EQ(second_.heart->NextCommand().plan().formed().rank(), 1);
}

TEST_F(RescaleTest, ANewcomerThatFailsHoldsNobodyUp) {
  StartOne();
  Allocate(job_, {"n1", "n2"});
  const v1::LaunchReplica launch = n2_->NextLaunch();
  n2_->Running(launch);
  n2_->Exited(launch, 1);
  const v1::Job job = WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(job.status().failures(), 0);
  EXPECT_TRUE(job.status().has_retry_time());
  EXPECT_TRUE(HasEvent("a", "NewcomerLost"));
  n1_->Heartbeat();
  n2_->Heartbeat();
  Advance(absl::Seconds(1));
  EXPECT_EQ(n2_->NextLaunch().group(), 3);
}

TEST_F(RescaleTest, NewcomersWaitForRoom) {
  auto n3 = AddWorker("n3", 1000);
  StartOne();
  const v1::Job other = Submit(NewJob("b"));
  Allocate(other, {"n3"});
  const v1::LaunchReplica held = n3->NextLaunch();
  n3->Running(held);
  WaitForPhase("b", v1::JOB_PHASE_RUNNING);
  EXPECT_TRUE(Apply({AllocationOf(other, {}), AllocationOf(job_, {"n1", "n3"})}).ok());
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RESCALING);
  EXPECT_EQ(n3->NextStop().replica_id(), held.replica_id());
  n3->Exited(held, 143);
  EXPECT_EQ(n3->NextLaunch().job(), "a");
}

TEST_F(RescaleTest, AGroupThatWasEnteredMayBeEnteredAgain) {
  StartTwo();
  Allocate(job_, {"n2"});
  const v1::HeartbeatResponse command = second_.heart->NextCommand();
  const v1::GroupFormed& plan = command.plan().formed();
  v1::HeartbeatRequest entered;
  entered.set_acknowledged_command_id(command.command_id());
  entered.mutable_entered_group()->set_group(plan.group());
  entered.mutable_entered_group()->set_token(plan.token());
  entered.set_report_id(1);
  second_.heart->Send(entered);
  second_.heart->NextAcknowledged(1);
  second_.heart->Send(entered);
  EXPECT_EQ(second_.heart->Next().command(), v1::REPLICA_COMMAND_NONE);
  Heart old(replicas_.get(), second_.identity, second_.token);
  old.BeatWithoutProgress();
  EXPECT_EQ(old.End().error_code(), grpc::StatusCode::ABORTED) << "it has left the group before";
  Enter(&second_, plan);
  second_.heart->Send(entered);
  second_.heart->NextAcknowledged(1);
  EXPECT_EQ(Get("a").status().rescales(), 1);
}

TEST_F(RescaleTest, AChangeOfMindIsANewerPlan) {
  StartTwo();
  Allocate(job_, {"n1"});
  const v1::HeartbeatResponse shrink = first_.heart->NextCommand();
  EXPECT_EQ(shrink.plan().formed().group(), 2);
  first_.heart->Acknowledge(shrink.command_id());
  first_.heart->Next();
  Allocate(job_, {"n1", "n2"});
  // The replicas have chosen the older plan meanwhile.
  Enter(&first_, shrink.plan().formed());
  n2_->Exited(second_.launch, 143);
  // Whoever was told to leave does not come back: another one is started where it has made room.
  const v1::LaunchReplica launch = n2_->NextLaunch();
  EXPECT_NE(launch.replica_id(), second_.launch.replica_id());
  EXPECT_GT(launch.group(), 2);
  n2_->Running(launch);
  const Player newcomer = Play(launch, "n2:2");
  const v1::GroupFormed formed = newcomer.join->Formed();
  EXPECT_GE(formed.group(), launch.group());
  EXPECT_EQ(formed.rank(), 1);
  EXPECT_EQ(formed.newcomers(), 1);
  EXPECT_EQ(Get("a").status().failures(), 0);
}

TEST_F(RescaleTest, JobsThatAskForItRestart) {
  v1::Job spec = NewJob("a");
  spec.mutable_spec()->set_rescale(v1::RESCALE_MODE_RESTART);
  StartOne(spec);
  Allocate(job_, {"n1", "n2"});
  EXPECT_EQ(n1_->NextStop().replica_id(), first_.launch.replica_id());
}

TEST_F(RescaleTest, CancelStopsNewcomersToo) {
  StartOne();
  Allocate(job_, {"n1", "n2"});
  const v1::LaunchReplica launch = n2_->NextLaunch();
  n2_->Running(launch);
  EXPECT_TRUE(Cancel("a").ok());
  EXPECT_EQ(n1_->NextStop().replica_id(), first_.launch.replica_id());
  EXPECT_EQ(n2_->NextStop().replica_id(), launch.replica_id());
  n1_->Exited(first_.launch, 143);
  n2_->Exited(launch, 143);
  WaitForPhase("a", v1::JOB_PHASE_CANCELLED);
}

}  // namespace
}  // namespace adaptdl::supervisor
