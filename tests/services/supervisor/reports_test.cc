// However often replicas and nodes report something, what is stored of it is bounded, and counted.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/rpc/retry_info.h"
#include "libs/rpc/status.h"
#include "services/supervisor/state/transaction.h"
#include "services/supervisor/store/convert.h"
#include "tests/services/supervisor/cluster_fixture.h"
#include "tests/services/supervisor/job_records.h"
#include "tests/services/supervisor/replica_calls.h"

namespace adaptdl::supervisor {
namespace {

class ReportsTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    n1_ = AddWorker("n1");
    n2_ = AddWorker("n2");
    Allocate(Submit(NewJob("a")), {"n1", "n2"});
    rank0_ = n1_->NextLaunch();
    rank1_ = n2_->NextLaunch();
    n1_->Running(rank0_);
    n2_->Running(rank1_);
    WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  }

  Heart MakeHeart(const v1::LaunchReplica& launch) {
    return {replicas_.get(), IdentityOf(launch), launch.token()};
  }
  static void Report(Heart* heart, const std::string& error) {
    v1::HeartbeatRequest request;
    request.mutable_checkpoint()->set_step(1);
    request.mutable_checkpoint()->set_error(error);
    heart->Send(request);
  }
  std::vector<v1::Event> EventsOf(const std::string& reason) {
    std::vector<v1::Event> events = Events("a");
    std::erase_if(events, [&](const v1::Event& event) { return event.reason() != reason; });
    return events;
  }

  std::unique_ptr<FakeWorker> n1_;
  std::unique_ptr<FakeWorker> n2_;
  v1::LaunchReplica rank0_;
  v1::LaunchReplica rank1_;
};

TEST_F(ReportsTest, ACheckpointErrorThatComesAndGoesIsStoredNowAndThenAndCounted) {
  constexpr int kTimes = 1000;
  const int before = memory_->commits();
  {
    Heart heart = MakeHeart(rank0_);
    const auto report = [&](const std::string& error) {
      Report(&heart, error);
      heart.Next();
    };
    for (int i = 0; i < kTimes; ++i) {
      report(absl::StrCat("disk full ", i));
      report("");
    }
    report("the last words");
  }
  EXPECT_LE(memory_->commits() - before, 25);
  EXPECT_EQ(EventsOf("CheckpointFailed").size(), 1u);
  EXPECT_EQ(EventsOf("CheckpointWritten").size(), 1u);
  const absl::Time begin = clock_.Now();
  Advance(absl::Seconds(5));
  EXPECT_LE(memory_->commits() - before, 30);
  EXPECT_EQ(Get("a").status().checkpoint_error(), "the last words");
  ASSERT_EQ(EventsOf("CheckpointFailed").size(), 1u);
  ASSERT_EQ(EventsOf("CheckpointWritten").size(), 1u);
  const v1::Event failed = EventsOf("CheckpointFailed")[0];
  EXPECT_EQ(failed.count(), kTimes + 1);
  EXPECT_EQ(ToTime(failed.first_time()), begin);
  EXPECT_GT(ToTime(failed.time()), begin);
  EXPECT_NE(failed.message().find("the last words"), std::string::npos);
  EXPECT_EQ(EventsOf("CheckpointWritten")[0].count(), kTimes);
}

// Its acknowledgement was lost with the first stream.
TEST_F(ReportsTest, AReportThatIsToldOverTwoStreamsCountsOnce) {
  v1::HeartbeatRequest report;
  report.mutable_checkpoint()->set_step(1);
  report.mutable_checkpoint()->set_error("disk full");
  report.set_report_id(3);
  for (int i = 0; i < 2; ++i) {
    Heart heart = MakeHeart(rank0_);
    heart.Send(report);
    heart.Send(report);
    EXPECT_EQ(heart.NextAcknowledged(3).acknowledged_report_id(), 3);
  }
  ASSERT_EQ(EventsOf("CheckpointFailed").size(), 1u);
  EXPECT_EQ(EventsOf("CheckpointFailed")[0].count(), 0) << "it was not repeated";
}

TEST_F(ReportsTest, ANewReportIsHeardBesideOneThatIsToldAgain) {
  Heart heart = MakeHeart(rank0_);
  v1::HeartbeatRequest report;
  report.mutable_checkpoint()->set_error("disk full");
  report.set_report_id(1);
  heart.Send(report);
  heart.NextAcknowledged(1);
  report.mutable_checkpoint()->clear_error();
  report.set_report_id(2);
  heart.Send(report);
  heart.NextAcknowledged(2);
  EXPECT_EQ(Get("a").status().checkpoint_error(), "");
  EXPECT_EQ(EventsOf("CheckpointWritten").size(), 1u);
}

// It is written, but not where other nodes find it.
TEST_F(ReportsTest, ANodeThatCannotKeepCheckpointsIsHeardUntilItCan) {
  v1::ReplicaReport report = FakeWorker::ReportOf(rank0_, v1::REPLICA_STATE_RUNNING);
  report.mutable_replica()->set_message("the store is away");
  n1_->Report(report);
  const auto says = [](const std::string& error) {
    return [error](const v1::Job& job) { return job.status().checkpoint_error() == error; };
  };
  WaitFor("a", says("the store is away"));
  EXPECT_EQ(EventsOf("CheckpointFailed").size(), 1u);
  Heart heart = MakeHeart(rank0_);
  Report(&heart, "");
  heart.Next();
  EXPECT_EQ(Get("a").status().checkpoint_error(), "the store is away");
  report.mutable_replica()->clear_message();
  n1_->Report(report);
  WaitFor("a", says(""));
  EXPECT_EQ(EventsOf("CheckpointWritten").size(), 1u);
}

TEST_F(ReportsTest, WhatHappensAgainSoonIsOneEventWithANewIdAndLaterAnother) {
  Heart heart = MakeHeart(rank0_);
  const auto fail = [&] {
    for (const char* error : {"disk full", ""}) {
      Report(&heart, error);
      heart.Next();
    }
  };
  fail();
  const int64_t first = EventsOf("CheckpointFailed").at(0).id();
  EXPECT_EQ(EventsOf("CheckpointFailed")[0].count(), 0);
  clock_.Advance(absl::Minutes(9));
  fail();
  std::vector<v1::Event> events = EventsOf("CheckpointFailed");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_GT(events[0].id(), first) << "whoever follows the events hears of it";
  EXPECT_EQ(events[0].count(), 2);
  clock_.Advance(absl::Minutes(11));
  fail();
  EXPECT_EQ(EventsOf("CheckpointFailed").size(), 2u);
}

TEST_F(ReportsTest, AReplicaThatGivesAnotherAddressAllTheTimeIsToldToWait) {
  const int before = memory_->commits();
  grpc::Status status;
  int accepted = 0;
  while (accepted < 1000 && status.ok()) {
    Join join(replicas_.get(), IdentityOf(rank1_), rank1_.token(), absl::StrCat("n2:", 5000 + accepted));
    if (join.Next().has_forming()) {
      ++accepted;
    } else {
      status = join.End();
    }
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_LE(accepted, 25);
  EXPECT_LE(memory_->commits() - before, 25);
  const auto delay = rpc::RetryDelayOf(rpc::FromGrpcStatus(status));
  ASSERT_TRUE(delay.has_value());
  clock_.Advance(*delay);
  Join last(replicas_.get(), IdentityOf(rank1_), rank1_.token(), "n2:7000");
  EXPECT_TRUE(last.Next().has_forming());
}

TEST_F(ReportsTest, AGroupThatMeetsAgainAndAgainIsOneEvent) {
  Join rank0(replicas_.get(), IdentityOf(rank0_), rank0_.token(), "n1:5000");
  for (int i = 0; i < 10; ++i) {
    Join rank1(replicas_.get(), IdentityOf(rank1_), rank1_.token(), "n2:5000", i % 2 == 1);
    EXPECT_EQ(rank1.Formed().rank(), 1);
  }
  // The first time is for itself.
  ASSERT_EQ(EventsOf("RendezvousComplete").size(), 2u);
  EXPECT_EQ(EventsOf("RendezvousComplete")[1].count(), 9);
}

TEST_F(ReportsTest, ANodeThatRegistersAllTheTimeIsToldToWait) {
  const int before = memory_->commits();
  grpc::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = FakeWorker(channel_, "n3").Register();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_LE(memory_->commits() - before, 70);
  EXPECT_TRUE(FakeWorker(channel_, "n4").Register().ok());
  const auto delay = rpc::RetryDelayOf(rpc::FromGrpcStatus(status));
  ASSERT_TRUE(delay.has_value());
  clock_.Advance(*delay);
  EXPECT_TRUE(FakeWorker(channel_, "n3").Register().ok());
}

TEST_F(ReportsTest, ANodeThatLeavesAgainAndAgainIsOneEventOfItsJobs) {
  v1::ConnectRequest notice;
  notice.mutable_preemption_notice()->set_reason("spot reclaim");
  for (int i = 0; i < 10; ++i) {
    n1_->Disconnect();
    ASSERT_TRUE(n1_->Register().ok());
    n1_->Connect({FakeWorker::ReportOf(rank0_, v1::REPLICA_STATE_RUNNING)});
    n1_->Send(notice);
    // What comes after it was heard was heard after it.
    const auto left = [this] {
      grpc::ClientContext context;
      SetDeadline(&context);
      v1::ListNodesResponse nodes;
      EXPECT_TRUE(nodes_->ListNodes(&context, {}, &nodes).ok());
      return nodes.nodes(0).status().phase() == v1::NODE_PHASE_DRAINING;
    };
    while (!left()) {
    }
  }
  ASSERT_EQ(EventsOf("NodePreempted").size(), 1u);
  EXPECT_EQ(EventsOf("NodePreempted")[0].count(), 10);
}

// The history of a job is drawn from the numbers of replicas that its events carry.
TEST(TransactionTest, AnEventThatTellsOfAnotherNumberOfReplicasStaysInItsPlace) {
  Tables tables;
  const absl::Time now = absl::FromUnixSeconds(1'000'000'000);
  const jobs::Event event = {true, "NodePreempted", "node n goes away", "n", ""};
  const auto commit = [&](bool change) {
    Transaction transaction(tables, {now, now});
    if (tables.jobs.empty()) transaction.AddJob(MakeJob(1));
    JobEntry* job = transaction.EditJob("uid-1");
    if (change) {
      auto replica = std::make_shared<ReplicaRecord>();
      replica->job_uid = "uid-1";
      replica->replica.set_state(v1::REPLICA_STATE_RUNNING);
      job->replicas.push_back(replica);
    }
    transaction.AddRepeatedEvent("uid-1", event, Repetition());
    const CommitUnit unit = transaction.Finish(UnitOfCommit::kTransaction)[0];
    WriteBatch batch = unit.batch;
    transaction.Apply(unit, &tables);
    return batch;
  };
  EXPECT_TRUE(commit(false).remove_events.empty());
  EXPECT_TRUE(commit(true).remove_events.empty());
  const WriteBatch third = commit(false);
  EXPECT_EQ(third.remove_events, std::vector<int64_t>{1});
  EXPECT_EQ(third.add_events.at(0).id(), 3);
  EXPECT_EQ(third.add_events[0].count(), 2);
  EXPECT_TRUE(commit(true).remove_events.empty());
  EXPECT_EQ(tables.last_event_id, 4);
}

}  // namespace
}  // namespace adaptdl::supervisor
