// JobService as its clients see it: submission, lists, watches, deletion, and stores that fail.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

class JobsApiTest : public ClusterTest {
 protected:
  v1::ListJobsResponse List(const v1::ListJobsRequest& request) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListJobsResponse response;
    const grpc::Status status = jobs_->ListJobs(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status Delete(const std::string& name, const std::string& request_id = RandomHex(8)) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::DeleteJobRequest request;
    request.set_request_id(request_id);
    request.set_name(name);
    v1::DeleteJobResponse response;
    return jobs_->DeleteJob(&context, request, &response);
  }
};

TEST_F(JobsApiTest, RepeatedRequestsReturnTheFirstResult) {
  v1::Job first;
  v1::Job second;
  ASSERT_TRUE(TrySubmit(NewJob("a"), &first, "the-id").ok());
  ASSERT_TRUE(TrySubmit(NewJob("a"), &second, "the-id").ok());
  EXPECT_EQ(first.uid(), second.uid());
  EXPECT_EQ(TrySubmit(NewJob("a"), nullptr, "another").error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(TrySubmit(NewJob("b"), nullptr, "").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  // An id that was used for something else is a mistake of the caller.
  EXPECT_EQ(Delete("a", "the-id").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(List({}).jobs_size(), 1);
  // After a day it may be used again.
  clock_.Advance(absl::Hours(25));
  ASSERT_TRUE(TrySubmit(NewJob("b"), nullptr, "the-id").ok());
}

TEST_F(JobsApiTest, AnIdIsForOneContentInOneNamespace) {
  v1::Job mine = NewJob("a");
  (*mine.mutable_labels())["x"] = "1";
  (*mine.mutable_labels())["y"] = "2";
  v1::Job first;
  ASSERT_TRUE(TrySubmit(mine, &first, "the-id").ok());
  // Other words for the same content are the same.
  v1::Job again;
  ASSERT_TRUE(TrySubmit(mine, &again, "the-id").ok());
  EXPECT_EQ(again.uid(), first.uid());
  v1::Job changed = mine;
  changed.mutable_spec()->set_max_replicas(3);
  const grpc::Status refused = TrySubmit(changed, nullptr, "the-id");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), ::testing::HasSubstr("another content of SubmitJob"));
  v1::Job elsewhere = mine;
  elsewhere.set_namespace_("other");
  v1::Job other;
  ASSERT_TRUE(TrySubmit(elsewhere, &other, "the-id").ok());
  EXPECT_NE(other.uid(), first.uid());
  EXPECT_EQ(other.namespace_(), "other");
}

TEST_F(JobsApiTest, WhatAnOlderVersionAnsweredIsStillKnown) {
  v1::SubmitJobResponse answer;
  answer.mutable_job()->set_namespace_("default");
  answer.mutable_job()->set_uid("of-before");
  WriteBatch batch;
  batch.put_request =
      RequestRecord{{"", "", "the-id", "SubmitJob", ""}, answer.SerializeAsString(), clock_.Now()};
  ASSERT_TRUE(memory_->Commit(batch).ok());
  v1::Job job;
  ASSERT_TRUE(TrySubmit(NewJob("a"), &job, "the-id").ok());
  EXPECT_EQ(job.uid(), "of-before");
  // It is not what somebody else has asked for.
  v1::Job elsewhere = NewJob("a");
  elsewhere.set_namespace_("other");
  ASSERT_TRUE(TrySubmit(elsewhere, &job, "the-id").ok());
  EXPECT_EQ(job.namespace_(), "other");
  EXPECT_NE(job.uid(), "of-before");
}

TEST_F(JobsApiTest, GeneratedNamesAreUnique) {
  v1::Job job = NewJob("");
  v1::Job first;
  v1::Job second;
  ASSERT_TRUE(TrySubmit(job, &first, "1", "run-").ok());
  ASSERT_TRUE(TrySubmit(job, &second, "2", "run-").ok());
  EXPECT_THAT(first.name(), StartsWith("run-"));
  EXPECT_NE(first.name(), second.name());
}

TEST_F(JobsApiTest, WrongSpecsAreRefusedAndNothingIsStored) {
  v1::Job job = NewJob("a");
  job.mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(-1);
  EXPECT_EQ(TrySubmit(job).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(TrySubmit(v1::Job()).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(List({}).jobs_size(), 0);
}

TEST_F(JobsApiTest, ListsInPagesAndByFilter) {
  for (int i = 0; i < 5; ++i) {
    v1::Job job = NewJob(absl::StrCat("job-", i));
    if (i % 2 == 0) (*job.mutable_labels())["even"] = "yes";
    Submit(job);
  }
  v1::Job other = NewJob("elsewhere");
  other.set_namespace_("other");
  Submit(other);
  EXPECT_TRUE(Cancel("job-2").ok());

  v1::ListJobsRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  int pages = 0;
  do {
    const v1::ListJobsResponse response = List(request);
    for (const v1::Job& job : response.jobs()) names.push_back(job.name());
    request.set_page_token(response.next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_THAT(names, ElementsAre("job-0", "job-1", "job-2", "job-3", "job-4"));
  EXPECT_EQ(pages, 3);

  v1::ListJobsRequest filter;
  (*filter.mutable_labels())["even"] = "yes";
  filter.add_phases(v1::JOB_PHASE_PENDING);
  EXPECT_EQ(List(filter).jobs_size(), 2);
  v1::ListJobsRequest all;
  all.set_namespace_("*");
  EXPECT_EQ(List(all).jobs_size(), 6);

  grpc::ClientContext context;
  SetDeadline(&context);
  request.set_page_token("nonsense");
  v1::ListJobsResponse response;
  EXPECT_EQ(jobs_->ListJobs(&context, request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(JobsApiTest, WatchSendsWhatIsThereThenEveryLastState) {
  Submit(NewJob("a"));
  grpc::ClientContext context;
  SetDeadline(&context);
  auto stream = jobs_->WatchJobs(&context, {});
  v1::WatchJobsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.job().name(), "a");
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.initial_list_done());
  Submit(NewJob("b"));
  do {  // The news of "a" may come once more: it is as old as the call.
    ASSERT_TRUE(stream->Read(&response));
  } while (response.job().name() != "b");
  EXPECT_TRUE(Cancel("a").ok());
  do {
    ASSERT_TRUE(stream->Read(&response));
  } while (response.job().status().phase() != v1::JOB_PHASE_CANCELLED);
  EXPECT_TRUE(Delete("a").ok());
  do {
    ASSERT_TRUE(stream->Read(&response));
  } while (!response.deleted());
  EXPECT_EQ(response.job().name(), "a");
  supervisor_->EndStreams();
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(JobsApiTest, WatchSendsManyJobsAtOnceToThoseWhoReadThem) {
  for (const char* name : {"a", "b", "c"}) Submit(NewJob(name));
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::WatchJobsRequest request;
  request.set_batch(true);
  auto stream = jobs_->WatchJobs(&context, request);
  v1::WatchJobsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  std::vector<std::string> names = {response.job().name()};
  for (const v1::Job& job : response.more()) names.push_back(job.name());
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.initial_list_done());
  // However the changes are put together, the last state of each comes.
  std::set<std::string> cancelled;
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(Cancel(name).ok());
  while (cancelled.size() < 3 && stream->Read(&response)) {
    std::vector<v1::Job> jobs(response.more().begin(), response.more().end());
    jobs.push_back(response.job());
    for (const v1::Job& job : jobs) {
      if (job.status().phase() == v1::JOB_PHASE_CANCELLED) cancelled.insert(job.name());
    }
  }
  EXPECT_EQ(cancelled.size(), 3u);
  context.TryCancel();
}

TEST_F(JobsApiTest, WatchOfAnUnknownJobIsRefused) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::WatchJobsRequest request;
  request.set_name("nobody");
  auto stream = jobs_->WatchJobs(&context, request);
  v1::WatchJobsResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(JobsApiTest, DeletedJobsGoWithTheirFilesOnEveryNode) {
  const auto here = AddWorker("here");
  auto away = std::make_unique<FakeWorker>(channel_, "away");
  ASSERT_TRUE(away->Register().ok());
  here->Heartbeat();
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"here"});
  const v1::LaunchReplica launch = here->NextLaunch();
  const grpc::Status refused = Delete("a");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), ::testing::HasSubstr("has not finished (Starting); cancel it first"));
  here->Exited(launch, 0);
  WaitForPhase("a", v1::JOB_PHASE_SUCCEEDED);
  EXPECT_TRUE(Delete("a").ok());
  v1::ConnectResponse command;
  do {
    command = here->Next();
  } while (command.command_case() != v1::ConnectResponse::kDeleteJobFiles &&
           command.command_case() != v1::ConnectResponse::COMMAND_NOT_SET);
  EXPECT_EQ(command.delete_job_files().job_uid(), job.uid());
  away->Connect();
  EXPECT_EQ(away->Next().delete_job_files().job_uid(), job.uid());
  EXPECT_EQ(Delete("a").error_code(), grpc::StatusCode::NOT_FOUND);
  // The name is free again.
  EXPECT_NE(Submit(NewJob("a")).uid(), job.uid());
}

class RetentionTest : public JobsApiTest {
 protected:
  void SetUp() override {
    options_.cluster.retention = absl::Hours(48);
    JobsApiTest::SetUp();
  }
};

TEST_F(RetentionTest, FinishedJobsAndOldEventsExpire) {
  Submit(NewJob("finished"));
  Submit(NewJob("waiting"));
  ASSERT_TRUE(Cancel("finished").ok());
  Advance(absl::Hours(47), absl::Hours(1));
  Submit(NewJob("later"));
  ASSERT_TRUE(Cancel("later").ok());
  EXPECT_EQ(Get("finished").status().phase(), v1::JOB_PHASE_CANCELLED);
  EXPECT_FALSE(Events("waiting").empty());
  Advance(absl::Hours(2), absl::Hours(1));
  v1::GetJobResponse response;
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetJobRequest request;
  request.set_name("finished");
  EXPECT_EQ(jobs_->GetJob(&context, request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(Events("waiting").empty());
  EXPECT_EQ(Get("waiting").status().phase(), v1::JOB_PHASE_PENDING) << "it has not finished";
  EXPECT_FALSE(Events("later").empty());
}

TEST_F(JobsApiTest, FinishedJobsAreForgottenAfterAMonthAndTheirFilesStay) {
  const auto worker = AddWorker("n1");
  Submit(NewJob("finished"));
  ASSERT_TRUE(Cancel("finished").ok());
  const v1::Job waiting = Submit(NewJob("waiting"));
  worker->Disconnect();
  const absl::Duration month = absl::Hours(24) * 30;
  for (absl::Duration time; time < month; time += absl::Hours(24)) {
    EXPECT_EQ(Get("finished").status().phase(), v1::JOB_PHASE_CANCELLED) << time;
    clock_.Advance(absl::Hours(24));
    ASSERT_TRUE(worker->Register().ok());  // The node does not become lost.
    supervisor_->Step();
  }
  Advance(absl::Minutes(2), absl::Minutes(2));
  v1::ListJobsRequest all;
  ASSERT_EQ(List(all).jobs_size(), 1);
  EXPECT_EQ(List(all).jobs(0).name(), "waiting");
  // The node hears of files to delete only when somebody deletes a job.
  ASSERT_TRUE(worker->Register().ok());
  worker->Connect();
  ASSERT_TRUE(Cancel("waiting").ok());
  ASSERT_TRUE(Delete("waiting").ok());
  v1::ConnectResponse command;
  do {
    command = worker->Next();
  } while (!command.has_delete_job_files() && command.command_case() != v1::ConnectResponse::COMMAND_NOT_SET);
  EXPECT_EQ(command.delete_job_files().job_uid(), waiting.uid());
}

class ExpireFilesTest : public RetentionTest {
 protected:
  void SetUp() override {
    options_.cluster.expire_files = true;
    RetentionTest::SetUp();
  }
};

TEST_F(ExpireFilesTest, FilesGoWithTheJob) {
  const v1::Job job = Submit(NewJob("finished"));
  ASSERT_TRUE(Cancel("finished").ok());
  const auto away = AddWorker("n1");
  away->Disconnect();
  Advance(absl::Hours(49), absl::Hours(1));
  ASSERT_TRUE(away->Register().ok());
  away->Connect();
  v1::ConnectResponse command;
  do {
    command = away->Next();
  } while (!command.has_delete_job_files() && command.command_case() != v1::ConnectResponse::COMMAND_NOT_SET);
  EXPECT_EQ(command.delete_job_files().job_uid(), job.uid());
}

TEST_F(JobsApiTest, EventsComeInPages) {
  Submit(NewJob("a"));
  EXPECT_TRUE(Cancel("a").ok());
  v1::ListEventsRequest request;
  request.set_name("a");
  request.set_page_size(1);
  std::vector<std::string> reasons;
  do {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListEventsResponse response;
    ASSERT_TRUE(jobs_->ListEvents(&context, request, &response).ok());
    for (const v1::Event& event : response.events()) reasons.push_back(event.reason());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(reasons, ElementsAre("Submitted", "CancelRequested", "Cancelled"));
}

// Memory never runs ahead of the disk.
TEST_F(JobsApiTest, WhatCannotBeStoredHasNotHappened) {
  const auto n1 = AddWorker("n1");
  const v1::Job first = Submit(NewJob("first"));
  Allocate(first, {"n1"});
  n1->NextLaunch();  // Its stream is up.
  const v1::Job job = Submit(NewJob("a"));
  memory_->FailCommits(absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(TrySubmit(NewJob("b")).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Apply({AllocationOf(job, {"n1"})}).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Cancel("a").error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  Advance(absl::Seconds(2));
  EXPECT_EQ(List({}).jobs_size(), 2);
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_PENDING);
  EXPECT_FALSE(Get("a").status().cancel_requested());
  memory_->FailCommits(absl::OkStatus());
  EXPECT_TRUE(TrySubmit(NewJob("b")).ok());
  Allocate(job, {"n1"});
  EXPECT_EQ(n1->NextLaunch().group(), 1);
}

// Defect 27: one bad request or one bad job took the whole controller down.
TEST_F(JobsApiTest, Defect27BadInputHurtsNobodyElse) {
  const auto n1 = AddWorker("n1");
  FakeWorker liar(channel_, "n2");
  ASSERT_TRUE(liar.Register().ok());
  const v1::Job job = Submit(NewJob("good"));
  // A stream without a hello, reports of things that never were, and allocations of nonsense.
  liar.Connect();
  v1::ReplicaReport report;
  report.set_job_uid("nobody");
  report.mutable_replica()->set_replica_id("ghost");
  report.mutable_replica()->set_rank(-5);
  report.mutable_replica()->set_state(v1::REPLICA_STATE_RUNNING);
  liar.Report(report);
  EXPECT_EQ(liar.NextStop().replica_id(), "ghost");
  report.set_job_uid(job.uid());
  report.mutable_replica()->set_state(v1::REPLICA_STATE_EXITED);
  liar.Report(report);
  EXPECT_EQ(liar.Next().acknowledge().replica_id(), "ghost");
  EXPECT_EQ(Apply({v1::JobAllocation()}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Apply({AllocationOf(job, {""})}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Apply({AllocationOf(job, {"n1"}), AllocationOf(job, {"n2"})}).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  grpc::ClientContext context;
  SetDeadline(&context);
  auto stream = nodes_->Connect(&context);
  v1::ConnectRequest heartbeat;
  heartbeat.mutable_heartbeat();
  stream->Write(heartbeat);
  v1::ConnectResponse ignored;
  EXPECT_FALSE(stream->Read(&ignored));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  // The good job goes its way.
  Allocate(job, {"n1"});
  const v1::LaunchReplica launch = n1->NextLaunch();
  n1->Exited(launch, 0);
  WaitForPhase("good", v1::JOB_PHASE_SUCCEEDED);
}

}  // namespace
}  // namespace adaptdl::supervisor
