// Mistakes of the program cost the call or the job that trips over them.

#include "services/supervisor/state/invariants.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(InvariantsTest, TurnsExceptionsIntoErrors) {
  Invariants invariants;
  std::vector<std::string> broken;
  invariants.SetOnBroken([&](const std::string& where) { broken.push_back(where); });
  const auto at = [&](int index) -> absl::StatusOr<int> { return std::vector<int>{7}.at(index); };
  EXPECT_EQ(*invariants.Guard("a", [&] { return at(0); }), 7);
  EXPECT_EQ(invariants.Guard("a", [&] { return at(1); }).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(invariants.Guard("b", [&] { return absl::AbortedError("as before"); }).code(),
            absl::StatusCode::kAborted);
  EXPECT_THAT(broken, ElementsAre("a"));
}

TEST(InvariantsTest, ATaskThatThrowsDoesNotEndTheExecutor) {
  Invariants invariants;
  bool done = false;
  {
    Executor executor(1, 1, &invariants);
    executor.Post([] { throw std::out_of_range("test"); });
    executor.Post([&] { done = true; });
  }
  EXPECT_TRUE(done);
}

class BrokenClusterTest : public ClusterTest {
 protected:
  // Nodes stay, without a heartbeat.
  BrokenClusterTest() { options_.cluster.heartbeat_period = absl::Hours(1); }

  void SetUp() override {
    // Groups get secrets when they are launched.
    random_hex_ = [this](int bytes) {
      if (bytes == 32 && fails_) throw std::out_of_range("no such secret");
      return RandomHex(bytes);
    };
    ClusterTest::SetUp();
    registry_ = std::make_shared<prometheus::Registry>();
    supervisor_->ExportMetrics(registry_);
  }
  std::string Metrics() const { return prometheus::TextSerializer().Serialize(registry_->Collect()); }

  std::atomic<bool> fails_ = false;
  std::shared_ptr<prometheus::Registry> registry_;
};

TEST_F(BrokenClusterTest, AJobThatBreaksTheStateMachineIsLeftAloneForAWhile) {
  const auto worker = AddWorker("n0");
  const v1::Job bad = Submit(NewJob("bad"));
  const v1::Job good = Submit(NewJob("good"));
  fails_ = true;
  EXPECT_EQ(Apply({AllocationOf(bad, {"n0"})}).error_code(), grpc::StatusCode::INTERNAL);
  fails_ = false;
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_supervisor_broken_invariants_total{where=\"state machine\"} 1"));
  EXPECT_EQ(Get("bad").status().phase(), v1::JOB_PHASE_PENDING);
  EXPECT_EQ(Get("bad").status().desired_allocation_size(), 0) << "nothing of the change is stored";

  Allocate(bad, {"n0"});
  Allocate(good, {"n0"});
  EXPECT_EQ(worker->NextLaunch().job(), "good");
  EXPECT_EQ(Get("bad").status().phase(), v1::JOB_PHASE_PENDING);
  Advance(absl::Seconds(61));
  EXPECT_EQ(worker->NextLaunch().job(), "bad");
}

TEST_F(BrokenClusterTest, AStepThatThrowsIsNotTheLast) {
  const auto worker = AddWorker("n0");
  const v1::Job job = Submit(NewJob("a"));
  Allocate(job, {"n0"});
  worker->Exited(worker->NextLaunch(), 1);
  WaitFor("a", [](const v1::Job& now) { return now.status().failures() > 0; });
  fails_ = true;
  Advance(absl::Minutes(1));
  fails_ = false;
  EXPECT_THAT(Metrics(), HasSubstr("where=\"step\"}"));
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_PENDING);
}

// A store whose replicas have lost their job.
class StoreWithAnOrphan final : public MemoryJobStore {
 public:
  absl::StatusOr<StoreContents> Load(absl::Time /*now*/) override {
    StoreContents contents;
    ReplicaRecord orphan;
    orphan.job_uid = "nobody";
    orphan.replica.set_replica_id("orphan-0");
    contents.replicas.push_back(orphan);
    return contents;
  }
};

class OrphanTest : public ClusterTest {
 protected:
  std::unique_ptr<JobStore> MakeStore() override { return std::make_unique<StoreWithAnOrphan>(); }
};

TEST_F(OrphanTest, WhatBelongsToNoJobIsPassedOver) {
  const v1::Job job = Submit(NewJob("a"));
  EXPECT_EQ(Get("a").uid(), job.uid());
}

}  // namespace
}  // namespace adaptdl::supervisor
