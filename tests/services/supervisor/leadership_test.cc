// What others are told of a supervisor's leadership, what it refuses when it may not lead any more, and which
// allocator decides.

#include <atomic>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "services/supervisor/store/fenced_job_store.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

class FakeLease final : public LeaderLease {
 public:
  int64_t term() const override { return term_now; }
  bool Valid() const override { return valid; }
  absl::Status AwaitValid(absl::Duration) override {
    return valid ? absl::OkStatus() : absl::DeadlineExceededError("no lease");
  }
  void GiveUp(const std::string&) override {}

  std::atomic<int64_t> term_now = 7;
  std::atomic<bool> valid = true;
};

class LeadershipTest : public ClusterTest {
 protected:
  LeadershipTest() { lease_ = &fake_; }

  std::unique_ptr<JobStore> MakeStore() override {
    return std::make_unique<FencedJobStore>(std::make_unique<MemoryJobStore>(), &fake_);
  }

  grpc::Status Acquire(const std::string& holder, v1::AcquireLeaseResponse* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::AcquireLeaseRequest request;
    request.set_holder(holder);
    return scheduling_->AcquireLease(&context, request, response);
  }
  v1::AcquireLeaseResponse MustAcquire(const std::string& holder) {
    v1::AcquireLeaseResponse response;
    const grpc::Status status = Acquire(holder, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status ApplyUnder(int64_t lease_term) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ApplyAllocationsRequest request;
    request.set_request_id(RandomHex(8));
    request.set_snapshot_version(Snapshot().version());
    request.set_lease_term(lease_term);
    v1::ApplyAllocationsResponse response;
    return scheduling_->ApplyAllocations(&context, request, &response);
  }

  FakeLease fake_;
};

TEST_F(LeadershipTest, WorkersAreToldTheTermAndTheVersion) {
  FakeWorker worker(channel_, "n1", 4000);
  for (const auto& [asked, answered] : {std::pair(0, 1), {1, 1}, {2, 2}, {3, 2}, {-1, 1}}) {
    v1::RegisterNodeResponse response;
    ASSERT_TRUE(worker.Register(asked, &response).ok());
    EXPECT_EQ(response.protocol_version(), answered) << asked;
    EXPECT_EQ(response.term(), 7);
  }
}

TEST_F(LeadershipTest, HeartbeatsAreAnsweredSinceVersionTwo) {
  FakeWorker older(channel_, "n1", 4000);
  FakeWorker newer(channel_, "n2", 4000);
  ASSERT_TRUE(older.Register(1).ok());
  ASSERT_TRUE(newer.Register(2).ok());
  for (FakeWorker* worker : {&older, &newer}) {
    worker->Connect();
    worker->Heartbeat();
    v1::ReplicaReport ghost;
    ghost.mutable_replica()->set_replica_id("ghost");
    ghost.mutable_replica()->set_state(v1::REPLICA_STATE_EXITED);
    worker->Report(ghost);
  }
  EXPECT_TRUE(older.Next().has_acknowledge());
  EXPECT_TRUE(newer.Next().has_heartbeat_ack());
  EXPECT_TRUE(newer.Next().has_acknowledge());
}

TEST_F(LeadershipTest, NothingIsChangedNorRefusedForGoodWithoutTheLease) {
  fake_.valid = false;
  EXPECT_EQ(TrySubmit(NewJob("a")).error_code(), grpc::StatusCode::UNAVAILABLE);
  FakeWorker worker(channel_, "n1", 4000);
  EXPECT_EQ(worker.Register().error_code(), grpc::StatusCode::UNAVAILABLE);
  // It may be one that another leader has launched.
  v1::ReportHintsRequest hints;
  hints.mutable_identity()->set_namespace_("default");
  hints.mutable_identity()->set_job("a");
  hints.mutable_identity()->set_replica_id("r");
  v1::ReportHintsResponse ignored;
  grpc::ClientContext context;
  SetDeadline(&context);
  EXPECT_EQ(replicas_->ReportHints(&context, hints, &ignored).error_code(), grpc::StatusCode::UNAVAILABLE);
  v1::JoinGroupRequest join;
  *join.mutable_identity() = hints.identity();
  grpc::ClientContext join_context;
  SetDeadline(&join_context);
  EXPECT_EQ(replicas_->JoinGroup(&join_context, join)->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  v1::AcquireLeaseResponse response;
  EXPECT_EQ(Acquire("a", &response).error_code(), grpc::StatusCode::UNAVAILABLE);
  fake_.valid = true;
  EXPECT_TRUE(TrySubmit(NewJob("a")).ok());
}

TEST_F(LeadershipTest, OneAllocatorDecides) {
  const v1::AcquireLeaseResponse first = MustAcquire("a");
  ASSERT_TRUE(first.granted());
  EXPECT_EQ(first.lease_term(), int64_t{7} << 20);
  EXPECT_EQ(MustAcquire("a").lease_term(), first.lease_term());
  const v1::AcquireLeaseResponse second = MustAcquire("b");
  EXPECT_FALSE(second.granted());
  EXPECT_EQ(second.lease_term(), 0);
  EXPECT_EQ(second.holder(), "a");
  EXPECT_TRUE(ApplyUnder(first.lease_term()).ok());
  EXPECT_EQ(ApplyUnder(first.lease_term() + 1).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ApplyUnder(0).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(LeadershipTest, ALeaseThatIsNotRenewedGoesToAnother) {
  const v1::AcquireLeaseResponse first = MustAcquire("a");
  for (int i = 0; i < 5; ++i) {
    Advance(absl::Seconds(2));
    ASSERT_TRUE(MustAcquire("a").granted());
    ASSERT_FALSE(MustAcquire("b").granted());
  }
  Advance(absl::Seconds(3));
  // Nobody else has decided meanwhile.
  EXPECT_TRUE(ApplyUnder(first.lease_term()).ok());
  EXPECT_TRUE(ApplyUnder(0).ok());
  const v1::AcquireLeaseResponse second = MustAcquire("b");
  ASSERT_TRUE(second.granted());
  EXPECT_GT(second.lease_term(), first.lease_term());
  EXPECT_FALSE(MustAcquire("a").granted());
  EXPECT_EQ(ApplyUnder(first.lease_term()).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(ApplyUnder(second.lease_term()).ok());
}

TEST_F(LeadershipTest, LeasesOfALaterLeaderAreLarger) {
  int64_t last = 0;
  for (const char* holder : {"a", "b", "c"}) {
    const v1::AcquireLeaseResponse response = MustAcquire(holder);
    ASSERT_TRUE(response.granted());
    EXPECT_GT(response.lease_term(), last);
    last = response.lease_term();
    Stop();
    ++fake_.term_now;
    Start();
  }
}

TEST_F(LeadershipTest, AnAllocatorHasAName) {
  v1::AcquireLeaseResponse response;
  EXPECT_EQ(Acquire("", &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Acquire(std::string(129, 'x'), &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace adaptdl::supervisor
