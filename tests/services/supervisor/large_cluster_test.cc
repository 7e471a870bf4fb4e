// A cluster of which one list is larger than a message: everything comes in pages, and nothing is lost
// between them.

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/allocator/cluster_mirror.h"
#include "services/allocator/decision_pages.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

constexpr size_t kLargestMessage = 4 << 20;

class LargeClusterTest : public ClusterTest {
 protected:
  LargeClusterTest() { options_.cluster.max_jobs_per_namespace = 0; }

  // Not over the network: it is quicker.
  v1::Job SubmitDirectly(const v1::Job& job) {
    v1::SubmitJobRequest request;
    request.set_request_id(RandomHex(8));
    *request.mutable_job() = job;
    absl::StatusOr<v1::SubmitJobResponse> response =
        supervisor_->cluster()->jobs()->SubmitJob(std::move(request), "");
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->job() : v1::Job();
  }

  // A decision that keeps all jobs waiting and has much to say about each.
  v1::ApplyAllocationsRequest Explain(const std::vector<v1::Job>& jobs, int64_t version) {
    v1::ApplyAllocationsRequest request;
    request.set_request_id(RandomHex(8));
    request.set_snapshot_version(version);
    for (const v1::Job& job : jobs) {
      v1::JobAllocation* allocation = request.add_allocations();
      *allocation = AllocationOf(job, {});
      allocation->set_reason(std::string(900, 'r'));
      for (int i = 0; i < 8; ++i) allocation->add_explanation(std::string(290, 'e'));
    }
    return request;
  }

  grpc::Status ApplyPage(const v1::ApplyAllocationsRequest& page, v1::ApplyAllocationsResponse* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return scheduling_->ApplyAllocations(&context, page, response);
  }

  // The next message of the stream, or what belongs to it; takes it. How many pages it had.
  int Read(grpc::ClientReader<v1::WatchClusterResponse>* stream, allocator::ClusterMirror* mirror) {
    for (int pages = 1;; ++pages) {
      v1::WatchClusterResponse message;
      if (!stream->Read(&message)) {
        const grpc::Status status = stream->Finish();
        ADD_FAILURE() << status.error_message();
        return 0;
      }
      EXPECT_LT(message.ByteSizeLong(), kLargestMessage / 2);
      const bool more = message.more();
      mirror->Take(std::move(message), clock_.Now());
      if (!more) return pages;
    }
  }
};

TEST_F(LargeClusterTest, LabelsAndCommandsAreNotForTheAllocator) {
  v1::Job job = NewJob("");
  for (int i = 0; i < 64; ++i) {
    (*job.mutable_labels())[absl::StrCat(std::string(60, 'k'), i)] = std::string(63, 'v');
  }
  for (int i = 0; i < 560; ++i) {
    job.set_name(absl::StrCat("job-", i));
    SubmitDirectly(job);
  }
  // In one message, as allocators of older versions take it.
  const v1::ClusterSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.jobs_size(), 560);
  EXPECT_LT(snapshot.ByteSizeLong(), 560u * 300);
}

TEST_F(LargeClusterTest, SnapshotChangesAndDecisionsComeInPages) {
  constexpr int kJobs = 2000;
  std::vector<v1::Job> jobs;
  for (int i = 0; i < kJobs; ++i) jobs.push_back(SubmitDirectly(NewJob(absl::StrCat("job-", i))));
  const auto watch = [&](grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    v1::WatchClusterRequest request;
    request.set_changes(true);
    request.set_pages(true);
    return scheduling_->WatchCluster(context, request);
  };
  grpc::ClientContext early_context;
  const auto early_stream = watch(&early_context);
  allocator::ClusterMirror early;
  Read(early_stream.get(), &early);
  ASSERT_EQ(early.Snapshot(clock_.Now()).jobs_size(), kJobs);

  const v1::ApplyAllocationsRequest decision = Explain(jobs, early.version());
  ASSERT_GT(decision.ByteSizeLong(), kLargestMessage);
  const std::vector<v1::ApplyAllocationsRequest> pages = allocator::SplitDecision(decision, 1 << 20);
  for (const v1::ApplyAllocationsRequest& page : pages) {
    EXPECT_EQ(Get("job-0").status().allocation_reason(), "") << "part of a decision was stored";
    v1::ApplyAllocationsResponse response;
    const grpc::Status status = ApplyPage(page, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.kept(), page.more());
  }
  EXPECT_EQ(Get("job-0").status().allocation_reason().size(), 900u);
  EXPECT_EQ(Get(absl::StrCat("job-", kJobs - 1)).status().allocation_reason().size(), 900u);

  // Who has watched all the time hears what differs, in pages; who comes now all of it, likewise.
  const auto told = [&](const allocator::ClusterMirror& mirror) {
    int count = 0;
    const v1::ClusterSnapshot seen = mirror.Snapshot(clock_.Now());
    for (const v1::Job& job : seen.jobs()) count += job.status().allocation_explanation_size() == 8;
    return count;
  };
  int most_pages = 0;
  while (told(early) < kJobs && !HasFailure())
    most_pages = std::max(most_pages, Read(early_stream.get(), &early));
  EXPECT_GT(most_pages, 1);
  grpc::ClientContext late_context;
  const auto late_stream = watch(&late_context);
  allocator::ClusterMirror late;
  EXPECT_GT(Read(late_stream.get(), &late), 1);
  EXPECT_EQ(told(late), kJobs);
  EXPECT_EQ(late.Snapshot(clock_.Now()).jobs(kJobs - 1).name(), absl::StrCat("job-", kJobs - 1));
  for (grpc::ClientContext* context : {&early_context, &late_context}) context->TryCancel();
}

TEST_F(LargeClusterTest, PagesWithoutALeaseOrInDisorderAreRefused) {
  const v1::Job job = SubmitDirectly(NewJob("a"));
  v1::ApplyAllocationsRequest page = Explain({job}, Snapshot().version());
  page.set_more(true);
  page.set_lease_term(77);
  v1::ApplyAllocationsResponse response;
  EXPECT_EQ(ApplyPage(page, &response).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  page.set_lease_term(0);
  page.set_page(1);
  EXPECT_EQ(ApplyPage(page, &response).error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(LargeClusterTest, EventsComeInPagesOfBoundedSize) {
  const v1::Job job = SubmitDirectly(NewJob("a"));
  WriteBatch batch;
  for (int i = 0; i < 100; ++i) {
    v1::Event& event = batch.add_events.emplace_back();
    event.set_id(1000 + i);
    event.set_namespace_("default");
    event.set_job("a");
    event.set_job_uid(job.uid());
    event.set_message(std::string(100'000, 'm'));
  }
  ASSERT_TRUE(memory_->Commit(batch).ok());
  v1::ListEventsRequest request;
  request.set_name("a");
  request.set_page_size(1000);
  std::set<int64_t> seen;
  do {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListEventsResponse page;
    const grpc::Status status = jobs_->ListEvents(&context, request, &page);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const v1::Event& event : page.events()) EXPECT_TRUE(seen.insert(event.id()).second);
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(seen.count(1000), 1u);
  EXPECT_EQ(seen.count(1099), 1u);
  EXPECT_GE(seen.size(), 100u);
}

TEST_F(LargeClusterTest, NodesComeInPagesOfBoundedSize) {
  v1::RegisterNodeRequest registration;
  v1::Node* node = registration.mutable_node();
  node->set_worker_address("127.0.0.1:1");
  node->set_replica_host("127.0.0.1");
  node->mutable_capacity()->set_cpu_millis(1000);
  for (int i = 0; i < 64; ++i) {
    (*node->mutable_labels())[absl::StrCat(std::string(60, 'k'), i)] = std::string(63, 'v');
  }
  constexpr int kNodes = 700;
  for (int i = 0; i < kNodes; ++i) {
    node->set_node_id(absl::StrCat("n", i));
    registration.set_request_id(RandomHex(8));
    const auto response = supervisor_->cluster()->nodes()->RegisterNode(registration, "");
    ASSERT_TRUE(response.ok()) << response.status();
  }
  v1::ListNodesRequest request;
  request.set_page_size(1000);
  std::set<std::string> seen;
  do {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListNodesResponse page;
    const grpc::Status status = nodes_->ListNodes(&context, request, &page);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const v1::Node& one : page.nodes()) EXPECT_TRUE(seen.insert(one.node_id()).second);
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(static_cast<int>(seen.size()), kNodes);
  EXPECT_EQ(Snapshot().nodes_size(), kNodes);
}

TEST_F(LargeClusterTest, QuotasComeInPagesToThoseWhoAskForThem) {
  for (int i = 0; i < 25; ++i) {
    v1::SetQuotaRequest request;
    request.set_request_id(RandomHex(8));
    request.set_namespace_(absl::StrCat("team-", i));
    request.set_gpus(i);
    ASSERT_TRUE(supervisor_->cluster()->quotas()->SetQuota(request, "").ok());
  }
  v1::ListQuotasRequest request;
  EXPECT_EQ(supervisor_->cluster()->quotas()->ListQuotas(request)->quotas_size(), 25);
  request.set_page_size(10);
  std::set<std::string> seen;
  int pages = 0;
  do {
    const auto page = supervisor_->cluster()->quotas()->ListQuotas(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->quotas_size(), 10);
    for (const v1::NamespaceQuota& quota : page->quotas())
      EXPECT_TRUE(seen.insert(quota.namespace_()).second);
    request.set_page_token(page->next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(seen.size(), 25u);
  EXPECT_EQ(pages, 3);
}

}  // namespace
}  // namespace adaptdl::supervisor
