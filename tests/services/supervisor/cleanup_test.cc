// What is over goes, also if somebody was away or said nothing.

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

class CleanupTest : public ClusterTest {
 protected:
  CleanupTest() {
    options_.cluster.heartbeat_period = absl::Hours(10);  // The clock goes on, and the workers say nothing.
    options_.cluster.kept_replicas = 3;
  }

  std::unique_ptr<FakeWorker> AddConfirmingWorker(const std::string& id) {
    auto worker = std::make_unique<FakeWorker>(channel_, id);
    EXPECT_TRUE(worker->Register().ok());
    worker->Connect({}, {}, true);
    worker->AwaitHeard();
    return worker;
  }
  static void Confirm(FakeWorker* worker, const std::string& uid) {
    v1::ConnectRequest request;
    request.mutable_job_files_deleted()->set_job_uid(uid);
    worker->Send(request);
  }

  // The uid of a job that was submitted, cancelled and deleted.
  std::string SubmitAndDelete(const std::string& name) {
    const v1::Job job = Submit(NewJob(name));
    EXPECT_TRUE(Cancel(name).ok());
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::DeleteJobRequest request;
    request.set_request_id(RandomHex(8));
    request.set_name(name);
    v1::DeleteJobResponse response;
    const grpc::Status status = jobs_->DeleteJob(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.uid();
  }
  v1::LaunchReplica last_;

  size_t Deletions() { return memory_->Load(absl::Now())->deletions.size(); }
};

TEST_F(CleanupTest, ANodeIsToldToDeleteAJobsFilesUntilItHas) {
  const auto n1 = AddConfirmingWorker("n1");
  const std::string uid = SubmitAndDelete("a");
  EXPECT_EQ(n1->Next().delete_job_files().job_uid(), uid);
  EXPECT_EQ(Deletions(), 1u);
  // The worker ended in the middle of it.
  n1->Disconnect();
  ASSERT_TRUE(n1->Register().ok());
  n1->Connect({}, {}, true);
  EXPECT_EQ(n1->Next().delete_job_files().job_uid(), uid);
  // Or it could not do it.
  Advance(absl::Minutes(11), absl::Minutes(1));
  const v1::ConnectResponse again = n1->Next();
  EXPECT_EQ(again.delete_job_files().job_uid(), uid);
  EXPECT_EQ(again.delete_job_files().job(), "a");
  Confirm(n1.get(), uid);
  Confirm(n1.get(), "of a job that nobody knows");
  n1->AwaitHeard();
  EXPECT_EQ(Deletions(), 0u);
  n1->Disconnect();
  ASSERT_TRUE(n1->Register().ok());
  n1->Connect({}, {}, true);
  n1->AwaitHeard();
}

TEST_F(CleanupTest, AWorkerOfAnOlderVersionIsToldOnce) {
  const auto n1 = AddWorker("n1");
  n1->AwaitHeard();
  SubmitAndDelete("a");
  EXPECT_EQ(n1->Next().delete_job_files().job(), "a");
  EXPECT_EQ(Deletions(), 0u);
  // Its stream is over with a newer session, whenever the supervisor hears that it was broken off.
  ASSERT_TRUE(n1->Register().ok());
  n1->Disconnect();
  SubmitAndDelete("b");
  EXPECT_EQ(Deletions(), 1u);
  n1->Connect();
  EXPECT_EQ(n1->Next().delete_job_files().job(), "b");
  n1->AwaitHeard();
  EXPECT_EQ(Deletions(), 0u);
}

TEST_F(CleanupTest, WhatANodeIsToDeleteIsForgottenWithTheNode) {
  const auto n1 = AddConfirmingWorker("n1");
  SubmitAndDelete("a");
  EXPECT_EQ(Deletions(), 1u);
  // It leaves, and is gone when it is silent.
  v1::ConnectRequest notice;
  notice.mutable_preemption_notice()->set_reason("spot reclaim");
  n1->Send(notice);
  n1->AwaitHeard();
  n1->Disconnect();
  Advance(absl::Hours(31), absl::Hours(1));
  EXPECT_EQ(memory_->Load(absl::Now())->nodes.size(), 0u);
  EXPECT_EQ(Deletions(), 0u);
}

TEST_F(CleanupTest, ReplicasThatHaveEndedAreForgottenButForTheNewest) {
  const std::unique_ptr<FakeWorker> workers[] = {AddWorker("n0"), AddWorker("n1")};
  const v1::Job job = Submit(NewJob("a"));
  constexpr int kGroups = 14;
  for (int i = 0; i < kGroups; ++i) {
    FakeWorker* worker = workers[i % 2].get();
    Allocate(job, {absl::StrCat("n", i % 2)});
    last_ = worker->NextLaunch();
    worker->Running(last_);
    WaitFor("a", [&](const v1::Job& now) {
      return now.status().phase() == v1::JOB_PHASE_RUNNING && now.status().group() == last_.group();
    });
    if (i + 1 == kGroups) break;
    Allocate(job, {});
    worker->Exited(last_, 143);
    WaitForPhase("a", v1::JOB_PHASE_PENDING);
  }
  EXPECT_EQ(memory_->ListReplicas(job.uid())->size(), static_cast<size_t>(kGroups));
  Advance(absl::Minutes(11), absl::Minutes(1));
  EXPECT_EQ(memory_->ListReplicas(job.uid())->size(), 4u);
  EXPECT_EQ(Get("a").status().replicas(0).replica_id(), last_.replica_id());
}

}  // namespace
}  // namespace adaptdl::supervisor
