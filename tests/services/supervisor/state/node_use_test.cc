// The use of nodes, kept job by job, is what one gets by counting everything anew.

#include "services/supervisor/state/node_use.h"

#include <map>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/supervisor/state/tables.h"
#include "services/supervisor/state/transaction.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {
namespace {

constexpr int kNodes = 5;

class Actor {
 public:
  explicit Actor(Tables* tables) : tables_(tables) {}

  // A transaction of a few random changes, each of which is checked.
  void Act() {
    Transaction transaction(*tables_, {absl::UnixEpoch(), absl::UnixEpoch()});
    for (int i = Random(1, 6); i > 0; --i) {
      Change(&transaction);
      if (Random(0, 1) == 0) Check(transaction);
    }
    Check(transaction);
    if (Random(0, 3) == 0) return;  // It is given up.
    const UnitOfCommit unit_of_commit = Random(0, 1) == 0 ? UnitOfCommit::kTransaction : UnitOfCommit::kJob;
    for (const CommitUnit& unit : transaction.Finish(unit_of_commit)) transaction.Apply(unit, tables_);
    Check(Transaction(*tables_, {absl::UnixEpoch(), absl::UnixEpoch()}));
  }

 private:
  int Random(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  std::string Node() { return absl::StrCat("n", Random(0, kNodes - 1)); }

  void Change(Transaction* transaction) {
    const int what = Random(0, 9);
    if (what < 2 || tables_->jobs.empty()) {
      transaction->AddJob(MakeJob(next_++));
      return;
    }
    auto it = tables_->jobs.begin();
    std::advance(it, Random(0, static_cast<int>(tables_->jobs.size()) - 1));
    const std::string uid = it->first;
    if (transaction->FindJob(uid) == nullptr) return;
    if (what == 2) {
      transaction->DeleteJob(uid);
      return;
    }
    JobEntry* job = transaction->EditJob(uid);
    if (what < 5) {
      job->record.decision.nodes.clear();
      for (int i = Random(0, 4); i > 0; --i) job->record.decision.nodes.push_back(Node());
    } else if (what < 8) {
      auto replica = std::make_shared<ReplicaRecord>();
      replica->job_uid = uid;
      replica->replica.set_replica_id(absl::StrCat(uid, "-", next_++));
      replica->replica.set_node_id(Node());
      replica->replica.set_state(v1::REPLICA_STATE_RUNNING);
      job->replicas.push_back(replica);
    } else if (what == 8 && !job->replicas.empty()) {
      const int index = Random(0, static_cast<int>(job->replicas.size()) - 1);
      ReplicaRecord* replica = transaction->EditReplica(uid, index);
      if (Random(0, 1) == 0) replica->replica.set_state(v1::REPLICA_STATE_EXITED);
      replica->stop_requested = true;
    } else {
      job->record.state.phase = jobs::Phase::kSucceeded;
    }
  }

  void Check(const Transaction& transaction) {
    std::map<std::string, NodeUse::Use> expected;
    NodeUse counted;
    for (int i = 0; i < next_; ++i) {
      const JobEntry* job = transaction.FindJob(absl::StrCat("uid-", i));
      if (job != nullptr) counted.Add(ShareOf(*job), 1);
    }
    for (int i = 0; i < kNodes; ++i) {
      const std::string node = absl::StrCat("n", i);
      const NodeUse::Use* use = counted.Find(node);
      const NodeUse::Use want = use == nullptr ? NodeUse::Use() : *use;
      const NodeUse::Use have = transaction.UseOf(node);
      ASSERT_EQ(have.replicas, want.replicas) << node;
      ASSERT_EQ(have.held.ToProto().DebugString(), want.held.ToProto().DebugString()) << node;
      ASSERT_EQ(have.wanted.ToProto().DebugString(), want.wanted.ToProto().DebugString()) << node;
      ASSERT_EQ(have.kept.ToProto().DebugString(), want.kept.ToProto().DebugString()) << node;
    }
  }

  Tables* const tables_;
  std::mt19937 random_{1};
  int next_ = 0;
};

TEST(NodeUse, KeptAreThoseThatStay) {
  JobEntry job;
  job.record = MakeJob(1);
  job.record.decision.nodes = {"n1", "n2", "n2"};
  for (const char* node : {"n1", "n1", "n2", "n2", "n3"}) {
    auto replica = std::make_shared<ReplicaRecord>();
    replica->replica.set_node_id(node);
    replica->replica.set_state(v1::REPLICA_STATE_RUNNING);
    replica->stop_requested = job.replicas.size() == 3;
    job.replicas.push_back(std::move(replica));
  }
  EXPECT_EQ(ShareOf(job).kept, (std::map<std::string, int>{{"n1", 1}, {"n2", 1}}));
}

TEST(NodeUse, IsWhatCountingAnewGives) {
  Tables tables;
  Actor actor(&tables);
  for (int i = 0; i < 2000 && !testing::Test::HasFatalFailure(); ++i) actor.Act();
  EXPECT_GT(tables.jobs.size(), 100u);
}

}  // namespace
}  // namespace adaptdl::supervisor
