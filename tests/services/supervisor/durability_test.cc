// Nobody is shown what a crash could take back.

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/services/supervisor/cluster_fixture.h"
#include "tests/services/supervisor/replica_calls.h"

namespace adaptdl::supervisor {
namespace {

// Whose disk can be made to take as long as a test likes.
class SlowStore final : public MemoryJobStore {
 public:
  bool needs_sync() const override { return true; }
  absl::Status Sync() override {
    MutexLock lock(&mutex_);
    ++syncs_;
    changed_.SignalAll();
    while (closed_) changed_.Wait(&mutex_);
    return absl::OkStatus();
  }

  void Close() {
    MutexLock lock(&mutex_);
    closed_ = true;
    syncs_ = 0;
  }
  void AwaitSync() {
    MutexLock lock(&mutex_);
    while (syncs_ == 0) changed_.Wait(&mutex_);
  }
  void Open() {
    MutexLock lock(&mutex_);
    closed_ = false;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int syncs_ ABSL_GUARDED_BY(mutex_) = 0;
};

class DurabilityTest : public ClusterTest {
 protected:
  std::unique_ptr<JobStore> MakeStore() override {
    auto store = std::make_unique<SlowStore>();
    slow_ = store.get();
    return store;
  }
  void TearDown() override {
    slow_->Open();
    ClusterTest::TearDown();
  }

  // Many answers of the same server, which do not wait for the disk: whatever else could have come has come.
  static void LetTimeGoBy(FakeWorker* worker) {
    for (int i = 0; i < 200; ++i) {
      worker->Heartbeat();
      EXPECT_TRUE(worker->Next().has_heartbeat_ack());
    }
  }
  std::unique_ptr<FakeWorker> AddAnsweringWorker() {
    auto worker = std::make_unique<FakeWorker>(channel_, "n1");
    EXPECT_TRUE(worker->Register(2).ok());
    worker->Connect();
    return worker;
  }

  SlowStore* slow_ = nullptr;
  std::atomic<bool> durable_ = false;
};

TEST_F(DurabilityTest, WatchersSeeAJobOnceItIsOnTheDisk) {
  const auto worker = AddAnsweringWorker();
  LetTimeGoBy(worker.get());
  slow_->Close();
  std::thread user([this] { Submit(NewJob("a")); });
  slow_->AwaitSync();
  // A stream that begins now finds the job in memory.
  std::thread watcher([this] {
    grpc::ClientContext context;
    SetDeadline(&context);
    auto stream = jobs_->WatchJobs(&context, {});
    v1::WatchJobsResponse response;
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_TRUE(durable_);
    context.TryCancel();
  });
  LetTimeGoBy(worker.get());
  durable_ = true;
  slow_->Open();
  user.join();
  watcher.join();
}

TEST_F(DurabilityTest, AGroupIsFormedOnceThatIsOnTheDisk) {
  const auto worker = AddAnsweringWorker();
  Allocate(Submit(NewJob("a")), {"n1"});
  const v1::LaunchReplica launch = worker->NextLaunch();
  worker->Running(launch);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  LetTimeGoBy(worker.get());
  slow_->Close();
  std::thread replica([&] {
    Join join(replicas_.get(), IdentityOf(launch), launch.token(), "n1:5000");
    EXPECT_EQ(join.Formed().world_size(), 1);
    EXPECT_TRUE(durable_);
  });
  slow_->AwaitSync();
  LetTimeGoBy(worker.get());
  durable_ = true;
  slow_->Open();
  replica.join();
}

TEST_F(DurabilityTest, AReportIsAcknowledgedOnceItIsOnTheDisk) {
  const auto worker = AddAnsweringWorker();
  Allocate(Submit(NewJob("a")), {"n1"});
  const v1::LaunchReplica launch = worker->NextLaunch();
  worker->Running(launch);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  Heart heart(replicas_.get(), IdentityOf(launch), launch.token());
  heart.BeatWithoutProgress();
  EXPECT_TRUE(heart.Next().takes_reports());
  slow_->Close();
  v1::HeartbeatRequest report;
  report.mutable_checkpoint()->set_error("disk full");
  report.set_report_id(7);
  heart.Send(report);
  slow_->AwaitSync();
  std::thread replica([&] {
    heart.NextAcknowledged(7);
    EXPECT_TRUE(durable_);
  });
  LetTimeGoBy(worker.get());
  durable_ = true;
  slow_->Open();
  replica.join();
}

}  // namespace
}  // namespace adaptdl::supervisor
