// Who reads waits for nobody who writes, and nobody who writes waits for who reads.

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

// A store of which commits can be held up, and with them the state's lock.
class HeldStore final : public MemoryJobStore {
 public:
  absl::Status Commit(const WriteBatch& batch) override {
    {
      MutexLock lock(&mutex_);
      ++waiting_;
      changed_.SignalAll();
      while (held_) changed_.Wait(&mutex_);
      --waiting_;
    }
    return MemoryJobStore::Commit(batch);
  }
  void Hold() {
    MutexLock lock(&mutex_);
    held_ = true;
  }
  void Release() {
    MutexLock lock(&mutex_);
    held_ = false;
    changed_.SignalAll();
  }
  void AwaitCommit() {
    MutexLock lock(&mutex_);
    while (waiting_ == 0) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ReadsTest : public ClusterTest {
 protected:
  std::unique_ptr<JobStore> MakeStore() override {
    auto store = std::make_unique<HeldStore>();
    memory_ = held_ = store.get();
    return store;
  }

  HeldStore* held_ = nullptr;
};

TEST_F(ReadsTest, WaitForNoChange) {
  constexpr int kJobs = 3000;
  const auto worker = AddWorker("n1");
  v1::SetQuotaRequest quota;
  quota.set_request_id("quota");
  quota.set_namespace_("team");
  ASSERT_TRUE(supervisor_->cluster()->quotas()->SetQuota(quota, "").ok());
  for (int i = 0; i < kJobs; ++i) {
    v1::SubmitJobRequest request;
    request.set_request_id(absl::StrCat(i));
    *request.mutable_job() = NewJob(absl::StrCat("job-", i));
    for (int k = 0; k < 8; ++k) (*request.mutable_job()->mutable_labels())[absl::StrCat("key-", k)] = "value";
    if (i == kJobs - 1) (*request.mutable_job()->mutable_labels())["wanted"] = "yes";
    ASSERT_TRUE(supervisor_->cluster()->jobs()->SubmitJob(std::move(request), "").ok());
  }
  held_->Hold();
  grpc::Status submitted;
  std::thread writer([&] { submitted = TrySubmit(NewJob("late")); });
  held_->AwaitCommit();

  // The state's lock is held from here on. Each of these would run into its deadline if it took it.
  v1::ListJobsRequest filter;
  filter.set_namespace_("*");
  (*filter.mutable_labels())["wanted"] = "yes";
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListJobsResponse jobs;
    const grpc::Status status = jobs_->ListJobs(&context, filter, &jobs);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(jobs.jobs_size(), 1);
  }
  EXPECT_EQ(Get("job-7").name(), "job-7");
  EXPECT_FALSE(Events("job-7").empty());
  EXPECT_EQ(Snapshot().jobs_size(), kJobs);
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListNodesResponse nodes;
    EXPECT_TRUE(nodes_->ListNodes(&context, {}, &nodes).ok());
    EXPECT_EQ(nodes.nodes_size(), 1);
  }
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListQuotasResponse quotas;
    EXPECT_TRUE(quotas_->ListQuotas(&context, {}, &quotas).ok());
    EXPECT_EQ(quotas.quotas_size(), 1);
  }
  WaitForPhase("job-9", v1::JOB_PHASE_PENDING);
  v1::GetJobRequest unknown;
  unknown.set_name("late");
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::GetJobResponse response;
    EXPECT_EQ(jobs_->GetJob(&context, unknown, &response).error_code(), grpc::StatusCode::NOT_FOUND)
        << "what is not stored is not shown";
  }
  held_->Release();
  writer.join();
  EXPECT_TRUE(submitted.ok()) << submitted.error_message();
  EXPECT_EQ(Get("late").name(), "late");
}

TEST_F(ReadsTest, NodesSayWhatIsHeldOfThem) {
  const auto worker = AddWorker("n1");
  const auto other = AddWorker("n2");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n1", "n1"});
  const v1::LaunchReplica first = worker->NextLaunch();
  const v1::LaunchReplica second = worker->NextLaunch();
  worker->Running(first);
  worker->Running(second);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  const auto replicas = [&] {
    const absl::StatusOr<v1::ListNodesResponse> nodes = supervisor_->cluster()->nodes()->ListNodes({});
    EXPECT_EQ(nodes->nodes_size(), 2);
    return std::make_pair(nodes->nodes(0).status().replicas(), nodes->nodes(1).status().replicas());
  };
  EXPECT_EQ(replicas(), std::make_pair(2, 0));
  ASSERT_TRUE(Cancel("a").ok());
  worker->Exited(first, 143);
  worker->Exited(second, 143);
  WaitForPhase("a", v1::JOB_PHASE_CANCELLED);
  EXPECT_EQ(replicas(), std::make_pair(0, 0));
}

}  // namespace
}  // namespace adaptdl::supervisor
