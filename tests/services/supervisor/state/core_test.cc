// If the store refuses a change, nothing has happened: neither in the tables nor outside.

#include "services/supervisor/state/core.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "services/supervisor/state/job_status.h"
#include "tests/services/supervisor/managers_fixture.h"

namespace adaptdl::supervisor {
namespace {

class CoreTest : public ManagersTest {
 protected:
  // All that can be seen of the state, as text.
  std::string Picture() {
    std::string picture;
    cluster_->core()->Read([&](const Tables& tables) {
      for (const auto& [sequence, uid] : tables.by_sequence) {
        const JobEntry& job = *tables.jobs.at(uid);
        absl::StrAppend(&picture, DescribeJob(job, clock_.Steady()).DebugString(), job.broken.size(),
                        " broken, ", job.repetitions.size(), " folded, ", job.told_of_reports, "\n");
        for (const auto& replica : job.replicas) absl::StrAppend(&picture, replica->replica.DebugString());
      }
      for (const auto& [id, node] : tables.nodes) {
        absl::StrAppend(&picture, node->record.node.DebugString(), node->record.session_id, " session, ",
                        node->free_ports.size(), " ports, ",
                        node->health.HasFailed(job_.uid(), clock_.Steady(), options_.quarantine), "\n");
      }
      for (const auto& [name, quota] : tables.quotas) absl::StrAppend(&picture, quota.DebugString());
      absl::StrAppend(&picture, tables.version, " ", tables.last_sequence, " ", tables.last_event_id, " ",
                      tables.last_session, " ", tables.submissions.size(), " ", tables.separations.size(),
                      " ", tables.deletions.size(), "\n");
    });
    for (const auto& [node, launch] : launcher_.launches) absl::StrAppend(&picture, launch.replica_id(), " ");
    absl::StrAppend(&picture, launcher_.stops.size(), " ", launcher_.acknowledged.size(), " ",
                    launcher_.ended_sessions.size(), " ", launcher_.deletions.size());
    return picture;
  }

  // A job that runs on two nodes, and one that has ended.
  void Prepare() {
    ASSERT_TRUE(AddNode("n1").ok());
    ASSERT_TRUE(AddNode("n2").ok());
    ASSERT_TRUE(AddNode("n3").ok());
    job_ = Submit("trains").value();
    ended_ = Submit("ended").value();
    v1::CancelJobRequest cancel;
    cancel.set_request_id(NextRequest());
    cancel.set_name("ended");
    ASSERT_TRUE(cluster_->jobs()->CancelJob(cancel, "").ok());
    ASSERT_TRUE(Allocate(job_, {"n1", "n2"}).ok());
    ASSERT_EQ(launcher_.launches.size(), 2u);
    first_ = launcher_.launches[0].second;
    for (const auto& [node, launch] : launcher_.launches) {
      ASSERT_TRUE(Report(launch, node, v1::REPLICA_STATE_RUNNING).ok());
    }
    replica_ = {job_.uid(), first_.replica_id(), first_.group()};
  }

  v1::Job job_;
  v1::Job ended_;
  v1::LaunchReplica first_;
  ReplicaContext replica_;
};

TEST_F(CoreTest, ARefusedChangeLeavesNoTrace) {
  Prepare();
  struct Case {
    std::string name;
    std::function<absl::Status()> change;
  };
  const std::vector<Case> cases = {
      {"submission", [&] { return Submit("another").status(); }},
      {"registration", [&] { return AddNode("n4"); }},
      {"registration again", [&] { return AddNode("n1"); }},
      {"quota",
       [&] {
         v1::SetQuotaRequest request;
         request.set_request_id(NextRequest());
         request.set_namespace_("default");
         request.set_jobs(5);
         return cluster_->quotas()->SetQuota(request, "").status();
       }},
      {"free ports",
       [&] {
         v1::FreePorts ports;
         ports.add_ports(4000);
         return cluster_->nodes()->OfferPorts("n1", ports);
       }},
      {"broken group",
       [&] { return cluster_->reports()->ObserveBroken(replica_, replica_.group, "no route"); }},
      {"join", [&] { return cluster_->membership()->Join(replica_, "127.0.0.1:7", true); }},
      {"allocation", [&] { return Allocate(job_, {"n1"}); }},
      {"drain",
       [&] {
         v1::DrainNodeRequest request;
         request.set_request_id(NextRequest());
         request.set_node_id("n3");
         return cluster_->nodes()->DrainNode(request, "").status();
       }},
      {"preemption notice", [&] { return cluster_->nodes()->NoticePreemption("n1", {}); }},
      {"end of a replica", [&] { return Report(first_, "n1", v1::REPLICA_STATE_EXITED, 3); }},
      {"cancellation",
       [&] {
         v1::CancelJobRequest request;
         request.set_request_id(NextRequest());
         request.set_name("trains");
         return cluster_->jobs()->CancelJob(request, "").status();
       }},
      {"deletion",
       [&] {
         v1::DeleteJobRequest request;
         request.set_request_id(NextRequest());
         request.set_name("ended");
         return cluster_->jobs()->DeleteJob(request, "").status();
       }},
  };
  for (const Case& test : cases) {
    const std::string before = Picture();
    store_.FailCommits(absl::UnavailableError("the disk is gone"));
    const absl::Status refused = test.change();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << test.name << ": " << refused;
    store_.FailCommits(absl::OkStatus());
    EXPECT_TRUE(Picture() == before) << test.name << ": " << Picture() << "\nwas\n" << before;
  }
  // The same are taken when the store works, so that it was the store that refused them.
  for (const Case& test : cases) {
    const std::string before = Picture();
    const absl::Status taken = test.change();
    EXPECT_TRUE(taken.ok()) << test.name << ": " << taken;
    EXPECT_FALSE(Picture() == before) << test.name;
  }
}

TEST_F(CoreTest, FreedRoomIsFollowedUpInTheSameTransaction) {
  std::vector<std::string> followed;
  cluster_->core()->SetFollowUp([&](Transaction*) { followed.emplace_back("room"); });
  const auto free_room = [](Transaction* transaction) {
    transaction->FreeRoom();
    return absl::OkStatus();
  };
  EXPECT_TRUE(cluster_->core()->Update(free_room).ok());
  EXPECT_EQ(followed.size(), 1u);
  EXPECT_TRUE(cluster_->core()->Update([](Transaction*) { return absl::OkStatus(); }).ok());
  EXPECT_EQ(followed.size(), 1u);
}

TEST_F(CoreTest, AFailedChangeIsNotCommitted) {
  const int before = store_.commits();
  const absl::Status status = cluster_->core()->Update([](Transaction* transaction) {
    v1::NamespaceQuota quota;
    quota.set_namespace_("a");
    transaction->PutQuota(quota);
    return absl::FailedPreconditionError("thought better of it");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_.commits(), before);
  cluster_->core()->Read([](const Tables& tables) { EXPECT_TRUE(tables.quotas.empty()); });
}

TEST_F(CoreTest, ARepeatedRequestGetsItsFirstAnswer) {
  const v1::Job first = Submit("once", "r").value();
  const v1::Job again = Submit("once", "r").value();
  EXPECT_EQ(first.uid(), again.uid());
  EXPECT_EQ(Submit("other", "r").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace adaptdl::supervisor
