// Rows that can't be read: the others are served, what can be mended is, and nothing is thrown away unasked.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "libs/base/utf8.h"
#include "services/supervisor/store/check.h"
#include "services/supervisor/store/job_codec.h"
#include "services/supervisor/store/restore.h"
#include "services/supervisor/store/sqlite_job_store.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {
namespace {

using testing::HasSubstr;

// What earlier versions wrote: a message that was cut within a character.
std::string CutMessage() { return std::string(999, 'x') + "\xC3"; }

class DamageTest : public testing::Test {
 protected:
  DamageTest() : folder_(absl::StrCat(testing::TempDir(), "/damage-", RandomHex(8))) {}
  ~DamageTest() override { std::filesystem::remove_all(folder_); }

  void SetUp() override {
    Open();
    WriteBatch batch;
    for (int64_t i = 1; i <= 3; ++i) {
      JobRecord job = MakeJob(i);
      job.state.group = 1;
      job.state.phase = jobs::Phase::kRunning;
      job.state.allocation = {"n1"};
      job.tokens[1] = "secret";
      jobs::Plan plan;
      plan.group = 2;
      plan.members = {{"r", "n1"}};
      job.state.plans = {plan};
      batch.put_jobs.push_back(job);
      ReplicaRecord replica;
      replica.job_uid = job.uid();
      replica.launch_group = 1;
      replica.replica.set_group(1);
      replica.replica.set_node_id("n1");
      replica.replica.set_replica_id(absl::StrCat("replica-of-", i));
      replica.replica.set_state(v1::REPLICA_STATE_RUNNING);
      batch.put_replicas.push_back(replica);
      v1::Event event;
      event.set_id(i);
      event.mutable_time()->set_seconds(i);
      event.set_namespace_("default");
      event.set_job(job.job->name());
      event.set_job_uid(job.uid());
      event.set_reason("Submitted");
      batch.add_events.push_back(event);
    }
    for (const char* id : {"n1", "n2"}) {
      NodeRecord node;
      node.node.set_node_id(id);
      batch.put_nodes.push_back(node);
    }
    v1::NamespaceQuota quota;
    quota.set_namespace_("team");
    batch.put_quotas = {quota};
    ASSERT_TRUE(store_->Commit(batch).ok());
  }

  void Open() {
    SqliteJobStoreOptions options;
    options.folder = folder_;
    options.file = file_;
    auto store = SqliteJobStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  // Puts `bytes` where a message is, and loads.
  StoreContents Damage(const std::string& table, const std::string& column, const std::string& row,
                       const std::string& bytes) {
    store_ = nullptr;
    Put(folder_ + "/" + file_, table, column, row, bytes);
    Open();
    absl::StatusOr<StoreContents> contents = store_->Load(absl::Now());
    EXPECT_TRUE(contents.ok()) << contents.status();
    return contents.ok() ? *std::move(contents) : StoreContents();
  }

  static void Put(const std::string& path, const std::string& table, const std::string& column,
                  const std::string& row, const std::string& bytes) {
    absl::StatusOr<Database> database = Database::Open(path);
    ASSERT_TRUE(database.ok());
    const absl::Status status = database->Execute(absl::StrCat(
        "UPDATE ", table, " SET ", column, " = x'", absl::BytesToHexString(bytes), "' WHERE ", row));
    ASSERT_TRUE(status.ok()) << status;
  }

  static std::vector<std::string> Names(const StoreContents& contents) {
    std::vector<std::string> names;
    for (const JobRecord& job : contents.jobs) names.push_back(job.job->name());
    return names;
  }

  const std::string folder_;
  std::string file_ = "supervisor.db";
  std::unique_ptr<SqliteJobStore> store_;
};

constexpr char kGarbage[] = "\xFF\xFF\xFF\xFF\xFF";

TEST_F(DamageTest, AMessageThatWasCutWithinACharacterIsMendedForGood) {
  v1::Replica replica;
  replica.set_replica_id("replica-of-2");
  replica.set_group(1);
  replica.set_state(v1::REPLICA_STATE_EXITED);
  replica.set_message(CutMessage());
  StoreContents contents = Damage("replicas", "replica", "job_uid = 'uid-2'", replica.SerializeAsString());
  EXPECT_EQ(contents.jobs.size(), 3u);
  ASSERT_EQ(contents.replicas.size(), 3u);
  EXPECT_EQ(contents.replicas[1].replica.replica_id(), "replica-of-2");
  EXPECT_EQ(contents.replicas[1].replica.state(), v1::REPLICA_STATE_EXITED);
  EXPECT_TRUE(IsUtf8(contents.replicas[1].replica.message()));
  ASSERT_EQ(contents.damaged.size(), 1u);
  EXPECT_TRUE(contents.damaged[0].mended);
  EXPECT_EQ(contents.damaged[0].job, "job-2");
  EXPECT_TRUE(store_->Load(absl::Now())->damaged.empty()) << "it was written back";
  EXPECT_EQ(store_->ListReplicas("uid-2")->size(), 1u);
}

TEST_F(DamageTest, AJobThatCannotBeReadIsSetAsideAndTheOthersAreServed) {
  for (const char* column : {"spec", "state"}) {
    const StoreContents contents = Damage("jobs", column, "uid = 'uid-2'", kGarbage);
    EXPECT_THAT(Names(contents), testing::ElementsAre("job-1", "job-3"));
    EXPECT_EQ(contents.replicas.size(), 2u);
    ASSERT_EQ(contents.set_aside.size(), 1u);
    EXPECT_EQ(contents.set_aside[0].name, "job-2");
    EXPECT_EQ(contents.last_sequence, 3);
    const StoreContents again = *store_->Load(absl::Now());
    ASSERT_FALSE(again.damaged.empty());
    EXPECT_FALSE(again.damaged.back().is_new) << "the next start knows of it";
    EXPECT_EQ(again.set_aside.size(), 1u) << "nothing was thrown away";
  }
  // Its events are kept with it.
  EventQuery query;
  query.name_space = "default";
  query.job = "job-2";
  EXPECT_EQ(store_->ListEvents(query)->size(), 1u);
}

TEST_F(DamageTest, AReplicaThatCannotBeReadCountsAsLost) {
  const StoreContents contents = Damage("replicas", "replica", "job_uid = 'uid-1'", kGarbage);
  EXPECT_EQ(contents.jobs.size(), 3u);
  ASSERT_EQ(contents.replicas.size(), 3u);
  const ReplicaRecord& replica = contents.replicas[0];
  EXPECT_EQ(replica.loss, jobs::LossCause::kVanished);
  EXPECT_EQ(replica.replica.state(), v1::REPLICA_STATE_LOST);
  EXPECT_EQ(replica.replica.replica_id(), "job-1-uid-1-1-0");
  EXPECT_EQ(replica.replica.group(), 1);
  EXPECT_EQ(replica.replica.node_id(), "n1");
}

TEST_F(DamageTest, NodesAndQuotasThatCannotBeReadAreLeftOut) {
  EXPECT_EQ(Damage("nodes", "node", "node_id = 'n1'", kGarbage).nodes.size(), 1u);
  const StoreContents contents = Damage("quotas", "quota", "1", kGarbage);
  EXPECT_TRUE(contents.quotas.empty());
  EXPECT_EQ(contents.damaged.size(), 2u);
  // The node comes back, and its row with it.
  WriteBatch batch;
  NodeRecord node;
  node.node.set_node_id("n1");
  batch.put_nodes = {node};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_EQ(store_->Load(absl::Now())->nodes.size(), 2u);
}

TEST_F(DamageTest, AnEventThatCannotBeReadKeepsItsPlace) {
  Damage("events", "event", "id = 2", kGarbage);
  EventQuery query;
  query.name_space = "default";
  const absl::StatusOr<std::vector<v1::Event>> events = store_->ListEvents(query);
  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_EQ(events->size(), 3u);
  EXPECT_EQ((*events)[1].id(), 2);
  EXPECT_EQ((*events)[1].reason(), "Unreadable");
  EXPECT_EQ((*events)[1].job(), "job-2");
  // The one before it is pruned, the one after it is not.
  ASSERT_TRUE(store_->PruneEvents(absl::FromUnixSeconds(2)).ok());
  EXPECT_EQ(store_->ListEvents(query)->back().id(), 3);
  EXPECT_NE(store_->ListEvents(query)->front().id(), 1);
}

// --- adaptdl admin check

TEST_F(DamageTest, ACheckSaysWhatAStateHoldsAndChangesNothing) {
  v1::Event event;
  event.set_message(CutMessage());
  Damage("events", "event", "id = 2", event.SerializeAsString());
  Damage("jobs", "state", "uid = 'uid-3'", kGarbage);
  EXPECT_EQ(CheckStore(folder_, Repair::kNothing, RealClock()).status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "a supervisor works on it";
  store_ = nullptr;
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<CheckedStore> checked = CheckStore(folder_, Repair::kNothing, RealClock());
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(checked->state.jobs, 3);
    EXPECT_EQ(checked->state.events, 3);
    EXPECT_EQ(checked->state.nodes, 2);
    ASSERT_EQ(checked->state.damaged.size(), 2u);
    EXPECT_EQ(checked->state.damaged[0].table, "jobs");
    EXPECT_FALSE(checked->state.damaged[0].mended);
    EXPECT_EQ(checked->state.damaged[1].table, "events");
    EXPECT_TRUE(checked->state.damaged[1].mended);
    EXPECT_TRUE(checked->kept.empty());
  }
}

TEST_F(DamageTest, ACheckMendsAndRemovesWhenToldAndKeepsWhatWasThere) {
  v1::Event event;
  event.set_message(CutMessage());
  Damage("events", "event", "id = 2", event.SerializeAsString());
  Damage("jobs", "state", "uid = 'uid-3'", kGarbage);
  store_ = nullptr;
  absl::StatusOr<CheckedStore> checked = CheckStore(folder_, Repair::kMend, RealClock());
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_TRUE(std::filesystem::exists(checked->kept));
  checked = CheckStore(folder_, Repair::kMend, RealClock());
  ASSERT_TRUE(checked.ok()) << checked.status();
  ASSERT_EQ(checked->state.damaged.size(), 1u) << "the other one was mended";
  EXPECT_TRUE(checked->kept.empty());

  checked = CheckStore(folder_, Repair::kRemove, RealClock());
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->state.jobs, 2);
  EXPECT_TRUE(std::filesystem::exists(checked->kept));
  EXPECT_TRUE(CheckStore(folder_, Repair::kNothing, RealClock())->state.damaged.empty());
  EXPECT_EQ(CheckStore(checked->kept, Repair::kNothing, RealClock())->state.jobs, 3)
      << "what was there is kept";
}

TEST_F(DamageTest, BackupsAreCheckedAndMendedToo) {
  const absl::StatusOr<std::string> backup = store_->Backup();
  ASSERT_TRUE(backup.ok()) << backup.status();
  StoredJob state;
  state.set_phase(v1::JOB_PHASE_RUNNING);
  state.set_message(CutMessage());
  Put(*backup, "jobs", "state", "uid = 'uid-1'", state.SerializeAsString());
  absl::StatusOr<CheckedStore> checked = CheckStore(*backup, Repair::kNothing, RealClock());
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->state.damaged.size(), 1u);

  const std::string other = folder_ + "/other";
  const absl::StatusOr<Restored> restored = RestoreStore(*backup, other, false, RealClock());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->state.damaged.size(), 1u);
  EXPECT_TRUE(CheckStore(other, Repair::kNothing, RealClock())->state.damaged.empty())
      << "it was mended on the way";

  checked = CheckStore(*backup, Repair::kMend, RealClock());
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_TRUE(std::filesystem::exists(checked->kept));
  EXPECT_TRUE(CheckStore(*backup, Repair::kNothing, RealClock())->state.damaged.empty());
}

TEST_F(DamageTest, WhatIsNoStateIsNamed) {
  EXPECT_EQ(CheckStore(folder_ + "/nowhere", Repair::kNothing, RealClock()).status().code(),
            absl::StatusCode::kNotFound);
  const std::string empty = folder_ + "/empty";
  std::filesystem::create_directories(empty);
  const absl::Status status = CheckStore(empty, Repair::kNothing, RealClock()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(empty));
}

}  // namespace
}  // namespace adaptdl::supervisor
