// Jobs that are held, resumed and changed after their submission, over real gRPC, on a state that is kept.

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class UpdateTest : public ClusterTest {
 protected:
  std::unique_ptr<JobStore> MakeStore() override {
    SqliteJobStoreOptions options;
    options.folder = folder_.path();
    auto store = SqliteJobStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  static v1::UpdateJobRequest UpdateOf(const std::string& name) {
    v1::UpdateJobRequest request;
    request.set_request_id(RandomHex(8));
    request.set_name(name);
    return request;
  }
  grpc::Status Update(const v1::UpdateJobRequest& request) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::UpdateJobResponse response;
    return jobs_->UpdateJob(&context, request, &response);
  }
  void Hold(const std::string& name, bool held) {
    v1::UpdateJobRequest request = UpdateOf(name);
    request.set_suspend(held);
    const grpc::Status status = Update(request);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  // What the allocator sees of the job.
  v1::JobSpec Seen(const std::string& name) {
    const v1::ClusterSnapshot snapshot = Snapshot();
    for (const v1::Job& job : snapshot.jobs()) {
      if (job.name() == name) return job.spec();
    }
    ADD_FAILURE() << name << " is not in the snapshot";
    return {};
  }

  TemporaryFolder folder_;
};

TEST_F(UpdateTest, AHeldJobGivesUpWhatItHasAndGoesOnWhenItIsResumed) {
  const auto worker = AddWorker("n1");
  v1::Job wanted = NewJob("a");
  wanted.mutable_spec()->set_preemptible(false);
  const v1::Job job = Submit(wanted);
  Allocate(job, {"n1"});
  const v1::LaunchReplica launch = worker->NextLaunch();
  worker->Running(launch);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);

  Hold("a", true);
  EXPECT_EQ(worker->NextStop().replica_id(), launch.replica_id());
  worker->Exited(launch, 143);
  const v1::Job held = WaitFor("a", [](const v1::Job& job) {
    return job.status().reason() == "Suspended" && job.status().phase() == v1::JOB_PHASE_PENDING;
  });
  EXPECT_TRUE(held.spec().suspend());
  EXPECT_THAT(held.status().desired_allocation(), IsEmpty());
  EXPECT_EQ(held.status().failures(), 0);
  EXPECT_TRUE(Seen("a").suspend());
  const grpc::Status refused = Apply({AllocationOf(job, {"n1"})});
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("is held by its user"));

  Hold("a", false);
  Allocate(job, {"n1"});
  const v1::LaunchReplica again = worker->NextLaunch();
  EXPECT_EQ(again.group(), 2);
  worker->Running(again);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  EXPECT_TRUE(HasEvent("a", "Suspended"));
  EXPECT_TRUE(HasEvent("a", "Resumed"));
}

TEST_F(UpdateTest, AJobIsSubmittedHeld) {
  v1::Job wanted = NewJob("a");
  wanted.mutable_spec()->set_suspend(true);
  Submit(wanted);
  Hold("a", true);  // It is already.
  EXPECT_FALSE(HasEvent("a", "Suspended"));
  EXPECT_TRUE(Seen("a").suspend());
  Hold("a", false);
  EXPECT_FALSE(Seen("a").suspend());
}

TEST_F(UpdateTest, BoundsAndPriorityReachTheAllocatorAndOutliveTheSupervisor) {
  Submit(NewJob("a"));
  const int64_t version = Snapshot().version();
  v1::UpdateJobRequest request = UpdateOf("a");
  request.set_min_replicas(2);
  request.set_max_replicas(4);
  request.set_priority(7);
  request.set_suspend(true);
  ASSERT_TRUE(Update(request).ok());
  EXPECT_GT(Snapshot().version(), version);
  for (const bool restarted : {false, true}) {
    if (restarted) {
      Stop();
      Start();
    }
    const v1::JobSpec seen = Seen("a");
    EXPECT_EQ(seen.min_replicas(), 2) << restarted;
    EXPECT_EQ(seen.max_replicas(), 4) << restarted;
    EXPECT_EQ(seen.priority(), 7) << restarted;
    EXPECT_TRUE(seen.suspend()) << restarted;
    EXPECT_EQ(Get("a").spec().template_().command(0), "train") << restarted;
  }
  std::vector<std::string> messages;
  for (const v1::Event& event : Events("a")) messages.push_back(event.message());
  EXPECT_THAT(messages, Contains("min_replicas from 0 to 2, max_replicas from 8 to 4, priority from 0 to 7"));
  // The same call once more is answered as before, and does nothing.
  v1::UpdateJobRequest later = UpdateOf("a");
  later.set_priority(1);
  ASSERT_TRUE(Update(later).ok());
  ASSERT_TRUE(Update(request).ok());
  EXPECT_EQ(Get("a").spec().priority(), 1);
}

TEST_F(UpdateTest, WhatMakesNoSenseChangesNothing) {
  Submit(NewJob("a"));
  v1::UpdateJobRequest request = UpdateOf("a");
  request.set_min_replicas(9);
  request.set_priority(3);
  const grpc::Status refused = Update(request);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("spec.min_replicas: 9: is more than max_replicas, 8"));
  EXPECT_EQ(Get("a").spec().priority(), 0);
  EXPECT_EQ(Update(UpdateOf("ghost")).error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(Cancel("a").ok());
  WaitForPhase("a", v1::JOB_PHASE_CANCELLED);
  EXPECT_EQ(Update(UpdateOf("a")).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace adaptdl::supervisor
