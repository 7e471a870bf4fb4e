// Jobs that wait for each other's slots on nodes of two: who is to go first.

#include "services/supervisor/jobs/deadlocks.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jobs/planning.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Nodes = std::vector<std::string>;

class DeadlocksTest : public testing::Test {
 protected:
  DeadlocksTest() {
    for (const char* id : {"n1", "n2", "n3"}) {
      NodeEntry node;
      node.record.node.set_node_id(id);
      node.record.node.mutable_capacity()->set_gpus(2);
      transaction_.AddNode(std::move(node));
    }
  }

  // A job of one GPU per replica that holds some nodes, and is to have others, for which it has launched nobody yet.
  JobEntry* Add(const Nodes& holds, const Nodes& wants) {
    JobRecord record = MakeJob(jobs_++);
    const std::string uid = record.uid();
    auto job = std::make_shared<v1::Job>(*record.job);
    v1::Resources one;
    one.set_gpus(1);
    *job->mutable_spec()->mutable_template_()->mutable_resources() = one;
    record.job = std::move(job);
    record.state.group = 1;
    record.state.allocation = holds;
    record.decision.nodes = wants;
    std::vector<jobs::PlanMember> members;
    for (const std::string& node : holds) {
      members.push_back({absl::StrCat(uid, "-1-", members.size()), node});
    }
    const jobs::Target target = jobs::ChooseMembers(members, {}, wants, true);
    record.state.phase = jobs::Phase::kRescaling;
    record.state.plans = {{.group = 2, .members = target.members, .offered = target.newcomers() == 0}};
    transaction_.AddJob(std::move(record));
    JobEntry* entry = transaction_.EditJob(uid);
    for (const jobs::PlanMember& member : members) {
      auto replica = std::make_shared<ReplicaRecord>();
      replica->job_uid = uid;
      replica->replica.set_replica_id(member.replica_id);
      replica->replica.set_group(1);
      replica->replica.set_node_id(member.node);
      replica->replica.set_state(v1::REPLICA_STATE_RUNNING);
      entry->replicas.push_back(std::move(replica));
    }
    return entry;
  }

  Tables tables_;
  Transaction transaction_{tables_, {absl::UnixEpoch(), absl::UnixEpoch()}};
  int jobs_ = 0;
};

TEST_F(DeadlocksTest, OfTwoThatWaitForEachOtherOneGoesFirst) {
  Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n2", "n1"});
  EXPECT_THAT(DeadlockVictims(transaction_), ElementsAre("uid-0"));
}

TEST_F(DeadlocksTest, ItIsOneThatNeedNotStartAgain) {
  Add({"n1", "n1"}, {"n2"});
  Add({"n2", "n2"}, {"n2", "n1"});
  EXPECT_THAT(DeadlockVictims(transaction_), ElementsAre("uid-1"));
}

TEST_F(DeadlocksTest, OrElseThoseWithTheFewestReplicas) {
  Add({"n1", "n1"}, {"n2", "n2"});
  Add({"n2"}, {"n1"});
  EXPECT_THAT(DeadlockVictims(transaction_), ElementsAre("uid-1"));
  Add({"n2"}, {"n1"});
  EXPECT_THAT(DeadlockVictims(transaction_), ElementsAre("uid-1", "uid-2"));
}

// What a job needs at least is not given up where another one may shrink.
TEST_F(DeadlocksTest, AJobOfFixedSizeDoesNotShrink) {
  Add({"n1", "n1"}, {"n1", "n2"})->record.state.min_replicas = 2;
  Add({"n2", "n2"}, {"n2", "n1"});
  EXPECT_THAT(DeadlockVictims(transaction_), ElementsAre("uid-1"));
}

TEST_F(DeadlocksTest, CirclesOfThreeAndTwoCirclesAreBroken) {
  Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n2", "n3"});
  Add({"n3", "n3"}, {"n3", "n1"});
  EXPECT_EQ(DeadlockVictims(transaction_).size(), 1u);
  for (const char* id : {"m1", "m2"}) {
    NodeEntry node;
    node.record.node.set_node_id(id);
    node.record.node.mutable_capacity()->set_gpus(1);
    transaction_.AddNode(std::move(node));
  }
  Add({"m1"}, {"m2"});
  Add({"m2"}, {"m1"});
  EXPECT_EQ(DeadlockVictims(transaction_).size(), 2u);
}

TEST_F(DeadlocksTest, WhoWaitsForSomebodyThatLeavesWaits) {
  Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n2"});  // Offered: it leaves when it has changed over.
  EXPECT_THAT(DeadlockVictims(transaction_), IsEmpty());
}

TEST_F(DeadlocksTest, WhoWaitsForACircleIsNotPartOfIt) {
  Add({"n3", "n3"}, {"n3", "n2"});
  Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n1"});
  EXPECT_THAT(DeadlockVictims(transaction_), ElementsAre("uid-1"));
}

TEST_F(DeadlocksTest, MoreThanThereIsIsNoCircle) {
  Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n2", "n2", "n1"});
  EXPECT_THAT(DeadlockVictims(transaction_), IsEmpty());
}

TEST_F(DeadlocksTest, ThoseThatAreLaunchedOrOnTheirWayOutDoNotWait) {
  JobEntry* job = Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n2", "n1"});
  transaction_.EditReplica("uid-1", 1)->stop_requested = true;
  EXPECT_THAT(DeadlockVictims(transaction_), IsEmpty());
  transaction_.EditReplica("uid-1", 1)->stop_requested = false;
  EXPECT_THAT(DeadlockVictims(transaction_), ElementsAre("uid-0"));
  job->record.state.plans.back().members.back().replica_id = "uid-0-2-1";
  EXPECT_THAT(DeadlockVictims(transaction_), IsEmpty());
}

}  // namespace
}  // namespace adaptdl::supervisor
