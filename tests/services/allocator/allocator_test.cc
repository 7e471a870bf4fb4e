#include "services/allocator/allocator.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/base/manual_clock.h"
#include "libs/rpc/channel.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "prometheus/registry.h"
#include "services/allocator/capacity_service.h"
#include "services/allocator/decision_pages.h"
#include "tests/services/allocator/fake_supervisor.h"
#include "tests/services/allocator/snapshots.h"
#include "tests/services/allocator/steady_policy.h"

namespace adaptdl::allocator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AllocatorTest : public ::testing::Test {
 protected:
  AllocatorTest() : supervisors_({supervisor_.address()}, rpc::Plaintext()), metrics_(&registry_) {
    supervisor_.Edit([](v1::ClusterSnapshot* cluster) {
      *cluster->add_nodes() = MakeNode("n0");
      *cluster->add_nodes() = MakeNode("n1");
    });
  }

  std::unique_ptr<Allocator> Make(const Clock* clock) { return Make(clock, &policy_); }
  std::unique_ptr<Allocator> Make(const Clock* clock, const scheduling::AllocationPolicy* policy) {
    AllocatorOptions options;
    options.debounce = absl::ZeroDuration();
    options.interval = absl::Hours(1);
    options.first_pause = absl::Milliseconds(5);
    options.longest_pause = absl::Milliseconds(50);
    return std::make_unique<Allocator>(
        options, Allocator::Parts{policy, &supervisors_, clock, &capacity_, &demands_, &metrics_});
  }

  void Submit(const v1::Job& job) {
    supervisor_.Edit([&](v1::ClusterSnapshot* cluster) { *cluster->add_jobs() = job; });
  }
  void Finish(int index) {
    supervisor_.Edit(
        [&](v1::ClusterSnapshot* cluster) { cluster->mutable_jobs()->DeleteSubrange(index, 1); });
  }
  void ReportHints(int index, const v1::Hints& hints) {
    supervisor_.Edit(
        [&](v1::ClusterSnapshot* cluster) {
          *cluster->mutable_jobs(index)->mutable_status()->mutable_hints() = hints;
        },
        /*grow=*/false);
  }
  // Whether the first jobs come to have so many replicas.
  bool Reaches(const std::vector<int>& replicas) {
    return supervisor_.WaitUntil([&](const v1::ClusterSnapshot& cluster) {
      for (size_t i = 0; i < replicas.size(); ++i) {
        if (cluster.jobs(static_cast<int>(i)).status().desired_allocation_size() != replicas[i]) return false;
      }
      return true;
    });
  }

  RealClock real_clock_;
  ManualClock manual_clock_;
  FakeSupervisor supervisor_;
  rpc::Endpoints supervisors_;
  scheduling::GoodputPolicy policy_{{}};
  prometheus::Registry registry_;
  CapacityBoard capacity_;
  DemandBoard demands_;
  Metrics metrics_;
};

TEST_F(AllocatorTest, TellsTheWholeStory) {
  const auto allocator = Make(&real_clock_);
  allocator->Start();
  Submit(MakeJob("a"));
  ASSERT_TRUE(Reaches({1}));
  ReportHints(0, MakeHints(1));
  ASSERT_TRUE(Reaches({2}));
  Submit(MakeJob("b"));
  ASSERT_TRUE(Reaches({1, 1}));
  EXPECT_THAT(NodesOf(supervisor_.cluster().jobs(0)), ElementsAre("n0"));
  EXPECT_THAT(NodesOf(supervisor_.cluster().jobs(1)), ElementsAre("n1"));
  Finish(1);
  ASSERT_TRUE(Reaches({2}));
  EXPECT_THAT(NodesOf(supervisor_.cluster().jobs(0)), ElementsAre("n0", "n1"));
  allocator->Stop();
  const auto capacity = capacity_.Get();
  ASSERT_TRUE(capacity.ok());
  EXPECT_EQ(capacity->current_nodes(), 2);
}

TEST_F(AllocatorTest, OutlivesASupervisorThatRestarts) {
  const auto allocator = Make(&real_clock_);
  allocator->Start();
  Submit(MakeJob("a"));
  ASSERT_TRUE(Reaches({1}));
  supervisor_.Close();
  supervisor_.Reopen();
  Submit(MakeJob("b"));
  EXPECT_TRUE(Reaches({1, 1}));
}

TEST_F(AllocatorTest, StandsByWhileAnotherOneDecides) {
  supervisor_.LeaseTo("another", 5);
  const auto allocator = Make(&real_clock_);
  allocator->Start();
  Submit(MakeJob("a"));
  while (!absl::StrContains(capacity_.Get().status().message(), "another decides")) {
  }
  EXPECT_EQ(supervisor_.applies(), 0);
  supervisor_.LeaseTo("", 6);
  ASSERT_TRUE(Reaches({1}));
  // And again, until it has heard of it.
  supervisor_.LeaseTo("another", 7);
  while (!absl::StrContains(capacity_.Get().status().message(), "another decides")) {
  }
  supervisor_.LeaseTo("", 8);
  Submit(MakeJob("b"));
  EXPECT_TRUE(Reaches({1, 1}));
}

TEST_F(AllocatorTest, GoesOnToTheSupervisorThatAnswers) {
  FakeSupervisor standby;
  standby.Close();
  rpc::Endpoints several({standby.address(), supervisor_.address()}, rpc::Plaintext());
  AllocatorOptions options;
  options.first_pause = absl::Milliseconds(5);
  Allocator allocator(options, {&policy_, &several, &real_clock_, &capacity_, &demands_, &metrics_});
  supervisor_.LeaseTo("", 5);
  allocator.Start();
  Submit(MakeJob("a"));
  EXPECT_TRUE(Reaches({1}));
}

TEST_F(AllocatorTest, DecidesAgainAfterAConflict) {
  supervisor_.ConflictNext(3);
  const auto allocator = Make(&real_clock_);
  allocator->Start();
  Submit(MakeJob("a"));
  EXPECT_TRUE(Reaches({1}));
  EXPECT_EQ(supervisor_.conflicts_seen(), 3);
}

TEST_F(AllocatorTest, GarbageInASnapshotStopsNobody) {
  const auto allocator = Make(&real_clock_);
  allocator->Start();
  v1::Job garbage = MakeJob("garbage");
  v1::Hints hints = MakeHints(4);
  hints.mutable_perf_params()->set_alpha_c(std::numeric_limits<double>::quiet_NaN());
  hints.set_init_batch_size(-1);
  *garbage.mutable_status()->mutable_hints() = hints;
  Submit(garbage);
  v1::Job worse;
  Submit(worse);
  Submit(MakeJob("a"));
  EXPECT_TRUE(supervisor_.WaitUntil([](const v1::ClusterSnapshot& cluster) {
    return cluster.jobs_size() == 3 && cluster.jobs(2).status().desired_allocation_size() == 1;
  }));
}

TEST_F(AllocatorTest, StopEndsWhileTheSupervisorIsAway) {
  supervisor_.Close();
  const auto allocator = Make(&real_clock_);
  allocator->Start();
  allocator->Stop();
  EXPECT_EQ(capacity_.Get().status().code(), absl::StatusCode::kUnavailable);
}

// --- step by step, without threads

TEST_F(AllocatorTest, ARefusedAllocationDoesNotHoldUpTheOthers) {
  Submit(MakeJob("bad"));
  Submit(MakeJob("good"));
  supervisor_.Refuse("uid-bad");
  const auto allocator = Make(&manual_clock_);
  allocator->TakeForTest(Whole(supervisor_.cluster()));
  EXPECT_EQ(allocator->RunRoundForTest(), RoundOutcome::kApplied);
  EXPECT_THAT(NodesOf(supervisor_.cluster().jobs(0)), IsEmpty());
  EXPECT_THAT(NodesOf(supervisor_.cluster().jobs(1)), ElementsAre("n1"));
}

TEST_F(AllocatorTest, ARoundOnAnOldSnapshotChangesNothing) {
  Submit(MakeJob("a"));
  const v1::ClusterSnapshot old = supervisor_.cluster();
  Submit(MakeJob("b"));
  const auto allocator = Make(&manual_clock_);
  EXPECT_EQ(allocator->RunRoundForTest(), RoundOutcome::kNoSnapshot);
  allocator->TakeForTest(Whole(old));
  EXPECT_EQ(allocator->RunRoundForTest(), RoundOutcome::kConflict);
  EXPECT_TRUE(allocator->RoundIsDueForTest());
  allocator->TakeForTest(Whole(supervisor_.cluster()));
  EXPECT_EQ(allocator->RunRoundForTest(), RoundOutcome::kApplied);
  EXPECT_FALSE(allocator->RoundIsDueForTest());
}

TEST_F(AllocatorTest, OnlyNewsThatMatterCallForARound) {
  Submit(MakeJob("a"));
  const SteadyPolicy policy;
  const auto allocator = Make(&manual_clock_, &policy);
  v1::ClusterSnapshot cluster = supervisor_.cluster();
  allocator->TakeForTest(Whole(cluster));
  EXPECT_TRUE(allocator->RoundIsDueForTest());
  allocator->RunRoundForTest();
  cluster = supervisor_.cluster();
  allocator->TakeForTest(Whole(cluster));
  EXPECT_EQ(allocator->RunRoundForTest(), RoundOutcome::kUnchanged);
  // Progress does not; first hints do; the same size measured again does not.
  cluster.mutable_jobs(0)->mutable_status()->mutable_progress()->set_optimizer_steps(5);
  allocator->TakeForTest(Whole(cluster));
  EXPECT_FALSE(allocator->RoundIsDueForTest());
  *cluster.mutable_jobs(0)->mutable_status()->mutable_hints() = MakeHints(1);
  allocator->TakeForTest(Whole(cluster));
  EXPECT_TRUE(allocator->RoundIsDueForTest());
  allocator->RunRoundForTest();
  cluster.mutable_jobs(0)->mutable_status()->mutable_hints()->mutable_perf_params()->set_alpha_c(0.002);
  allocator->TakeForTest(Whole(cluster));
  EXPECT_FALSE(allocator->RoundIsDueForTest());
}

TEST_F(AllocatorTest, AFailedRoundIsTriedAgain) {
  Submit(MakeJob("a"));
  const auto allocator = Make(&manual_clock_);
  allocator->TakeForTest(Whole(supervisor_.cluster()));
  supervisor_.Close();
  EXPECT_EQ(allocator->RunRoundForTest(), RoundOutcome::kFailed);
  EXPECT_TRUE(allocator->RoundIsDueForTest());
}

// The supervisor that is played here is of an older version, and takes each page for a decision.
TEST_F(AllocatorTest, LargeDecisionsReachASupervisorThatKnowsNoPages) {
  for (const char* name : {"a", "b", "c"}) {
    v1::Job job = MakeJob(name);
    job.mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(500);
    Submit(job);
  }
  AllocatorOptions options;
  options.page_bytes = 1;
  Allocator allocator(options, {&policy_, &supervisors_, &manual_clock_, &capacity_, &demands_, &metrics_});
  allocator.TakeForTest(Whole(supervisor_.cluster()));
  EXPECT_EQ(allocator.RunRoundForTest(), RoundOutcome::kApplied);
  EXPECT_EQ(supervisor_.applies(), 3);
  const v1::ClusterSnapshot cluster = supervisor_.cluster();
  for (const v1::Job& job : cluster.jobs()) EXPECT_EQ(NodesOf(job).size(), 1u);
}

TEST(SplitDecisionTest, PagesHoldAllOnceAndInOrder) {
  v1::ApplyAllocationsRequest decision;
  decision.set_request_id("id");
  decision.set_snapshot_version(5);
  decision.set_lease_term(7);
  EXPECT_EQ(SplitDecision(decision, 100).size(), 1u);
  for (int i = 0; i < 10; ++i)
    decision.add_allocations()->set_reason(std::string(40, static_cast<char>('a' + i)));
  const std::vector<v1::ApplyAllocationsRequest> pages = SplitDecision(decision, 100);
  ASSERT_EQ(pages.size(), 4u);
  std::string order;
  for (size_t i = 0; i < pages.size(); ++i) {
    EXPECT_EQ(pages[i].page(), static_cast<int>(i));
    EXPECT_EQ(pages[i].more(), i + 1 < pages.size());
    EXPECT_EQ(pages[i].request_id(), "id");
    EXPECT_EQ(pages[i].snapshot_version(), 5);
    EXPECT_EQ(pages[i].lease_term(), 7);
    for (const v1::JobAllocation& allocation : pages[i].allocations())
      order += allocation.reason().substr(0, 1);
  }
  EXPECT_EQ(order, "abcdefghij");
  EXPECT_EQ(SplitDecision(decision, 10'000).size(), 1u);
}

TEST_F(AllocatorTest, DesiredCapacityComesInPages) {
  v1::GetDesiredCapacityResponse decision;
  decision.set_desired_nodes(50);
  for (int i = 0; i < 50; ++i) {
    decision.add_idle_node_ids(absl::StrCat("node-", i));
    decision.add_points()->set_nodes(i + 1);
  }
  capacity_.Set(decision);
  v1::GetDesiredCapacityResponse all;
  std::string token;
  int pages = 0;
  do {
    absl::StatusOr<v1::GetDesiredCapacityResponse> page = capacity_.GetPage(token, 60);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->ByteSizeLong(), 200u);
    token = std::exchange(*page->mutable_next_page_token(), "");
    all.MergeFrom(*page);
    ++pages;
  } while (!token.empty());
  EXPECT_GT(pages, 5);
  EXPECT_EQ(all.SerializeAsString(), decision.SerializeAsString());
  token = capacity_.GetPage("", 60)->next_page_token();
  capacity_.Set(decision);
  EXPECT_EQ(capacity_.GetPage(token, 60).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(capacity_.GetPage("nonsense", 60).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AllocatorTest, ServesTheDesiredCapacity) {
  CapacityService service(&capacity_, &demands_);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  const auto client =
      v1::CapacityService::NewStub(rpc::CreateChannel(absl::StrCat("127.0.0.1:", port), rpc::Plaintext()));
  const auto ask = [&](v1::GetDesiredCapacityResponse* response) {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, absl::Seconds(10));
    return client->GetDesiredCapacity(&context, {}, response);
  };
  v1::GetDesiredCapacityResponse response;
  EXPECT_EQ(ask(&response).error_code(), grpc::StatusCode::UNAVAILABLE);

  Submit(MakeJob("a"));
  const auto allocator = Make(&manual_clock_);
  allocator->TakeForTest(Whole(supervisor_.cluster()));
  allocator->RunRoundForTest();
  ASSERT_TRUE(ask(&response).ok());
  EXPECT_EQ(response.desired_nodes(), 1);
  EXPECT_EQ(response.current_nodes(), 2);
  EXPECT_THAT(response.idle_node_ids(), ElementsAre("n1"));
  EXPECT_THAT(response.reason(), HasSubstr("1 idle"));
  EXPECT_EQ(response.decision_time().seconds(), absl::ToUnixSeconds(manual_clock_.Now()));
  EXPECT_EQ(response.start_nodes(), 1);
  ASSERT_EQ(response.points_size(), 2);
  EXPECT_EQ(response.points(0).nodes(), 1);
  EXPECT_GT(response.points(0).utility(), 0);
  EXPECT_NEAR(response.points(1).utility(), response.points(0).utility() / 2, 1e-9);
  EXPECT_EQ(response.points(1).marginal_use(), 0);
  EXPECT_FALSE(response.points(0).has_makespan_seconds());
}

}  // namespace
}  // namespace adaptdl::allocator
