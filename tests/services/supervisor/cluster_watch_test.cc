// A watch that takes changes ends up with the same cluster as one that takes all of it each time.

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "services/allocator/cluster_mirror.h"
#include "tests/services/supervisor/cluster_fixture.h"
#include "tests/services/supervisor/replica_calls.h"

namespace adaptdl::supervisor {
namespace {

using google::protobuf::util::MessageDifferencer;

class ClusterWatchTest : public ClusterTest {
 protected:
  void Watch() {
    SetDeadline(&context_);
    v1::WatchClusterRequest request;
    request.set_changes(true);
    stream_ = scheduling_->WatchCluster(&context_, request);
    Read();
  }
  void TearDown() override {
    context_.TryCancel();
    if (stream_ != nullptr) {
      v1::WatchClusterResponse response;
      while (stream_->Read(&response)) {
      }
      stream_->Finish();
    }
    ClusterTest::TearDown();
  }

  void Read() {
    v1::WatchClusterResponse response;
    ASSERT_TRUE(stream_->Read(&response)) << "what was heard is\n"
                                          << Seen().DebugString() << "what is there is\n"
                                          << Comparable(Snapshot()).DebugString();
    if (response.has_change())
      sizes_.push_back(response.change().jobs_size() + response.change().nodes_size());
    snapshots_ += response.has_snapshot();
    mirror_.Take(std::move(response), clock_.Now());
  }

  v1::ClusterSnapshot Seen() { return Comparable(mirror_.Snapshot(clock_.Now())); }

  // Reads until what was heard is what is there.
  void CatchUp() {
    while (!MessageDifferencer::Equals(Seen(), Comparable(Snapshot()))) {
      Read();
      if (HasFatalFailure()) return;
    }
  }

  // Without what a node says of itself all the time, and what replicas make of it.
  static v1::ClusterSnapshot Comparable(v1::ClusterSnapshot snapshot) {
    for (v1::Node& node : *snapshot.mutable_nodes()) {
      node.mutable_status()->clear_last_heartbeat();
      node.mutable_status()->clear_replicas();
      node.mutable_status()->clear_allocated();
    }
    // Words alone are told with the next change.
    for (v1::Job& job : *snapshot.mutable_jobs()) job.mutable_status()->clear_message();
    return snapshot;
  }

  void SetQuota(const std::string& name_space, int gpus) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::SetQuotaRequest request;
    request.set_request_id(RandomHex(8));
    request.set_namespace_(name_space);
    request.set_gpus(gpus);
    v1::SetQuotaResponse response;
    EXPECT_TRUE(quotas_->SetQuota(&context, request, &response).ok());
  }
  void RemoveNode(const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::RemoveNodeRequest request;
    request.set_request_id(RandomHex(8));
    request.set_node_id(id);
    v1::RemoveNodeResponse response;
    const grpc::Status status = nodes_->RemoveNode(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchClusterResponse>> stream_;
  allocator::ClusterMirror mirror_;
  int snapshots_ = 0;
  std::vector<int> sizes_;  // of changes, in jobs and nodes
};

TEST_F(ClusterWatchTest, TellsWhatDiffersAndNoMore) {
  const auto worker = AddWorker("n0");
  for (int i = 0; i < 20; ++i) Submit(NewJob(absl::StrCat("job-", i)));
  Watch();
  EXPECT_EQ(mirror_.Snapshot(clock_.Now()).jobs_size(), 20);
  // What was on its way when the stream began is told once more. It is over when this one has come.
  Submit(NewJob("first"));
  CatchUp();
  sizes_.clear();
  const v1::Job late = Submit(NewJob("late"));
  CatchUp();
  ASSERT_FALSE(sizes_.empty());
  EXPECT_LE(sizes_.back(), 1);
  EXPECT_EQ(snapshots_, 1);
  const v1::ClusterSnapshot seen = Seen();
  EXPECT_EQ(seen.jobs(21).name(), "late");
}

TEST_F(ClusterWatchTest, FollowsAJobThroughItsLife) {
  const auto worker = AddWorker("n0");
  Watch();
  const v1::Job job = Submit(NewJob("a"));
  CatchUp();
  Allocate(job, {"n0", "n0"});
  CatchUp();
  const v1::LaunchReplica first = worker->NextLaunch();
  const v1::LaunchReplica second = worker->NextLaunch();
  worker->Running(first);
  worker->Running(second);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  CatchUp();
  worker->Exited(first, 1);
  worker->Exited(second, 1);
  WaitFor("a", [](const v1::Job& now) { return now.status().failures() > 0; });
  CatchUp();
  EXPECT_TRUE(Cancel("a").ok());
  CatchUp();
  EXPECT_EQ(Seen().jobs_size(), 0);
}

TEST_F(ClusterWatchTest, TellsWhatFinishedJobsOfTheKindTook) {
  const auto worker = AddWorker("n0");
  // Begins a job that tells of so many steps of 100 samples.
  const auto begin = [&](const std::string& name, double steps) {
    Allocate(Submit(NewJob(name)), {"n0"});
    const v1::LaunchReplica launch = worker->NextLaunch();
    worker->Running(launch);
    WaitForPhase(name, v1::JOB_PHASE_RUNNING);
    v1::Hints hints;
    hints.set_init_batch_size(100);
    hints.set_max_profiled_replicas(1);
    EXPECT_TRUE(ReportHints(IdentityOf(launch), launch.token(), hints).ok());
    Heart heart(replicas_.get(), IdentityOf(launch), launch.token());
    v1::HeartbeatRequest request;
    request.mutable_progress()->set_fraction(-1);
    request.mutable_progress()->set_optimizer_steps(10);
    request.mutable_progress()->set_scale_invariant_steps(steps);
    heart.Send(request);
    heart.Next();
    return launch;
  };
  const v1::LaunchReplica first = begin("first", 50);
  worker->Exited(first, 0);
  WaitForPhase("first", v1::JOB_PHASE_SUCCEEDED);
  begin("second", 5);
  Advance(absl::Seconds(1));
  EXPECT_EQ(Get("second").status().progress().scale_invariant_steps(), 5);
  Watch();
  const v1::ClusterSnapshot seen = mirror_.Snapshot(clock_.Now());
  ASSERT_EQ(seen.jobs_size(), 1);
  const v1::PastWork& past = seen.jobs(0).status().past_work();
  EXPECT_EQ(past.jobs(), 1);
  EXPECT_NEAR(past.mean_log(), std::log(5000), 1e-9);
  EXPECT_FALSE(Get("second").status().has_past_work()) << "it is for allocators";
}

TEST_F(ClusterWatchTest, FollowsNodesAndQuotas) {
  Watch();
  auto worker = AddWorker("n0");
  const auto other = AddWorker("n1");
  CatchUp();
  EXPECT_EQ(Seen().nodes_size(), 2);
  SetQuota("team", 3);
  SetQuota("other", 4);
  CatchUp();
  EXPECT_EQ(Seen().quotas_size(), 2);
  worker->Disconnect();
  other->Heartbeat();
  Advance(absl::Minutes(5));
  CatchUp();
  RemoveNode("n0");
  CatchUp();
  const v1::ClusterSnapshot seen = Seen();
  for (const v1::Node& node : seen.nodes()) EXPECT_NE(node.node_id(), "n0");
}

TEST_F(ClusterWatchTest, AgreesAfterAnyChanges) {
  std::mt19937 random(7);
  const auto pick = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  std::vector<std::unique_ptr<FakeWorker>> workers;
  workers.push_back(AddWorker("n0"));
  Watch();
  std::vector<v1::Job> jobs;
  for (int i = 0; i < 150; ++i) {
    switch (pick(6)) {
      case 0:
        workers.push_back(AddWorker(absl::StrCat("n", workers.size())));
        break;
      case 1:
        SetQuota(absl::StrCat("team-", pick(3)), pick(5));
        break;
      case 2:
        if (!jobs.empty()) Cancel(jobs[pick(static_cast<int>(jobs.size()))].name());
        break;
      case 3:
        if (!jobs.empty()) {
          Apply({AllocationOf(jobs[pick(static_cast<int>(jobs.size()))],
                              {absl::StrCat("n", pick(static_cast<int>(workers.size())))})});
        }
        break;
      default:
        jobs.push_back(Submit(NewJob(absl::StrCat("job-", i))));
    }
    if (pick(10) == 0) CatchUp();
    ASSERT_FALSE(HasFatalFailure());
  }
  CatchUp();
  EXPECT_EQ(snapshots_, 1);
  EXPECT_GT(Seen().jobs_size(), 0);
}

}  // namespace
}  // namespace adaptdl::supervisor
