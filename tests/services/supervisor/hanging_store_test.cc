// Heartbeats have a path of their own: they are answered while the state waits for its disk.

#include <memory>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "tests/services/supervisor/cluster_fixture.h"
#include "tests/services/supervisor/replica_calls.h"

namespace adaptdl::supervisor {
namespace {

// A disk that hangs from Hang() until GoOn().
class Disk {
 public:
  void Hang() {
    MutexLock lock(&mutex_);
    hangs_ = true;
  }
  void GoOn() {
    MutexLock lock(&mutex_);
    hangs_ = false;
    changed_.SignalAll();
  }
  // Until somebody waits for it.
  void AwaitVictim() {
    MutexLock lock(&mutex_);
    while (victims_ == 0) changed_.Wait(&mutex_);
  }
  void Use() {
    MutexLock lock(&mutex_);
    ++victims_;
    changed_.SignalAll();
    while (hangs_) changed_.Wait(&mutex_);
    --victims_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool hangs_ = false;
  int victims_ = 0;
};

class StoreOnDisk final : public JobStore {
 public:
  explicit StoreOnDisk(Disk* disk) : disk_(disk) {}

  absl::StatusOr<StoreContents> Load(absl::Time now) override { return store_.Load(now); }
  absl::Status Commit(const WriteBatch& batch) override {
    disk_->Use();
    return store_.Commit(batch);
  }
  bool needs_sync() const override { return false; }
  absl::Status Sync() override { return store_.Sync(); }
  absl::StatusOr<std::vector<v1::Event>> ListEvents(const EventQuery& query) override {
    return store_.ListEvents(query);
  }
  absl::StatusOr<std::vector<ReplicaRecord>> ListReplicas(const std::string& uid) override {
    return store_.ListReplicas(uid);
  }
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& caller,
                                                           const std::string& name_space,
                                                           const std::string& id) override {
    return store_.FindRequest(caller, name_space, id);
  }
  absl::Status PruneRequests(absl::Time time) override { return store_.PruneRequests(time); }
  absl::Status PruneEvents(absl::Time time) override { return store_.PruneEvents(time); }
  absl::Status PruneReplicas(const std::string& uid, int keep) override {
    return store_.PruneReplicas(uid, keep);
  }
  absl::StatusOr<std::string> Backup() override { return store_.Backup(); }

 private:
  Disk* const disk_;
  MemoryJobStore store_;
};

class HangingStoreTest : public ClusterTest {
 protected:
  std::unique_ptr<JobStore> MakeStore() override { return std::make_unique<StoreOnDisk>(&disk_); }
  void TearDown() override {
    disk_.GoOn();
    worker_ = nullptr;
    ClusterTest::TearDown();
  }
  // One replica that runs, on a node that speaks of heartbeats' answers.
  void RunOne() {
    worker_ = std::make_unique<FakeWorker>(channel_, "n0");
    ASSERT_TRUE(worker_->Register(/*protocol_version=*/2).ok());
    worker_->Connect();
    Allocate(Submit(NewJob("a")), {"n0"});
    launch_ = worker_->NextLaunch();
    worker_->Running(launch_);
    WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  }

  Disk disk_;
  std::unique_ptr<FakeWorker> worker_;
  v1::LaunchReplica launch_;
};

TEST_F(HangingStoreTest, ANodesHeartbeatsAreAnsweredWhileItsReportWaits) {
  RunOne();
  disk_.Hang();
  worker_->Exited(launch_, 0);
  disk_.AwaitVictim();
  for (int i = 0; i < 3; ++i) {
    worker_->Heartbeat();
    EXPECT_TRUE(worker_->Next().has_heartbeat_ack());
  }
  // Reports of the same replica, as they are repeated with heartbeats, do not pile up behind it.
  for (int i = 0; i < 3; ++i) worker_->Exited(launch_, 0);
  worker_->Heartbeat();
  EXPECT_TRUE(worker_->Next().has_heartbeat_ack());
  disk_.GoOn();
  EXPECT_EQ(worker_->Next().acknowledge().replica_id(), launch_.replica_id());
  WaitForPhase("a", v1::JOB_PHASE_SUCCEEDED);
}

TEST_F(HangingStoreTest, AReplicasHeartbeatsAreAnsweredWhileTheStateIsBusy) {
  RunOne();
  Heart heart(replicas_.get(), IdentityOf(launch_), launch_.token());
  heart.Beat(0.1);
  heart.Next();
  disk_.Hang();
  v1::HeartbeatRequest failed;
  failed.mutable_checkpoint()->set_step(5);
  failed.mutable_checkpoint()->set_error("disk full");
  heart.Send(failed);
  disk_.AwaitVictim();
  for (int i = 0; i < 3; ++i) {
    heart.Beat(0.2);
    EXPECT_EQ(heart.Next().command(), v1::REPLICA_COMMAND_NONE);
  }
  disk_.GoOn();
  WaitFor("a", [](const v1::Job& job) { return job.status().checkpoint_error() == "disk full"; });
}

}  // namespace
}  // namespace adaptdl::supervisor
