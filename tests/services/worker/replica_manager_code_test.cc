// Replicas that wait for the folder that comes with their job.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "services/worker/replica_manager.h"
#include "tests/services/worker/code/fake_code_source.h"
#include "tests/services/worker/fake_shims.h"
#include "tests/services/worker/lanes.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

class ReplicaManagerCodeTest : public ::testing::Test {
 protected:
  ReplicaManagerCodeTest() {
    auto manager = ReplicaManager::Create(
        {.state_dir = folder_.path(),
         .node = {.node_id = "node-a", .replica_host = "", .supervisor_address = ""},
         .devices = {},
         .code_source = &source_},
        *JobStorage::Create(folder_ / "storage", {.user = "self"}), &clock_, &shims_, &lanes_);
    EXPECT_TRUE(manager.ok()) << manager.status();
    manager_ = *std::move(manager);
    manager_->SetSink([this](const v1::ReplicaReport& report) { last_ = report.replica(); });
    const TempFolder program;
    WriteFile(program / "train.py", "print()");
    launch_.set_namespace_("default");
    launch_.set_job("mnist");
    launch_.set_job_uid("0123456789abcdef");
    launch_.set_replica_id("r-0");
    launch_.set_num_replicas(1);
    launch_.mutable_template_()->add_command("true");
    *launch_.mutable_template_()->mutable_code() = source_.Add(program.path());
  }

  std::string Folder() const { return folder_ / "job-code/default/mnist-0123456789abcdef"; }
  v1::DeleteJobFiles Job() const {
    v1::DeleteJobFiles job;
    job.set_namespace_("default");
    job.set_job("mnist");
    job.set_job_uid("0123456789abcdef");
    return job;
  }

  TempFolder folder_;
  ManualClock clock_;
  FakeCodeSource source_;
  FakeShims shims_;
  ManualLanes lanes_;
  std::unique_ptr<ReplicaManager> manager_;
  v1::LaunchReplica launch_;
  v1::Replica last_;
};

TEST_F(ReplicaManagerCodeTest, AFetchHasAPatienceOfItsOwn) {
  source_.OnRead([this] {
    clock_.Advance(absl::Minutes(5));
    manager_->GiveUpOnStorage();
  });
  manager_->Launch(launch_);
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_LAUNCHING);
  EXPECT_TRUE(fs::exists(Folder() + "/train.py"));
}

TEST_F(ReplicaManagerCodeTest, OneThatTakesForEverIsGivenUp) {
  source_.OnRead([this] {
    clock_.Advance(absl::Minutes(10));
    manager_->GiveUpOnStorage();
  });
  manager_->Launch(launch_);
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_LOST);
  EXPECT_EQ(last_.end_cause(), v1::END_CAUSE_STORAGE);
  EXPECT_THAT(last_.message(), ::testing::HasSubstr("could not be fetched"));
  EXPECT_FALSE(fs::exists(Folder()));
}

TEST_F(ReplicaManagerCodeTest, OneThatIsStoppedMeanwhileIsNotFetchedOn) {
  source_.OnRead([this] {
    v1::StopReplica stop;
    stop.set_replica_id("r-0");
    manager_->Stop(stop);
  });
  manager_->Launch(launch_);
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(last_.exit_code(), 143);
  EXPECT_EQ(source_.bytes(), 0);
  EXPECT_FALSE(fs::exists(Folder()));
}

TEST_F(ReplicaManagerCodeTest, AnArchiveThatIsNowhereIsToldAsTheJobsFailure) {
  launch_.mutable_template_()->mutable_code()->set_digest(std::string(64, 'a'));
  manager_->Launch(launch_);
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(last_.end_cause(), v1::END_CAUSE_JOB);
  EXPECT_THAT(last_.message(), ::testing::HasSubstr(std::string(64, 'a')));
}

TEST_F(ReplicaManagerCodeTest, TheFolderGoesWithItsJobAndStaysWhileAReplicaRuns) {
  manager_->Launch(launch_);
  manager_->TrimCode();
  EXPECT_TRUE(fs::exists(Folder()));
  EXPECT_FALSE(manager_->DeleteJob(Job()).ok());
  ExitRecord record;
  record.exit_code = 143;
  manager_->OnExited("r-0", record);
  EXPECT_TRUE(manager_->DeleteJob(Job()).ok());
  EXPECT_FALSE(fs::exists(Folder()));
}

}  // namespace
}  // namespace adaptdl::worker
