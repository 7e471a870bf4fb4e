// Both stores keep the same promises; SQLite's are also kept over crashes and full disks.

#include "services/supervisor/store/job_store.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "services/supervisor/store/memory_job_store.h"
#include "services/supervisor/store/migrations.h"
#include "services/supervisor/store/restore.h"
#include "services/supervisor/store/sqlite_job_store.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {
namespace {

const absl::Time kTime = absl::FromUnixSeconds(1'000'000'000);

ReplicaRecord MakeReplica(int64_t group, int rank) {
  ReplicaRecord record;
  record.job_uid = "uid-1";
  record.replica.set_replica_id(absl::StrCat("r-", group, "-", rank));
  record.launch_group = group;
  record.launch_rank = rank;
  record.replica.set_group(group);
  record.replica.set_rank(rank);
  record.stop_requested = true;
  record.loss = jobs::LossCause::kVanished;
  record.address = "h:1";
  return record;
}

v1::Event MakeEvent(int64_t id, const std::string& reason) {
  v1::Event event;
  event.set_id(id);
  event.set_namespace_("default");
  event.set_job("job-1");
  event.set_job_uid("uid-1");
  event.set_reason(reason);
  return event;
}

class Folder {
 public:
  Folder() : path_(absl::StrCat(testing::TempDir(), "/store-", RandomHex(8))) {}
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

std::unique_ptr<SqliteJobStore> OpenSqlite(const std::string& folder, int64_t max_bytes = 0,
                                           const std::string& file = "supervisor.db") {
  SqliteJobStoreOptions options;
  options.folder = folder;
  options.file = file;
  options.max_bytes = max_bytes;
  absl::StatusOr<std::unique_ptr<SqliteJobStore>> store = SqliteJobStore::Open(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

class JobStoreTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      store_ = OpenSqlite(folder_.path());
    } else {
      store_ = std::make_unique<MemoryJobStore>();
    }
    ASSERT_NE(store_, nullptr);
  }
  Folder folder_;
  std::unique_ptr<JobStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Stores, JobStoreTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Sqlite" : "Memory"; });

TEST_P(JobStoreTest, LoadsWhatWasCommitted) {
  WriteBatch batch;
  JobRecord job = MakeJob(1);
  job.state.group = 2;
  job.state.running_since = kTime;
  job.state.rescaling_since = kTime + absl::Seconds(1);
  job.decision.unschedulable = true;
  job.tokens[2] = "secret";
  batch.put_jobs = {job, MakeJob(2)};
  batch.put_replicas = {MakeReplica(1, 0), MakeReplica(2, 0), MakeReplica(2, 1)};
  NodeRecord node;
  node.node.set_node_id("n1");
  node.session_id = 7;
  batch.put_nodes = {node};
  batch.add_events = {MakeEvent(1, "Submitted")};
  batch.add_deletions = {{"n1", "default", "old", "uid-0"}};
  v1::NamespaceQuota quota;
  quota.set_namespace_("team");
  quota.set_gpus(4);
  batch.put_quotas = {quota};
  ASSERT_TRUE(store_->Commit(batch).ok());

  const absl::StatusOr<StoreContents> contents = store_->Load(absl::Now());
  ASSERT_TRUE(contents.ok());
  ASSERT_EQ(contents->jobs.size(), 2u);
  EXPECT_EQ(contents->jobs[0].job->name(), "job-1");
  EXPECT_EQ(contents->jobs[0].tokens.at(2), "secret");
  EXPECT_EQ(contents->jobs[0].state.running_since, kTime);
  EXPECT_EQ(contents->jobs[0].state.rescaling_since, kTime + absl::Seconds(1));
  EXPECT_TRUE(contents->jobs[0].decision.unschedulable);
  EXPECT_EQ(contents->jobs[1].state.running_since, absl::InfinitePast());
  EXPECT_EQ(contents->jobs[1].state.rescaling_since, absl::InfinitePast());
  ASSERT_EQ(contents->quotas.size(), 1u);
  EXPECT_EQ(contents->quotas[0].gpus(), 4);
  ASSERT_EQ(contents->replicas.size(), 2u) << "only those of the current group";
  EXPECT_EQ(contents->replicas[1].replica.rank(), 1);
  EXPECT_TRUE(contents->replicas[1].stop_requested);
  EXPECT_EQ(contents->replicas[1].loss, jobs::LossCause::kVanished);
  EXPECT_EQ(contents->replicas[1].address, "h:1");
  EXPECT_EQ(contents->nodes[0].session_id, 7);
  EXPECT_EQ(contents->deletions[0].job_uid, "uid-0");
  EXPECT_EQ(contents->last_sequence, 2);
  EXPECT_EQ(contents->last_event_id, 1);
  EXPECT_EQ(store_->ListReplicas("uid-1")->size(), 3u);
}

TEST_P(JobStoreTest, KeepsWhatLetsMachinesIn) {
  const JoinRecord unused = {"token/a", "", "", "request", kTime};
  const JoinRecord used = {"token/b", "node-1", "key", "", kTime + absl::Hours(1)};
  WriteBatch batch;
  batch.put_joins = {unused, used, {"instance/i-1", "node-2", "key", "", kTime}};
  ASSERT_TRUE(store_->Commit(batch).ok());
  WriteBatch changes;
  JoinRecord now_used = unused;
  now_used.node_id = "node-3";
  now_used.key = "another";
  changes.put_joins = {now_used};
  changes.delete_joins = {"instance/i-1"};
  EXPECT_FALSE(changes.empty());
  ASSERT_TRUE(store_->Commit(changes).ok());
  const absl::StatusOr<StoreContents> contents = store_->Load(absl::Now());
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(contents->joins, (std::vector<JoinRecord>{now_used, used}));
}

TEST_P(JobStoreTest, KeepsChangesInPlace) {
  JobRecord job = MakeJob(1);
  job.state.group = 2;
  job.tokens = {{1, "one"}, {2, "two"}};
  job.state.rescale_note = "group 1 → 2";
  job.state.newcomer_failures = 3;
  jobs::Plan plan;
  plan.group = 3;
  plan.members = {{"r-1-0", "n1"}, {"", "n2"}};
  plan.since = kTime;
  plan.ready_after = absl::Seconds(2);
  jobs::Plan older = plan;
  older.members = {{"r-1-0", "n1"}};
  older.offered = older.committed = true;
  plan.group = 4;
  job.state.plans = {older, plan};
  job.tokens[3] = "three";
  job.tokens[4] = "four";
  WriteBatch batch;
  batch.put_jobs = {job};
  // A survivor of group 1, a newcomer that lives, and one that has left and ended.
  ReplicaRecord survivor = MakeReplica(1, 1);
  survivor.replica.set_group(2);
  survivor.replica.set_rank(0);
  survivor.rescales_in_place = survivor.end_handled = true;
  ReplicaRecord member = MakeReplica(2, 1);
  ReplicaRecord newcomer = MakeReplica(4, 1);
  newcomer.replica.set_state(v1::REPLICA_STATE_RUNNING);
  ReplicaRecord gone = MakeReplica(1, 0);
  gone.replica.set_state(v1::REPLICA_STATE_EXITED);
  batch.put_replicas = {newcomer, member, gone, survivor};
  ASSERT_TRUE(store_->Commit(batch).ok());

  absl::StatusOr<StoreContents> contents = store_->Load(absl::Now());
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(contents->jobs[0].state.plans, job.state.plans);
  EXPECT_EQ(contents->jobs[0].tokens.at(4), "four");
  EXPECT_EQ(contents->jobs[0].tokens.at(2), "two");
  EXPECT_EQ(contents->jobs[0].state.rescale_note, job.state.rescale_note);
  EXPECT_EQ(contents->jobs[0].state.newcomer_failures, 3);
  ASSERT_EQ(contents->replicas.size(), 3u);
  EXPECT_EQ(contents->replicas[0].replica.replica_id(), "r-1-1");
  EXPECT_EQ(contents->replicas[0].launch_group, 1);
  EXPECT_TRUE(contents->replicas[0].rescales_in_place);
  EXPECT_TRUE(contents->replicas[0].end_handled);
  EXPECT_EQ(contents->replicas[1].replica.replica_id(), "r-2-1");
  EXPECT_EQ(contents->replicas[2].replica.replica_id(), "r-4-1");

  job.state.plans.clear();
  batch.put_jobs = {job};
  ASSERT_TRUE(store_->Commit(batch).ok());
  contents = store_->Load(absl::Now());
  EXPECT_TRUE(contents->jobs[0].state.plans.empty());
}

TEST_P(JobStoreTest, NumbersAreNotUsedTwiceAfterDeletion) {
  WriteBatch batch;
  batch.put_jobs = {MakeJob(1)};
  batch.add_events = {MakeEvent(5, "Submitted")};
  batch.put_replicas = {MakeReplica(0, 0)};
  ASSERT_TRUE(store_->Commit(batch).ok());
  WriteBatch removal;
  removal.delete_jobs = {"uid-1"};
  ASSERT_TRUE(store_->Commit(removal).ok());
  const absl::StatusOr<StoreContents> contents = store_->Load(absl::Now());
  EXPECT_TRUE(contents->jobs.empty());
  EXPECT_EQ(contents->last_sequence, 1);
  EXPECT_EQ(contents->last_event_id, 5);
  EXPECT_TRUE(store_->ListEvents({"default", "job-1", 0, 10})->empty());
  EXPECT_TRUE(store_->ListReplicas("uid-1")->empty());
}

TEST_P(JobStoreTest, EventsComeInPagesAndByJob) {
  WriteBatch batch;
  batch.put_jobs = {MakeJob(1)};
  for (int i = 1; i <= 5; ++i) batch.add_events.push_back(MakeEvent(i, absl::StrCat("E", i)));
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_EQ(store_->ListEvents({"default", "job-1", 2, 2})->at(0).reason(), "E3");
  EXPECT_EQ(store_->ListEvents({"default", "", 0, 100})->size(), 5u);
  EXPECT_TRUE(store_->ListEvents({"default", "job-2", 0, 100})->empty());
}

TEST_P(JobStoreTest, EventsAreRemovedByTheirIds) {
  WriteBatch batch;
  batch.put_jobs = {MakeJob(1)};
  batch.add_events = {MakeEvent(1, "A"), MakeEvent(2, "B")};
  ASSERT_TRUE(store_->Commit(batch).ok());
  WriteBatch fold;
  fold.add_events = {MakeEvent(3, "A"), MakeEvent(4, "A")};
  fold.remove_events = {1, 3};
  ASSERT_TRUE(store_->Commit(fold).ok());
  const absl::StatusOr<std::vector<v1::Event>> events = store_->ListEvents({"default", "job-1", 0, 100});
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ(events->at(0).id(), 2);
  EXPECT_EQ(events->at(1).id(), 4);
  EXPECT_EQ(store_->Load(absl::Now())->last_event_id, 4);
}

TEST_P(JobStoreTest, OldEventsArePruned) {
  WriteBatch batch;
  batch.put_jobs = {MakeJob(1)};
  for (int64_t id = 1; id <= 20; ++id) {
    batch.add_events.push_back(MakeEvent(id, "Reason"));
    batch.add_events.back().mutable_time()->set_seconds(absl::ToUnixSeconds(kTime) + id);
  }
  ASSERT_TRUE(store_->Commit(batch).ok());
  for (const int64_t kept : {20, 12, 12, 1, 0}) {
    ASSERT_TRUE(store_->PruneEvents(kTime + absl::Seconds(21 - kept)).ok());
    const absl::StatusOr<std::vector<v1::Event>> events = store_->ListEvents({"default", "job-1", 0, 100});
    ASSERT_TRUE(events.ok());
    ASSERT_EQ(static_cast<int64_t>(events->size()), kept);
    if (kept > 0) {
      EXPECT_EQ(events->front().id(), 21 - kept);
    }
  }
}

TEST_P(JobStoreTest, EventsEndWhereTheirBytesDo) {
  WriteBatch batch;
  batch.put_jobs = {MakeJob(1)};
  for (int64_t i = 1; i <= 10; ++i) batch.add_events.push_back(MakeEvent(i, std::string(1000, 'x')));
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_EQ(store_->ListEvents({"default", "job-1", 0, 100, 2500})->size(), 3u);
  EXPECT_EQ(store_->ListEvents({"default", "job-1", 3, 100, 2500})->front().id(), 4);
  EXPECT_EQ(store_->ListEvents({"default", "job-1", 0, 100, 0})->size(), 1u);
  EXPECT_EQ(store_->ListEvents({"default", "job-1", 0, 100})->size(), 10u);
}

TEST_P(JobStoreTest, DeletionsAreFinishedOneByOneOrByNode) {
  WriteBatch batch;
  batch.add_deletions = {{"n1", "default", "a", "uid-a"},
                         {"n1", "default", "b", "uid-b"},
                         {"n2", "default", "a", "uid-a"},
                         {"n3", "default", "a", "uid-a"}};
  ASSERT_TRUE(store_->Commit(batch).ok());
  WriteBatch done;
  done.remove_deletions = {{"n1", "uid-a"}};
  done.finish_deletions = {"n3"};
  ASSERT_TRUE(store_->Commit(done).ok());
  std::set<std::string> left;
  const absl::StatusOr<StoreContents> contents = store_->Load(absl::Now());
  for (const FileDeletion& deletion : contents->deletions) {
    left.insert(absl::StrCat(deletion.node_id, " ", deletion.job_uid));
  }
  EXPECT_EQ(left, (std::set<std::string>{"n1 uid-b", "n2 uid-a"}));
}

TEST_P(JobStoreTest, OnlyTheNewestReplicasThatHaveEndedAreRemembered) {
  JobRecord job = MakeJob(1);
  job.state.group = 50;
  WriteBatch batch;
  batch.put_jobs = {job};
  for (int64_t group = 1; group <= 50; ++group) {
    for (int rank = 0; rank < 2; ++rank) {
      batch.put_replicas.push_back(MakeReplica(group, rank));
      batch.put_replicas.back().replica.set_state(v1::REPLICA_STATE_EXITED);
    }
  }
  // Old ones that are still there, or were until now.
  batch.put_replicas[0].replica.set_state(v1::REPLICA_STATE_RUNNING);
  batch.put_replicas[3].replica.set_group(50);
  ASSERT_TRUE(store_->Commit(batch).ok());
  ASSERT_TRUE(store_->PruneReplicas("uid-1", 100).ok());
  EXPECT_EQ(store_->ListReplicas("uid-1")->size(), 100u);
  ASSERT_TRUE(store_->PruneReplicas("uid-1", 9).ok());
  std::vector<int64_t> groups;
  const absl::StatusOr<std::vector<ReplicaRecord>> left = store_->ListReplicas("uid-1");
  for (const ReplicaRecord& replica : *left) groups.push_back(replica.launch_group);
  EXPECT_EQ(groups, (std::vector<int64_t>{1, 2, 46, 46, 47, 47, 48, 48, 49, 49, 50, 50}));
  ASSERT_TRUE(store_->PruneReplicas("uid-of-nobody", 0).ok());
}

TEST_P(JobStoreTest, RequestsAreKeptUntilPruned) {
  WriteBatch batch;
  const std::string content("\0\1", 2);
  batch.put_request = RequestRecord{{"alice", "a", "id", "SubmitJob", content}, "answer", kTime};
  ASSERT_TRUE(store_->Commit(batch).ok());
  const auto found = store_->FindRequest("alice", "a", "id");
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->response, "answer");
  EXPECT_EQ((*found)->time, kTime);
  EXPECT_EQ((*found)->key.caller, "alice");
  EXPECT_EQ((*found)->key.name_space, "a");
  EXPECT_EQ((*found)->key.method, "SubmitJob");
  EXPECT_EQ((*found)->key.content, content);
  EXPECT_FALSE(store_->FindRequest("alice", "a", "other")->has_value());
  EXPECT_FALSE(store_->FindRequest("bob", "a", "id")->has_value());
  EXPECT_FALSE(store_->FindRequest("alice", "b", "id")->has_value());
  batch.put_request = RequestRecord{{"bob", "a", "id", "SubmitJob", content}, "another", kTime};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_EQ((*store_->FindRequest("alice", "a", "id"))->response, "answer");
  ASSERT_TRUE(store_->PruneRequests(kTime).ok());
  EXPECT_TRUE(store_->FindRequest("alice", "a", "id")->has_value());
  ASSERT_TRUE(store_->PruneRequests(kTime + absl::Seconds(1)).ok());
  EXPECT_FALSE(store_->FindRequest("alice", "a", "id")->has_value());
}

TEST(SqliteJobStoreTest, FullDiskIsNamedAndLeavesNothingHalfDone) {
  const Folder folder;
  const auto store = OpenSqlite(folder.path(), 256 << 10);
  WriteBatch small;
  small.put_jobs = {MakeJob(1)};
  ASSERT_TRUE(store->Commit(small).ok());
  WriteBatch large;
  large.put_jobs = {MakeJob(2)};
  large.put_request = RequestRecord{{"", "", "large", "SubmitJob", "x"}, std::string(1 << 20, 'x'), kTime};
  const absl::Status status = store->Commit(large);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(store->Load(absl::Now())->jobs.size(), 1u);
  // There is room for something small, still.
  WriteBatch event;
  event.add_events = {MakeEvent(1, "Submitted")};
  EXPECT_TRUE(store->Commit(event).ok());
}

TEST(SqliteJobStoreTest, ABackupIsTakenWhileOthersCommit) {
  const Folder folder;
  const auto store = OpenSqlite(folder.path());
  WriteBatch batch;
  for (int64_t i = 1; i <= 200; ++i) {
    batch.put_jobs.push_back(MakeJob(i));
    auto job = std::make_shared<v1::Job>(*batch.put_jobs.back().job);
    job->mutable_spec()->mutable_template_()->add_args(std::string(100'000, 'x'));
    batch.put_jobs.back().job = job;
  }
  ASSERT_TRUE(store->Commit(batch).ok());
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int64_t i = 201; !done; ++i) {
      WriteBatch one;
      one.put_jobs = {MakeJob(i)};
      ASSERT_TRUE(store->Commit(one).ok());
    }
  });
  const absl::StatusOr<std::string> backup = store->Backup();
  done = true;
  writer.join();
  ASSERT_TRUE(backup.ok()) << backup.status();
  const Folder copy;
  const absl::StatusOr<Restored> restored = RestoreStore(*backup, copy.path(), false, RealClock());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_GE(restored->state.jobs, 200);
  const absl::StatusOr<StoreContents> contents =
      OpenSqlite(copy.path(), 0, "supervisor-1.db")->Load(absl::Now());
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(static_cast<int64_t>(contents->jobs.size()), restored->state.jobs);
}

TEST(SqliteJobStoreTest, BackupsThatAProcessLeftBehindGoWithTheNextStart) {
  const Folder folder;
  std::filesystem::create_directories(folder.path());
  for (const char* name : {"/backup-0123456789abcdef.db", "/backup-0123456789abcdef.db-journal"}) {
    std::ofstream(folder.path() + name) << "half a copy";
  }
  std::ofstream(folder.path() + "/my-backup.db") << "not ours";
  const auto store = OpenSqlite(folder.path());
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("backup-")) << entry.path();
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/my-backup.db"));
}

TEST(SqliteJobStoreTest, OneStoreAtATime) {
  const Folder folder;
  const auto store = OpenSqlite(folder.path());
  SqliteJobStoreOptions options;
  options.folder = folder.path();
  options.busy_timeout = absl::ZeroDuration();
  EXPECT_EQ(SqliteJobStore::Open(options).status().code(), absl::StatusCode::kUnavailable);
}

TEST(SqliteJobStoreTest, DamageIsFoundAtTheStart) {
  const Folder folder;
  std::filesystem::create_directories(folder.path());
  std::ofstream(folder.path() + "/supervisor.db") << std::string(8192, 'x');
  SqliteJobStoreOptions options;
  options.folder = folder.path();
  EXPECT_EQ(SqliteJobStore::Open(options).status().code(), absl::StatusCode::kDataLoss);
}

TEST(SqliteJobStoreTest, FolderThatCannotBeMadeIsNamed) {
  SqliteJobStoreOptions options;
  options.folder = "/proc/nowhere/state";
  const absl::Status status = SqliteJobStore::Open(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find(options.folder), std::string::npos);
}

// The child commits jobs and tells of each one that was acknowledged; it is killed in mid-write.
TEST(SqliteJobStoreTest, AcknowledgedRowsSurviveKill) {
  for (int round = 0; round < 3; ++round) {
    const Folder folder;
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      SqliteJobStoreOptions options;
      options.folder = folder.path();
      auto store = SqliteJobStore::Open(options);
      for (int64_t i = 1; store.ok(); ++i) {
        WriteBatch batch;
        batch.put_jobs = {MakeJob(i)};
        if (!(*store)->Commit(batch).ok() || write(pipe_ends[1], &i, sizeof(i)) != sizeof(i)) break;
      }
      _exit(1);
    }
    close(pipe_ends[1]);
    int64_t acknowledged = 0;
    int64_t next = 0;
    while (acknowledged < 20 + round && read(pipe_ends[0], &next, sizeof(next)) == sizeof(next))
      acknowledged = next;
    kill(child, SIGKILL);
    while (read(pipe_ends[0], &next, sizeof(next)) == sizeof(next)) acknowledged = next;
    close(pipe_ends[0]);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    ASSERT_GE(acknowledged, 20);
    const auto store = OpenSqlite(folder.path());
    ASSERT_NE(store, nullptr);
    const absl::StatusOr<StoreContents> contents = store->Load(absl::Now());
    ASSERT_TRUE(contents.ok());
    EXPECT_GE(static_cast<int64_t>(contents->jobs.size()), acknowledged);
    EXPECT_LE(static_cast<int64_t>(contents->jobs.size()), acknowledged + 1);
  }
}

TEST(MigrationsTest, StepsAreDoneOnceAndInOrder) {
  const Folder folder;
  std::filesystem::create_directories(folder.path());
  absl::StatusOr<Database> database = Database::Open(folder.path() + "/a.db");
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE(Migrate(&*database, {"CREATE TABLE a (x)"}).ok());
  // A step that fails leaves the version before it, and nothing of its own.
  EXPECT_FALSE(Migrate(&*database, {"CREATE TABLE a (x)", "CREATE TABLE b (x); nonsense"}).ok());
  EXPECT_EQ(*database->Query("PRAGMA user_version"), "1");
  ASSERT_TRUE(Migrate(&*database, {"CREATE TABLE a (x)", "CREATE TABLE b (x)"}).ok());
  EXPECT_EQ(*database->Query("PRAGMA user_version"), "2");
  EXPECT_EQ(Migrate(&*database, {"CREATE TABLE a (x)"}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(JobStoreTest, QuotasAreReplacedAndRemoved) {
  v1::NamespaceQuota quota;
  quota.set_namespace_("team");
  WriteBatch batch;
  for (const int gpus : {1, 2}) {
    quota.set_gpus(gpus);
    batch.put_quotas = {quota};
    ASSERT_TRUE(store_->Commit(batch).ok());
  }
  ASSERT_EQ(store_->Load(absl::Now())->quotas.size(), 1u);
  EXPECT_EQ(store_->Load(absl::Now())->quotas[0].gpus(), 2);
  batch = {};
  batch.delete_quotas = {"team"};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_TRUE(store_->Load(absl::Now())->quotas.empty());
}

// One row in every table of a store of `version`.
void FillStore(const std::string& folder, size_t version) {
  std::filesystem::create_directories(folder);
  absl::StatusOr<Database> database = Database::Open(folder + "/supervisor.db");
  ASSERT_TRUE(database.ok()) << database.status();
  const std::vector<std::string>& steps = SchemaSteps();
  ASSERT_TRUE(Migrate(&*database, {steps.begin(), steps.begin() + static_cast<int64_t>(version)}).ok());
  std::vector<std::string> rows = {
      absl::StrCat("INSERT INTO jobs (sequence, uid, namespace, name, phase, grp, spec, status) "
                   "VALUES (1, 'uid-1', 'default', 'old', 1, 1, x'",
                   absl::BytesToHexString(MakeJob(1).job->SerializeAsString()), "', '')"),
      "INSERT INTO tokens (job_uid, grp, token) VALUES ('uid-1', 1, 'secret')",
      "INSERT INTO replicas (job_uid, grp, rank, replica, stop_requested, node_leaving, loss, address) "
      "VALUES ('uid-1', 1, 0, '', 0, 0, 0, 'h:1')",
      "INSERT INTO events (job_uid, namespace, job, event) VALUES ('uid-1', 'default', 'old', '')",
      "INSERT INTO nodes (node_id, session_id, node) VALUES ('n1', 7, '')",
      version < 8
          ? "INSERT INTO requests (request_id, method, time, response) VALUES ('id', 'SubmitJob', 1, '')"
          : "INSERT INTO answers (caller, namespace, request_id, method, content, time, response) "
            "VALUES ('', '', 'id', 'SubmitJob', '', 1, '')",
      absl::StrCat("INSERT INTO ", version < 5 ? "deletions" : "file_deletions",
                   " (node_id, namespace, job, job_uid) VALUES ('n1', 'default', 'gone', 'uid-0')")};
  if (version >= 3) rows.emplace_back("INSERT INTO quotas (namespace, quota) VALUES ('team', '')");
  if (version >= 4) {
    rows.emplace_back(
        "INSERT INTO plans (job_uid, grp, rank, replica_id, node_id, firm, offered, since, ready_after) "
        "VALUES ('uid-1', 2, 0, 'r', 'n1', 0, 0, 1, 0)");
    rows.emplace_back("UPDATE replicas SET current_grp = grp, current_rank = rank");
  }
  for (const std::string& row : rows) {
    const absl::Status status = database->Execute(row);
    ASSERT_TRUE(status.ok()) << row << ": " << status;
  }
}

class MigrationFromTest : public testing::TestWithParam<size_t> {};

INSTANTIATE_TEST_SUITE_P(Versions, MigrationFromTest, testing::Range(size_t{1}, SchemaSteps().size() + 1));

TEST_P(MigrationFromTest, EverythingIsStillThere) {
  const Folder folder;
  ASSERT_NO_FATAL_FAILURE(FillStore(folder.path(), GetParam()));
  const auto store = OpenSqlite(folder.path());
  ASSERT_NE(store, nullptr);
  const absl::StatusOr<StoreContents> contents = store->Load(absl::Now());
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->jobs.size(), 1u);
  EXPECT_EQ(contents->jobs[0].tokens.at(1), "secret");
  EXPECT_EQ(contents->jobs[0].state.rescaling_since, absl::InfinitePast());
  ASSERT_EQ(contents->replicas.size(), 1u);
  EXPECT_EQ(contents->replicas[0].launch_group, 1);
  EXPECT_EQ(contents->nodes.size(), 1u);
  EXPECT_EQ(contents->last_event_id, 1);
  ASSERT_EQ(contents->deletions.size(), 1u);
  EXPECT_EQ(contents->deletions[0].node_id, "n1");
  EXPECT_EQ(contents->deletions[0].name_space, "default");
  EXPECT_EQ(contents->deletions[0].job, "gone");
  EXPECT_EQ(contents->deletions[0].job_uid, "uid-0");
  const auto request = store->FindRequest("", "", "id");
  ASSERT_TRUE(request.ok() && request->has_value());
  EXPECT_EQ((*request)->key.method, "SubmitJob");
  EXPECT_EQ((*request)->key.content, "");
}

}  // namespace
}  // namespace adaptdl::supervisor
