// What is written of jobs, when, and what of it the next leader reads.

#include "services/supervisor/kubernetes/store/kube_job_store.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "services/supervisor/kubernetes/store/quota_object.h"
#include "tests/services/supervisor/kubernetes/store/store_fixture.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;
using ::testing::AnyOf;
using ::testing::IsEmpty;

TEST_F(KubeStoreTest, TheNextLeaderReadsWhatWasWritten) {
  JobRecord record = AddJob("a", 5);
  const std::vector<ReplicaRecord> replicas = Run(&record);
  ASSERT_TRUE(Put(record, replicas).ok());
  JobRecord second = AddJob("b", 3);
  MakeObject("new");  // for kubernetes/jobs to add

  lease_.term_now = 8;
  Open();
  const StoreContents contents = Load();
  ASSERT_EQ(contents.jobs.size(), 2u);
  EXPECT_EQ(contents.jobs[0].uid(), second.uid()) << "in order of submission";
  EXPECT_EQ(contents.jobs[1].uid(), record.uid());
  EXPECT_EQ(contents.jobs[1].job->spec().max_replicas(), 4) << "wishes are in the spec";
  EXPECT_EQ(contents.jobs[1].state.allocation, record.state.allocation);
  EXPECT_EQ(contents.jobs[1].tokens.at(1), tokens_.Token(record.uid(), 1));
  ASSERT_EQ(contents.replicas.size(), 2u);
  EXPECT_EQ(contents.replicas[1].replica.replica_id(), replicas[1].replica.replica_id());
  EXPECT_EQ(contents.last_sequence, 5);
  EXPECT_EQ(store_->LargestTerm(), 7);
  EXPECT_TRUE(contents.damaged.empty());
  const auto object = store_->RawObject(record.uid());
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(*object, Get("a"));
}

TEST_F(KubeStoreTest, WhatIsSoftIsNotWritten) {
  JobRecord record = AddJob("a");
  std::vector<ReplicaRecord> replicas = Run(&record);
  replicas[0].replica.set_state(v1::REPLICA_STATE_LAUNCHING);
  ASSERT_TRUE(Put(record, replicas).ok());
  const int64_t before = Calls("patch");
  const std::string version = kube::ResourceVersionOf(Get("a"));

  replicas[0].replica.set_state(v1::REPLICA_STATE_RUNNING);
  replicas[0].replica.set_joined(true);
  replicas[0].address = "10.0.0.1:7";
  replicas[0].rescales_in_place = true;
  record.progress.emplace().set_fraction(0.5);
  record.times.estimated_completion = clock_.Now() + absl::Hours(1);
  record.state.running_since = clock_.Now();
  ASSERT_TRUE(Put(record, replicas).ok());
  const int64_t after_start = Calls("patch");
  for (int i = 0; i < 100; ++i) {
    clock_.Advance(absl::Seconds(10));
    record.progress->set_optimizer_steps(i);
    record.state.running_since += absl::Microseconds(i % 7);
    ASSERT_TRUE(Put(record, replicas).ok());
  }
  WriteBatch others;
  others.put_nodes.resize(3);
  others.add_deletions.resize(1);
  ASSERT_TRUE(store_->Commit(others).ok());
  EXPECT_EQ(after_start - before, 1) << "that it runs was news";
  EXPECT_EQ(Calls("patch"), after_start);
  EXPECT_NE(kube::ResourceVersionOf(Get("a")), version);
  EXPECT_EQ(Get("a")["status"]["readyReplicas"], 2);
}

TEST_F(KubeStoreTest, CostsAreKeptWithTheHistory) {
  const int64_t before = Calls("patch") + Calls("post");
  WriteBatch batch;
  batch.costs.put_rows = {{7, "team", "job", "uid", "spot", 5, 6, true}};
  batch.costs.nodes = {{"spot", "n1", 450, clock_.Now()}};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_EQ(Calls("patch") + Calls("post"), before);
  EXPECT_EQ(Load().costs.rows, batch.costs.put_rows);
}

TEST_F(KubeStoreTest, HintsAreWrittenOnceAMinuteAndIfTheyMoved) {
  JobRecord record = AddJob("a");
  const auto report = [&](double beta) {
    v1::Hints& hints = record.hints.emplace();
    hints.set_init_batch_size(128);
    hints.mutable_perf_params()->set_alpha_c(0.1);
    hints.mutable_perf_params()->set_beta_c(beta);
    hints.mutable_perf_params()->set_gamma(1);
    const int64_t before = Calls("patch");
    EXPECT_TRUE(Put(record).ok());
    return Calls("patch") - before;
  };
  EXPECT_EQ(report(0.01), 1);
  EXPECT_EQ(report(0.02), 0) << "too early";
  clock_.Advance(absl::Seconds(59));
  EXPECT_EQ(report(0.02), 0);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(report(0.0101), 0) << "nothing new";
  EXPECT_EQ(report(0.02), 1);
  EXPECT_EQ(report(0.03), 0);
  record.state.restarts = 1;
  EXPECT_EQ(report(0.03), 1) << "with what is written anyway";
  EXPECT_EQ(StatusOfJob("a")["train"]["perfParams"]["beta_c"], 0.03);
}

TEST_F(KubeStoreTest, AStatusThatCantBeReadIsSetAsideAndStays) {
  AddJob("good", 1);
  AddJob("damaged", 2);
  Patch(TargetOf("damaged").Sub("status"), {{"status", {{"plans", "none"}, {"term", 99}}}});
  AddJob("twice", 3);
  Patch(TargetOf("twice").Sub("status"), {{"status", {{"sequence", 1}}}});
  AddJob("senseless", 4);
  Patch(TargetOf("senseless"), {{"spec", {{"bad", true}}}});
  const Json before = Get("damaged");

  Open();
  const StoreContents contents = Load();
  ASSERT_EQ(contents.jobs.size(), 1u);
  EXPECT_THAT(contents.jobs[0].job->name(), AnyOf("good", "twice")) << "made in the same second";
  ASSERT_EQ(contents.set_aside.size(), 3u);
  ASSERT_EQ(contents.damaged.size(), 3u);
  for (const DamagedRow& row : contents.damaged) {
    EXPECT_EQ(row.table, "jobs");
    EXPECT_EQ(row.column, row.job == "senseless" ? "spec" : "status");
    EXPECT_FALSE(row.mended);
  }
  EXPECT_EQ(store_->LargestTerm(), 99);
  EXPECT_EQ(Get("damaged"), before);
}

TEST_F(KubeStoreTest, ABatchIsAboutOneJob) {
  EXPECT_FALSE(store_->atomic_batches());
  WriteBatch batch;
  batch.put_jobs = {AddJob("a", 1), AddJob("b", 2)};
  EXPECT_EQ(store_->Commit(batch).code(), absl::StatusCode::kInternal);
}

TEST_F(KubeStoreTest, DeletionTakesTheObjectAwayAndNoOtherOfItsName) {
  const JobRecord record = AddJob("a");
  const JobRecord other = AddJob("b", 2);
  WriteBatch batch;
  batch.delete_jobs = {record.uid()};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_TRUE(Get("a").is_null());
  EXPECT_EQ(store_->RawObject(record.uid()), nullptr);
  ASSERT_TRUE(store_->Commit(batch).ok()) << "it is gone";

  ASSERT_TRUE(client_.Delete(TargetOf("b"), {}).ok());
  const Json again = MakeObject("b");
  batch.delete_jobs = {other.uid()};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_EQ(kube::UidOf(Get("b")), kube::UidOf(again));
}

TEST_F(KubeStoreTest, OfAJobThatIsGoneNothingIsWritten) {
  JobRecord record = AddJob("a");
  ASSERT_TRUE(client_.Delete(TargetOf("a"), {}).ok());
  MakeObject("a");
  record.state.restarts = 1;
  EXPECT_TRUE(Put(record).ok());
  EXPECT_TRUE(StatusOfJob("a").is_null());
  EXPECT_THAT(lease_.given_up, IsEmpty());
}

TEST_F(KubeStoreTest, AJobThatWasNotSeenYetIsLookedUp) {
  const JobRecord record = RecordOf(MakeObject("a"));
  EXPECT_TRUE(Put(record).ok());
  EXPECT_EQ(StatusOfJob("a")["phase"], "Pending");
  ASSERT_NE(store_->RawObject(record.uid()), nullptr);
}

TEST_F(KubeStoreTest, AQuotaThatWasSeenIsNotWritten) {
  const kube::Target target = kube::ObjectOf(AdaptDLQuotas(), {"default", kQuotaName});
  v1::NamespaceQuota older;
  older.set_namespace_("default");
  older.set_weight(1);
  v1::NamespaceQuota newer = older;
  newer.set_gpus(8);
  ASSERT_TRUE(
      client_
          .Create(kube::Collection(AdaptDLQuotas(), "default"), QuotaObject(newer), {.field_manager = "test"})
          .ok());
  // The watch is behind: what it has seen must not come back.
  store_->SeenQuota("default", older);
  WriteBatch batch;
  batch.put_quotas = {older};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_EQ(kube::IntegerAt(*client_.Get(target), {"spec", "gpus"}), 8);
  // Nor goes what was made again.
  store_->SeenQuota("default", std::nullopt);
  WriteBatch removal;
  removal.delete_quotas = {"default"};
  ASSERT_TRUE(store_->Commit(removal).ok());
  EXPECT_TRUE(client_.Get(target).ok());
  // What is decided here is written.
  batch.put_quotas[0].set_gpus(2);
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_EQ(kube::IntegerAt(*client_.Get(target), {"spec", "gpus"}), 2);
}

TEST_F(KubeStoreTest, AQuotaNeedsItsNamespace) {
  WriteBatch batch;
  batch.put_quotas.emplace_back().set_namespace_("nowhere");
  const absl::Status status = store_->Commit(batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("no namespace \"nowhere\""));
}

TEST_F(KubeStoreTest, QuotasAreObjects) {
  WriteBatch batch;
  v1::NamespaceQuota& quota = batch.put_quotas.emplace_back();
  quota.set_namespace_("default");
  quota.set_weight(2);
  quota.set_gpus(8);
  ASSERT_TRUE(store_->Commit(batch).ok());
  quota.set_gpus(4);
  ASSERT_TRUE(store_->Commit(batch).ok());
  Open();
  StoreContents contents = Load();
  ASSERT_EQ(contents.quotas.size(), 1u);
  EXPECT_EQ(contents.quotas[0].SerializeAsString(), quota.SerializeAsString());

  WriteBatch removal;
  removal.delete_quotas = {"default"};
  ASSERT_TRUE(store_->Commit(removal).ok());
  ASSERT_TRUE(store_->Commit(removal).ok()) << "it is gone";
  EXPECT_THAT(Load().quotas, IsEmpty());
}

TEST_F(KubeStoreTest, HistoryKeepsEventsAnswersAndReplicasButNoSecrets) {
  JobRecord record = AddJob("a");
  std::vector<ReplicaRecord> replicas = Run(&record);
  record.tokens = {{1, "secret"}};
  EventQuery of_default;
  of_default.name_space = "default";
  WriteBatch batch;
  batch.put_jobs = {record};
  batch.put_replicas = replicas;
  v1::Event& event = batch.add_events.emplace_back();
  event.set_id(1);
  event.set_namespace_("default");
  event.set_job("a");
  event.set_job_uid(record.uid());
  RequestRecord& request = batch.put_request.emplace();
  request.key = {"user", "default", "r1", "SubmitJob", "content"};
  request.time = clock_.Now();
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_EQ(store_->ListEvents(of_default)->size(), 1u);
  EXPECT_EQ(store_->ListReplicas(record.uid())->size(), 2u);
  EXPECT_TRUE(store_->FindRequest("user", "default", "r1")->has_value());
  EXPECT_THAT(history_.Load(clock_.Now())->jobs[0].tokens, IsEmpty());
  EXPECT_GE(Load().last_event_id, absl::ToUnixMicros(clock_.Now())) << "no other leader has used it";

  // Nobody was there when it was deleted.
  ASSERT_TRUE(client_.Delete(TargetOf("a"), {}).ok());
  Open();
  Load();
  EXPECT_THAT(*store_->ListEvents(of_default), IsEmpty());
}

TEST_F(KubeStoreTest, TheLossOfHistoryStopsNothing) {
  history_.FailCommits(absl::UnavailableError("the disk is gone"));
  JobRecord record = AddJob("a");
  EXPECT_EQ(StatusOfJob("a")["phase"], "Pending");
}

}  // namespace
}  // namespace adaptdl::supervisor
