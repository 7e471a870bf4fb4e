#include <cmath>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "libs/rpc/retry_info.h"
#include "libs/rpc/status.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

v1::SetQuotaRequest NewQuota(const std::string& name_space) {
  v1::SetQuotaRequest request;
  request.set_request_id(RandomHex(8));
  request.set_namespace_(name_space);
  return request;
}

class QuotasTest : public ClusterTest {
 protected:
  std::unique_ptr<JobStore> MakeStore() override {
    SqliteJobStoreOptions options;
    options.folder = folder_.path();
    auto store = SqliteJobStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  grpc::Status Set(const v1::SetQuotaRequest& request, v1::NamespaceQuota* quota = nullptr) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::SetQuotaResponse response;
    const grpc::Status status = quotas_->SetQuota(&context, request, &response);
    if (quota != nullptr) *quota = response.quota();
    return status;
  }
  grpc::Status Remove(const std::string& name_space) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::RemoveQuotaRequest request;
    request.set_request_id(RandomHex(8));
    request.set_namespace_(name_space);
    v1::RemoveQuotaResponse response;
    return quotas_->RemoveQuota(&context, request, &response);
  }
  v1::ListQuotasResponse List() {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListQuotasResponse response;
    EXPECT_TRUE(quotas_->ListQuotas(&context, {}, &response).ok());
    return response;
  }

 private:
  const TemporaryFolder folder_;
};

TEST_F(QuotasTest, WhatIsNotGivenStays) {
  v1::SetQuotaRequest request = NewQuota("team-a");
  request.set_gpus(4);
  v1::NamespaceQuota quota;
  ASSERT_TRUE(Set(request, &quota).ok());
  EXPECT_EQ(quota.gpus(), 4);
  EXPECT_EQ(quota.weight(), 1);
  request = NewQuota("team-a");
  request.set_weight(2.5);
  ASSERT_TRUE(Set(request, &quota).ok());
  EXPECT_EQ(quota.gpus(), 4);
  EXPECT_EQ(quota.weight(), 2.5);
  request = NewQuota("team-a");
  request.set_gpus(0);
  ASSERT_TRUE(Set(request, &quota).ok());
  EXPECT_EQ(quota.gpus(), 0);
  EXPECT_EQ(quota.weight(), 2.5);
}

TEST_F(QuotasTest, TheAllocatorSeesThemAsANewVersion) {
  const int64_t before = Snapshot().version();
  v1::SetQuotaRequest request = NewQuota("team-b");
  request.set_gpus(2);
  ASSERT_TRUE(Set(request).ok());
  ASSERT_TRUE(Set(NewQuota("team-a")).ok());
  v1::ClusterSnapshot snapshot = Snapshot();
  EXPECT_GT(snapshot.version(), before);
  ASSERT_EQ(snapshot.quotas_size(), 2);
  EXPECT_EQ(snapshot.quotas(0).namespace_(), "team-a");
  EXPECT_EQ(snapshot.quotas(1).gpus(), 2);
  const int64_t with = snapshot.version();
  ASSERT_TRUE(Remove("team-b").ok());
  snapshot = Snapshot();
  EXPECT_GT(snapshot.version(), with);
  EXPECT_EQ(snapshot.quotas_size(), 1);
}

TEST_F(QuotasTest, SurviveARestart) {
  v1::SetQuotaRequest request = NewQuota("team-a");
  request.set_gpus(4);
  request.set_weight(3);
  request.set_jobs(50);
  request.set_submissions_per_minute(6);
  ASSERT_TRUE(Set(request).ok());
  ASSERT_TRUE(Set(NewQuota("team-b")).ok());
  ASSERT_TRUE(Remove("team-b").ok());
  Stop();
  Start();
  const v1::ListQuotasResponse quotas = List();
  ASSERT_EQ(quotas.quotas_size(), 1);
  EXPECT_EQ(quotas.quotas(0).namespace_(), "team-a");
  EXPECT_EQ(quotas.quotas(0).gpus(), 4);
  EXPECT_EQ(quotas.quotas(0).weight(), 3);
  EXPECT_EQ(quotas.quotas(0).jobs(), 50);
  EXPECT_EQ(quotas.quotas(0).submissions_per_minute(), 6);
}

TEST_F(QuotasTest, ImplausibleOnesAreRefusedByName) {
  const auto refused = [this](const v1::SetQuotaRequest& request, const std::string& field) {
    const grpc::Status status = Set(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_NE(status.error_message().find(field), std::string::npos) << status.error_message();
  };
  refused(NewQuota(""), "namespace");
  refused(NewQuota("No Label"), "namespace");
  v1::SetQuotaRequest request = NewQuota("a");
  request.set_gpus(-1);
  refused(request, "gpus");
  for (const double weight : {0.0, -1.0, 1e9, std::nan("")}) {
    request = NewQuota("a");
    request.set_weight(weight);
    refused(request, "weight");
  }
  request = NewQuota("a");
  request.set_jobs(-1);
  refused(request, "jobs");
  request = NewQuota("a");
  request.set_submissions_per_minute(1 << 21);
  refused(request, "submissions_per_minute");
  request = NewQuota("a");
  request.clear_request_id();
  refused(request, "request_id");
  EXPECT_EQ(Remove("a").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(List().quotas_size(), 0);
}

TEST_F(QuotasTest, UnfinishedJobsAreBounded) {
  v1::SetQuotaRequest request = NewQuota("default");
  request.set_jobs(2);
  ASSERT_TRUE(Set(request).ok());
  Submit(NewJob("a"));
  Submit(NewJob("b"));
  const grpc::Status full = TrySubmit(NewJob("c"));
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(full.error_message().find("\"default\" has 2 unfinished jobs, and may have 2"), std::string::npos)
      << full.error_message();
  EXPECT_FALSE(rpc::RetryDelayOf(rpc::FromGrpcStatus(full)).has_value()) << "nobody knows when one ends";
  v1::Job other = NewJob("c");
  other.set_namespace_("other");
  Submit(other);
  ASSERT_TRUE(Cancel("a").ok());
  Submit(NewJob("c"));
  Stop();
  Start();
  EXPECT_EQ(TrySubmit(NewJob("d")).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  request = NewQuota("default");
  request.set_jobs(0);  // the supervisor's own bound counts again
  ASSERT_TRUE(Set(request).ok());
  Submit(NewJob("d"));
}

TEST_F(QuotasTest, SubmissionsPerMinuteAreBounded) {
  v1::SetQuotaRequest request = NewQuota("default");
  request.set_submissions_per_minute(2);
  ASSERT_TRUE(Set(request).ok());
  v1::Job a;
  ASSERT_TRUE(TrySubmit(NewJob("a"), &a, "submit-a").ok());
  clock_.Advance(absl::Seconds(20));
  Submit(NewJob("b"));
  grpc::Status full = TrySubmit(NewJob("c"));
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(rpc::RetryDelayOf(rpc::FromGrpcStatus(full)), absl::Seconds(40));
  EXPECT_NE(full.error_message().find("try again in 40s"), std::string::npos) << full.error_message();
  // The repetition of a call that succeeded is no submission; nor does a restart or a deletion make room.
  v1::Job again;
  ASSERT_TRUE(TrySubmit(NewJob("a"), &again, "submit-a").ok());
  EXPECT_EQ(again.uid(), a.uid());
  Stop();
  Start();
  EXPECT_FALSE(TrySubmit(NewJob("c")).ok());
  clock_.Advance(absl::Seconds(40));
  Submit(NewJob("c"));
  full = TrySubmit(NewJob("d"));
  EXPECT_EQ(rpc::RetryDelayOf(rpc::FromGrpcStatus(full)), absl::Seconds(20));
}

TEST_F(QuotasTest, NamespacesWithoutQuotasHaveTheSupervisorsBounds) {
  Stop();
  options_.cluster.max_jobs_per_namespace = 1;
  Start();
  Submit(NewJob("a"));
  const grpc::Status full = TrySubmit(NewJob("b"));
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(full.error_message().find("--max-jobs-per-namespace"), std::string::npos);
}

TEST_F(QuotasTest, ARepeatedCallIsDoneOnce) {
  v1::SetQuotaRequest request = NewQuota("a");
  request.set_gpus(1);
  ASSERT_TRUE(Set(request).ok());
  ASSERT_TRUE(Remove("a").ok());
  ASSERT_TRUE(Set(request).ok());
  EXPECT_EQ(List().quotas_size(), 0);
}

class BoundedCallsTest : public ClusterTest {
 protected:
  BoundedCallsTest() { options_.admission = {.calls_per_second = 0.001, .burst = 1}; }
};

TEST_F(BoundedCallsTest, HoldsForAllThatPeopleAsk) {
  const auto call = [this](auto& stub, auto method) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return method(*stub, &context).error_code();
  };
  const auto list_jobs = [](auto& stub, grpc::ClientContext* context) {
    v1::ListJobsResponse response;
    return stub.ListJobs(context, {}, &response);
  };
  const auto list_nodes = [](auto& stub, grpc::ClientContext* context) {
    v1::ListNodesResponse response;
    return stub.ListNodes(context, {}, &response);
  };
  const auto list_quotas = [](auto& stub, grpc::ClientContext* context) {
    v1::ListQuotasResponse response;
    return stub.ListQuotas(context, {}, &response);
  };
  const auto set_quota = [](auto& stub, grpc::ClientContext* context) {
    v1::SetQuotaResponse response;
    return stub.SetQuota(context, NewQuota("team"), &response);
  };
  EXPECT_EQ(call(jobs_, list_jobs), grpc::StatusCode::OK);
  EXPECT_EQ(call(jobs_, list_jobs), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(call(nodes_, list_nodes), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(call(quotas_, list_quotas), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(call(quotas_, set_quota), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace adaptdl::supervisor
