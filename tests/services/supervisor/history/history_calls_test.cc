// HistoryService over gRPC: what a replica's heartbeats leave behind.

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "adaptdl/v1/history_service.grpc.pb.h"
#include "gtest/gtest.h"
#include "libs/messages/proto_time.h"
#include "tests/services/supervisor/cluster_fixture.h"
#include "tests/services/supervisor/replica_calls.h"

namespace adaptdl::supervisor {
namespace {

class HistoryCallsTest : public ClusterTest {
 protected:
  void SetUp() override {
    options_.history.folder = absl::StrCat(folder_.path(), "/history");
    ClusterTest::SetUp();
  }

  std::unique_ptr<JobStore> MakeStore() override {
    SqliteJobStoreOptions options;
    options.folder = folder_.path();
    auto store = SqliteJobStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  grpc::Status TryHistory(const v1::GetJobHistoryRequest& request, v1::GetJobHistoryResponse* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return v1::HistoryService::NewStub(channel_)->GetJobHistory(&context, request, response);
  }
  v1::GetJobHistoryResponse HistoryOf(const std::string& name) {
    v1::GetJobHistoryRequest request;
    request.set_name(name);
    v1::GetJobHistoryResponse response;
    const grpc::Status status = TryHistory(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  v1::ListTimelinesResponse Timelines() {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListTimelinesResponse response;
    EXPECT_TRUE(v1::HistoryService::NewStub(channel_)->ListTimelines(&context, {}, &response).ok());
    return response;
  }
  // The hub tells of the job's phase when it gets to it: says its progress until it is known that it trains.
  void Train(Heart* heart) {
    v1::HeartbeatRequest beat;
    v1::TrainingProgress* progress = beat.mutable_progress();
    progress->set_throughput(100);
    progress->set_efficiency(0.5);
    progress->set_fraction(0.5);
    v1::ReportedMetric* loss = progress->add_metrics();
    loss->set_name("loss");
    for (int step = 1; step < 10'000; ++step) {
      progress->set_optimizer_steps(step);
      loss->set_value(1.0 / step);
      loss->set_step(step);
      heart->Send(beat);
      heart->Next();
      Advance(absl::Seconds(2));
      const v1::GetJobHistoryResponse history = HistoryOf("a");
      if (history.points_size() > 0 && history.points().rbegin()->goodput() > 0) return;
    }
    FAIL() << "no progress came";
  }

  TemporaryFolder folder_;
};

TEST_F(HistoryCallsTest, HeartbeatsBecomeCurvesThatSurviveARestart) {
  {
    const auto worker = AddWorker("n1");
    Allocate(Submit(NewJob("a")), {"n1"});
    const v1::LaunchReplica launch = worker->NextLaunch();
    worker->Running(launch);
    WaitForPhase("a", v1::JOB_PHASE_RUNNING);
    Heart heart(replicas_.get(), IdentityOf(launch), launch.token());
    Train(&heart);
    const v1::GetJobHistoryResponse history = HistoryOf("a");
    const v1::HistoryPoint& point = *history.points().rbegin();
    EXPECT_EQ(point.replicas(), 1);
    EXPECT_EQ(point.throughput(), 100);
    EXPECT_EQ(point.goodput(), 50);
    EXPECT_EQ(point.fraction(), 0.5);
    EXPECT_EQ(history.job_uid(), Get("a").uid());
    bool has_loss = false;
    for (const auto& each : history.points()) has_loss = has_loss || each.metrics_size() == 1;
    EXPECT_TRUE(has_loss);
    worker->Exited(launch, 0);
    WaitForPhase("a", v1::JOB_PHASE_SUCCEEDED);
    Advance(absl::Seconds(2));
  }
  const v1::GetJobHistoryResponse before = HistoryOf("a");
  Stop();
  Start();
  const v1::GetJobHistoryResponse after = HistoryOf("a");
  EXPECT_EQ(after.DebugString(), before.DebugString());
  EXPECT_EQ(after.changes().rbegin()->phase(), v1::JOB_PHASE_SUCCEEDED);
}

TEST_F(HistoryCallsTest, TimelinesTellWhoHasHadWhat) {
  const auto worker = AddWorker("n1");
  const v1::Job job = Submit(NewJob("a"));
  Submit(NewJob("b"));
  Allocate(job, {"n1"});
  const v1::LaunchReplica launch = worker->NextLaunch();
  worker->Running(launch);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  worker->Exited(launch, 0);
  WaitForPhase("a", v1::JOB_PHASE_SUCCEEDED);
  const v1::ListTimelinesResponse timelines = Timelines();
  ASSERT_EQ(timelines.timelines_size(), 2);
  const v1::JobTimeline& timeline = timelines.timelines(0);
  EXPECT_EQ(timeline.name(), "a");
  EXPECT_EQ(timeline.namespace_(), "default");
  EXPECT_EQ(timeline.uid(), job.uid());
  EXPECT_EQ(timeline.phase(), v1::JOB_PHASE_SUCCEEDED);
  EXPECT_TRUE(timeline.has_completion_time());
  EXPECT_EQ(timeline.changes().rbegin()->phase(), v1::JOB_PHASE_SUCCEEDED);
  EXPECT_EQ(timeline.changes().rbegin()->replicas(), 0);
  EXPECT_FALSE(timelines.timelines(1).has_completion_time());
}

// A disk that is full, or gone.
TEST_F(HistoryCallsTest, NothingElseSuffersFromAFolderThatCannotBeWritten) {
  Stop();
  options_.history.folder = "/dev/null/history";
  Start();
  supervisor_->history()->Flush();
  Submit(NewJob("a"));
  EXPECT_EQ(HistoryOf("a").points_size(), 0);
  EXPECT_EQ(Timelines().timelines_size(), 1);
}

}  // namespace
}  // namespace adaptdl::supervisor
