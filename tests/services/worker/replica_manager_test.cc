#include "services/worker/replica_manager.h"

#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "tests/services/worker/fake_shims.h"
#include "tests/services/worker/lanes.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kUid[] = "0123456789abcdef";

v1::LaunchReplica MakeLaunch(const std::string& replica_id, int gpus = 0) {
  v1::LaunchReplica launch;
  launch.set_namespace_("default");
  launch.set_job("mnist");
  launch.set_job_uid(kUid);
  launch.set_replica_id(replica_id);
  launch.set_group(3);
  launch.set_num_replicas(1);
  launch.set_num_nodes(1);
  launch.set_token("secret");
  launch.mutable_template_()->add_command("true");
  launch.mutable_template_()->mutable_resources()->set_gpus(gpus);
  return launch;
}

v1::StopReplica MakeStop(const std::string& replica_id) {
  v1::StopReplica stop;
  stop.set_replica_id(replica_id);
  return stop;
}

v1::DeleteJobFiles MakeDelete() {
  v1::DeleteJobFiles job;
  job.set_namespace_("default");
  job.set_job("mnist");
  job.set_job_uid(kUid);
  return job;
}

class ReplicaManagerTest : public ::testing::Test {
 protected:
  void SetUp() override { Restart(); }

  // As a worker that is started again on the same folders; the fake shims remember nothing.
  void Restart() {
    manager_.reset();
    shims_ = std::make_unique<FakeShims>();
    auto manager = ReplicaManager::Create(
        {.state_dir = folder_.path(),
         .node = {.node_id = "node-a", .replica_host = "10.0.0.1", .supervisor_address = "super:7100"},
         .devices = {"0", "1"}},
        *JobStorage::Create(folder_ / "storage", {.user = "self"}), &clock_, shims_.get(), &lanes_);
    ASSERT_TRUE(manager.ok()) << manager.status();
    manager_ = *std::move(manager);
    manager_->SetSink([this](const v1::ReplicaReport& report) { reports_.push_back(report); });
    reports_.clear();
  }

  std::string ReplicaFolder(const std::string& id) { return folder_ / ("replicas/" + id); }

  ExitRecord Exit(int code) {
    return {.exit_code = code, .start_time = clock_.Now(), .end_time = clock_.Now()};
  }

  // The shim leaves a record too.
  void ExitForReal(const std::string& id, int code) {
    WriteFile(ReplicaFolder(id) + "/" + kExitFile, ExitRecordToJson(Exit(code)));
    shims_->SayExited(id, Exit(code));
  }

  const v1::Replica& LastReplica() { return reports_.back().replica(); }

  TempFolder folder_;
  ManualClock clock_;
  ManualLanes lanes_;
  std::unique_ptr<FakeShims> shims_;
  std::vector<v1::ReplicaReport> reports_;
  std::unique_ptr<ReplicaManager> manager_;
};

TEST_F(ReplicaManagerTest, ReportsALifeFromLaunchToExit) {
  manager_->Launch(MakeLaunch("r-0"));
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LAUNCHING);
  EXPECT_EQ(reports_.back().job(), "mnist");
  EXPECT_EQ(LastReplica().group(), 3);
  EXPECT_EQ(LastReplica().node_id(), "node-a");
  shims_->SayRunning("r-0");
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_RUNNING);
  EXPECT_EQ(LastReplica().start_time().seconds(), 100);
  shims_->SayExited("r-0", Exit(7));
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(LastReplica().exit_code(), 7);
  EXPECT_THAT(manager_->Unacknowledged(), SizeIs(1));
  manager_->Acknowledge("r-0");
  EXPECT_THAT(manager_->Unacknowledged(), IsEmpty());
  EXPECT_THAT(manager_->Inventory(), IsEmpty());
}

TEST_F(ReplicaManagerTest, ASecondLaunchOnlyRepeatsTheReport) {
  manager_->Launch(MakeLaunch("r-0"));
  shims_->SayRunning("r-0");
  manager_->Launch(MakeLaunch("r-0"));
  EXPECT_THAT(shims_->launched, ElementsAre("r-0"));
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_RUNNING);
}

TEST_F(ReplicaManagerTest, ALaunchIsNotRepeatedAfterARestartEither) {
  manager_->Launch(MakeLaunch("r-0"));
  Restart();
  EXPECT_THAT(shims_->attached, ElementsAre("r-0"));
  manager_->Launch(MakeLaunch("r-0"));
  EXPECT_THAT(shims_->launched, IsEmpty());
  EXPECT_THAT(manager_->Inventory(), SizeIs(1));
}

TEST_F(ReplicaManagerTest, TheLaunchFileIsForItsOwnerOnly) {
  manager_->Launch(MakeLaunch("r-0"));
  struct stat info = {};
  ASSERT_EQ(stat((ReplicaFolder("r-0") + "/launch.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(ReplicaFolder("r-0").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(ReplicaManagerTest, MakesTheJobsFolders) {
  manager_->Launch(MakeLaunch("r-0"));
  EXPECT_TRUE(
      std::filesystem::is_directory(folder_ / absl::StrCat("storage/default/mnist-", kUid, "/checkpoint")));
  EXPECT_TRUE(
      std::filesystem::is_directory(folder_ / absl::StrCat("storage/default/mnist-", kUid, "/share")));
}

TEST_F(ReplicaManagerTest, AnEndIsReportedAcrossARestartUntilAcknowledged) {
  manager_->Launch(MakeLaunch("r-0"));
  ExitForReal("r-0", 1);
  Restart();
  ASSERT_THAT(manager_->Unacknowledged(), SizeIs(1));
  EXPECT_EQ(manager_->Unacknowledged()[0].replica().exit_code(), 1);
  EXPECT_THAT(shims_->attached, IsEmpty());
  manager_->Acknowledge("r-0");
  Restart();
  EXPECT_THAT(manager_->Inventory(), IsEmpty());
  EXPECT_TRUE(manager_->FindLog("r-0").ok());  // the log stays
}

TEST_F(ReplicaManagerTest, ARunningReplicaIsRunningAfterARestart) {
  manager_->Launch(MakeLaunch("r-0"));
  WriteFile(ReplicaFolder("r-0") + "/" + kRunningFile,
            RunningRecordToJson({.pid = 5, .start_time = absl::FromUnixSeconds(100)}));
  Restart();
  ASSERT_THAT(manager_->Inventory(), SizeIs(1));
  EXPECT_EQ(manager_->Inventory()[0].replica().state(), v1::REPLICA_STATE_RUNNING);
  shims_->SayExited("r-0", {.lost = true, .end_time = clock_.Now()});
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LOST);
  Restart();  // remembered: nothing to attach to
  EXPECT_THAT(shims_->attached, IsEmpty());
  EXPECT_EQ(manager_->Unacknowledged()[0].replica().state(), v1::REPLICA_STATE_LOST);
}

TEST_F(ReplicaManagerTest, CleansUpWhatWasNeverLaunched) {
  std::filesystem::create_directories(ReplicaFolder("half-made"));
  std::filesystem::create_directories(ReplicaFolder("damaged"));
  WriteFile(ReplicaFolder("damaged") + "/launch.json", "{\"launch\":");
  Restart();
  EXPECT_FALSE(std::filesystem::exists(ReplicaFolder("half-made")));
  EXPECT_TRUE(std::filesystem::exists(ReplicaFolder("damaged")));  // for a person to look at
  EXPECT_THAT(manager_->Inventory(), IsEmpty());
}

TEST_F(ReplicaManagerTest, StopUsesTheOrdersGracePeriodOrTheTemplates) {
  v1::LaunchReplica launch = MakeLaunch("r-0");
  launch.mutable_template_()->mutable_termination_grace_period()->set_seconds(7);
  manager_->Launch(launch);
  manager_->Launch(MakeLaunch("r-1"));
  v1::StopReplica stop = MakeStop("r-0");
  manager_->Stop(stop);
  stop.mutable_grace_period()->set_seconds(2);
  manager_->Stop(stop);
  manager_->Stop(MakeStop("r-1"));
  ASSERT_THAT(shims_->stops, SizeIs(3));
  EXPECT_EQ(shims_->stops[0].grace_period, absl::Seconds(7));
  EXPECT_EQ(shims_->stops[1].grace_period, absl::Seconds(2));
  EXPECT_EQ(shims_->stops[2].grace_period, absl::Seconds(30));
}

TEST_F(ReplicaManagerTest, StoppingAnUnknownReplicaReportsItLost) {
  manager_->Stop(MakeStop("r-9"));
  EXPECT_EQ(LastReplica().replica_id(), "r-9");
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LOST);
}

TEST_F(ReplicaManagerTest, StoppingAnEndedReplicaRepeatsItsEnd) {
  manager_->Launch(MakeLaunch("r-0"));
  shims_->SayExited("r-0", Exit(0));
  reports_.clear();
  manager_->Stop(MakeStop("r-0"));
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_EXITED);
  EXPECT_THAT(shims_->stops, IsEmpty());
}

TEST_F(ReplicaManagerTest, GpusAreDistinctAndComeBack) {
  manager_->Launch(MakeLaunch("r-0", 1));
  manager_->Launch(MakeLaunch("r-1", 1));
  EXPECT_THAT(ReadFile(ReplicaFolder("r-0") + "/launch.json"), HasSubstr("\"CUDA_VISIBLE_DEVICES=0\""));
  EXPECT_THAT(ReadFile(ReplicaFolder("r-1") + "/launch.json"), HasSubstr("\"CUDA_VISIBLE_DEVICES=1\""));
  manager_->Launch(MakeLaunch("r-2", 1));
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LOST);
  EXPECT_THAT(LastReplica().message(), HasSubstr("only 0 are free"));
  shims_->SayExited("r-0", Exit(0));
  manager_->Launch(MakeLaunch("r-3", 1));
  EXPECT_THAT(ReadFile(ReplicaFolder("r-3") + "/launch.json"), HasSubstr("\"CUDA_VISIBLE_DEVICES=0\""));
}

TEST_F(ReplicaManagerTest, GpusStayTakenOverARestart) {
  manager_->Launch(MakeLaunch("r-0", 1));
  Restart();
  manager_->Launch(MakeLaunch("r-1", 1));
  EXPECT_THAT(ReadFile(ReplicaFolder("r-1") + "/launch.json"), HasSubstr("\"CUDA_VISIBLE_DEVICES=1\""));
  manager_->Launch(MakeLaunch("r-2"));
  EXPECT_THAT(ReadFile(ReplicaFolder("r-2") + "/launch.json"), HasSubstr("\"CUDA_VISIBLE_DEVICES=\""));
}

// A member of a group that is to follow the one that runs (MakeLaunch()).
v1::LaunchReplica MakeNewcomer(const std::string& replica_id, int64_t group, int rank) {
  v1::LaunchReplica launch = MakeLaunch(replica_id, 1);
  launch.set_group(group);
  launch.set_rank(rank);
  launch.set_num_replicas(rank + 1);
  launch.set_token("secret of " + std::to_string(group));
  return launch;
}

TEST_F(ReplicaManagerTest, NewcomersRunBesideTheGroupThatTheyAreToJoin) {
  manager_->Launch(MakeLaunch("mnist-3-0", 1));
  shims_->SayRunning("mnist-3-0");
  manager_->Launch(MakeNewcomer("mnist-4-1", 4, 1));
  shims_->SayRunning("mnist-4-1");
  EXPECT_THAT(shims_->folders, ElementsAre(ReplicaFolder("mnist-3-0"), ReplicaFolder("mnist-4-1")));
  const std::string older = ReadFile(ReplicaFolder("mnist-3-0") + "/launch.json");
  EXPECT_THAT(older, HasSubstr("\"ADAPTDL_GROUP=3\""));
  EXPECT_THAT(older, HasSubstr("\"CUDA_VISIBLE_DEVICES=0\""));
  const std::string newer = ReadFile(ReplicaFolder("mnist-4-1") + "/launch.json");
  EXPECT_THAT(newer, HasSubstr("\"ADAPTDL_GROUP=4\""));
  EXPECT_THAT(newer, HasSubstr("\"ADAPTDL_GROUP_TOKEN=secret of 4\""));
  EXPECT_THAT(newer, HasSubstr("\"ADAPTDL_REPLICA_RANK=1\""));
  EXPECT_THAT(newer, HasSubstr("\"ADAPTDL_NUM_REPLICAS=2\""));
  EXPECT_THAT(newer, HasSubstr("\"CUDA_VISIBLE_DEVICES=1\""));
}

TEST_F(ReplicaManagerTest, WhatBecomesOfANewcomerLeavesTheOthersAlone) {
  manager_->Launch(MakeLaunch("mnist-3-0", 1));
  shims_->SayRunning("mnist-3-0");
  manager_->Launch(MakeNewcomer("mnist-4-1", 4, 1));
  manager_->Stop(MakeStop("mnist-4-1"));
  ASSERT_THAT(shims_->stops, SizeIs(1));
  EXPECT_EQ(shims_->stops[0].replica_id, "mnist-4-1");
  shims_->SayExited("mnist-4-1", Exit(143));
  // The next one gets what that one had, and not what the older member still holds.
  manager_->Launch(MakeNewcomer("mnist-5-1", 5, 1));
  EXPECT_THAT(ReadFile(ReplicaFolder("mnist-5-1") + "/launch.json"), HasSubstr("\"CUDA_VISIBLE_DEVICES=1\""));
  ASSERT_THAT(manager_->Inventory(), SizeIs(3));
  EXPECT_EQ(manager_->Inventory()[0].replica().state(), v1::REPLICA_STATE_RUNNING);
}

TEST_F(ReplicaManagerTest, ReportsReplicasOfSeveralGroupsEachAsItWasLaunched) {
  manager_->Launch(MakeLaunch("mnist-3-0", 1));
  manager_->Launch(MakeNewcomer("mnist-4-1", 4, 1));
  Restart();
  EXPECT_THAT(shims_->attached, ElementsAre("mnist-3-0", "mnist-4-1"));
  const std::vector<v1::ReplicaReport> inventory = manager_->Inventory();
  ASSERT_THAT(inventory, SizeIs(2));
  EXPECT_EQ(inventory[0].replica().group(), 3);
  EXPECT_EQ(inventory[0].replica().rank(), 0);
  EXPECT_EQ(inventory[1].replica().group(), 4);
  EXPECT_EQ(inventory[1].replica().rank(), 1);
  EXPECT_EQ(inventory[1].job(), "mnist");
  // All GPUs are still taken.
  manager_->Launch(MakeNewcomer("mnist-4-2", 4, 2));
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LOST);
}

TEST_F(ReplicaManagerTest, AShimThatCannotStartIsTheNodesFault) {
  shims_->launch_status = absl::ResourceExhaustedError("no more processes");
  manager_->Launch(MakeLaunch("r-0", 2));
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LOST);
  EXPECT_THAT(LastReplica().message(), HasSubstr("no more processes"));
  shims_->launch_status = absl::OkStatus();
  manager_->Launch(MakeLaunch("r-1", 2));  // its GPUs are free again
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LAUNCHING);
}

TEST_F(ReplicaManagerTest, ANodeThatGoesStopsOnlyWhatIsLeftNearTheEnd) {
  manager_->Launch(MakeLaunch("r-0"));
  v1::LaunchReplica slow = MakeLaunch("r-1");
  slow.mutable_template_()->mutable_termination_grace_period()->set_seconds(60);
  manager_->Launch(slow);
  manager_->Launch(MakeLaunch("r-2"));
  manager_->Retire(clock_.Now() + absl::Seconds(100), "the node goes away");
  manager_->Launch(MakeLaunch("r-3"));
  EXPECT_EQ(LastReplica().replica_id(), "r-3");
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LOST);
  const auto stopped_at = [&](int seconds) {
    clock_.Advance(absl::Seconds(seconds));
    manager_->StopLeftovers();
    std::vector<std::string> ids;
    for (const FakeShims::StopCall& stop : shims_->stops) ids.push_back(stop.replica_id);
    return ids;
  };
  EXPECT_THAT(stopped_at(49), IsEmpty());
  EXPECT_THAT(stopped_at(1), ElementsAre("r-1"));  // not in the first half, whatever its grace period
  shims_->SayExited("r-2", Exit(143));             // it was moved
  EXPECT_THAT(stopped_at(17), ElementsAre("r-1"));
  EXPECT_THAT(stopped_at(1), ElementsAre("r-1", "r-0"));
  EXPECT_THAT(stopped_at(10), SizeIs(2)) << "each once";
  EXPECT_EQ(shims_->stops[0].grace_period, absl::Seconds(48)) << "no more than there is";
  EXPECT_EQ(shims_->stops[1].grace_period, absl::Seconds(30));
  EXPECT_THAT(shims_->launched, ElementsAre("r-0", "r-1", "r-2"));
}

TEST_F(ReplicaManagerTest, ARelativeWorkingDirectoryIsTheJobsFault) {
  v1::LaunchReplica launch = MakeLaunch("r-0", 1);
  launch.mutable_template_()->set_working_directory("data");
  manager_->Launch(launch);
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(LastReplica().exit_code(), 126);
  EXPECT_THAT(LastReplica().message(), HasSubstr("working_directory \"data\" is relative"));
  Restart();
  ASSERT_THAT(manager_->Unacknowledged(), SizeIs(1));
  EXPECT_EQ(manager_->Unacknowledged()[0].replica().exit_code(), 126);
}

TEST_F(ReplicaManagerTest, NamesThatCouldLeaveTheFolderAreRefused) {
  for (const std::string id : {"../evil", "a/b", ".hidden", "", "UPPER", "a\nb"}) {
    manager_->Launch(MakeLaunch(id));
    EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LOST) << id;
  }
  v1::LaunchReplica launch = MakeLaunch("r-0");
  launch.set_namespace_("..");
  manager_->Launch(launch);
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LOST);
  EXPECT_THAT(shims_->launched, IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "replicas"));
}

TEST_F(ReplicaManagerTest, DeletingAJobRemovesItsLogsAndFiles) {
  manager_->Launch(MakeLaunch("r-0"));
  shims_->SayExited("r-0", Exit(0));
  manager_->Launch(MakeLaunch("r-1"));
  const std::string job_folder = folder_ / absl::StrCat("storage/default/mnist-", kUid);
  TempFolder outside;
  WriteFile(outside / "precious", "data");
  std::filesystem::create_directory_symlink(outside.path(), job_folder + "/share/link");
  EXPECT_EQ(manager_->DeleteJob(MakeDelete()).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(job_folder));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "storage/default"));
  EXPECT_EQ(ReadFile(outside / "precious"), "data");
  EXPECT_FALSE(std::filesystem::exists(ReplicaFolder("r-0")));
  // The running one is killed, and goes when it has ended.
  ASSERT_THAT(shims_->stops, SizeIs(1));
  EXPECT_EQ(shims_->stops[0].grace_period, absl::ZeroDuration());
  EXPECT_TRUE(std::filesystem::exists(ReplicaFolder("r-1")));
  shims_->SayExited("r-1", {.signal = SIGKILL, .end_time = clock_.Now()});
  EXPECT_FALSE(std::filesystem::exists(ReplicaFolder("r-1")));
  EXPECT_THAT(manager_->Inventory(), IsEmpty());
  // Asked again, there is nothing left.
  EXPECT_TRUE(manager_->DeleteJob(MakeDelete()).ok());
}

TEST_F(ReplicaManagerTest, DeletingNeverFollowsALinkOutOfTheStorage) {
  TempFolder outside;
  std::filesystem::create_directories(outside / ("mnist-" + std::string(kUid)));
  std::filesystem::create_directory_symlink(outside.path(), folder_ / "storage/default");
  EXPECT_FALSE(manager_->DeleteJob(MakeDelete()).ok());
  EXPECT_TRUE(std::filesystem::exists(outside / ("mnist-" + std::string(kUid))));
  v1::DeleteJobFiles job = MakeDelete();
  job.set_job("../../x");
  EXPECT_FALSE(manager_->DeleteJob(job).ok());
}

TEST_F(ReplicaManagerTest, PrunesTheOldestAcknowledgedLogs) {
  for (const std::string id : {"r-0", "r-1", "r-2", "r-3"}) {
    manager_->Launch(MakeLaunch(id));
    WriteFile(ReplicaFolder(id) + "/replica.log", std::string(1000, 'x'));
    clock_.Advance(absl::Seconds(10));
    if (id != "r-3") shims_->SayExited(id, Exit(0));
    if (id != "r-2") manager_->Acknowledge(id);
  }
  EXPECT_EQ(manager_->PruneLogs(1, 1 << 20, 1 << 20), 3000);
  EXPECT_FALSE(std::filesystem::exists(ReplicaFolder("r-0")));
  EXPECT_TRUE(std::filesystem::exists(ReplicaFolder("r-1")));
  // What runs or is not acknowledged stays, however little space there is.
  EXPECT_EQ(manager_->PruneLogs(10, 0, 1 << 20), 2000);
  EXPECT_TRUE(std::filesystem::exists(ReplicaFolder("r-2")));
  EXPECT_TRUE(std::filesystem::exists(ReplicaFolder("r-3")));
  EXPECT_EQ(manager_->FindLog("r-1").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ReplicaManagerTest, AJobThatWritesMuchCostsNoOtherItsLogs) {
  const auto run = [&](const std::string& uid, const std::string& id, size_t bytes) {
    v1::LaunchReplica launch = MakeLaunch(id);
    launch.set_job_uid(uid);
    manager_->Launch(launch);
    WriteFile(ReplicaFolder(id) + "/replica.log", std::string(bytes, 'x'));
    shims_->SayExited(id, Exit(1));
    manager_->Acknowledge(id);
    clock_.Advance(absl::Seconds(10));
  };
  const auto kept = [&](const std::string& id) { return std::filesystem::exists(ReplicaFolder(id)); };
  run("quiet", "q-0", 500);  // the oldest of all
  for (int i = 0; i < 4; ++i) run("loud", absl::StrCat("l-", i), 1000);
  EXPECT_EQ(manager_->PruneLogs(100, 3000, 1 << 20), 2500);
  EXPECT_TRUE(kept("q-0"));
  EXPECT_FALSE(kept("l-1"));
  EXPECT_TRUE(kept("l-2"));
  // By the bound of one job, and by the number of replicas.
  EXPECT_EQ(manager_->PruneLogs(100, 1 << 20, 1999), 1500);
  EXPECT_TRUE(kept("l-3"));
  run("loud", "l-4", 1);
  run("loud", "l-5", 1);
  manager_->PruneLogs(2, 1 << 20, 1 << 20);
  EXPECT_TRUE(kept("q-0"));
  EXPECT_TRUE(kept("l-5"));
  EXPECT_FALSE(kept("l-4"));
}

TEST_F(ReplicaManagerTest, AStartThatHangsHoldsUpNobodyAndCanBeCalledOff) {
  lanes_.Hang();
  manager_->Launch(MakeLaunch("r-0", 2));
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LAUNCHING);
  EXPECT_THAT(manager_->Inventory(), SizeIs(1));
  manager_->Stop(MakeStop("r-0"));
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(LastReplica().exit_code(), 143);
  manager_->Acknowledge("r-0");
  manager_->Launch(MakeLaunch("r-1", 2));  // its GPUs are free
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LAUNCHING);
  EXPECT_EQ(manager_->PruneLogs(0, 0, 0), 0);
  lanes_.GoOn();
  EXPECT_THAT(shims_->launched, ElementsAre("r-1"));
  Restart();
  EXPECT_THAT(shims_->attached, ElementsAre("r-1"));
  ASSERT_THAT(manager_->Inventory(), SizeIs(1));
  EXPECT_EQ(manager_->Inventory()[0].replica().replica_id(), "r-1");
}

TEST_F(ReplicaManagerTest, AStartThatHangsTooLongIsGivenUp) {
  lanes_.Hang();
  manager_->Launch(MakeLaunch("r-0", 2));
  clock_.Advance(absl::Seconds(59));
  manager_->GiveUpOnStorage();
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LAUNCHING);
  clock_.Advance(absl::Seconds(1));
  manager_->GiveUpOnStorage();
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LOST);
  EXPECT_EQ(LastReplica().end_cause(), v1::END_CAUSE_STORAGE);
  EXPECT_THAT(LastReplica().message(), HasSubstr("the storage does not answer"));
  lanes_.GoOn();
  EXPECT_THAT(shims_->launched, IsEmpty());
  Restart();
  EXPECT_THAT(shims_->attached, IsEmpty());
  EXPECT_EQ(manager_->Unacknowledged()[0].replica().state(), v1::REPLICA_STATE_LOST);
}

TEST_F(ReplicaManagerTest, AStopThatComesWhileTheShimStartsIsCarriedOutAfterwards) {
  shims_->while_launching = [&](const std::string& id) {
    v1::StopReplica stop = MakeStop(id);
    stop.mutable_grace_period()->set_seconds(4);
    manager_->Stop(stop);
    EXPECT_THAT(manager_->Inventory(), SizeIs(1));
    EXPECT_THAT(shims_->stops, IsEmpty());
  };
  manager_->Launch(MakeLaunch("r-0"));
  ASSERT_THAT(shims_->stops, SizeIs(1));
  EXPECT_EQ(shims_->stops[0].grace_period, absl::Seconds(4));
}

TEST_F(ReplicaManagerTest, AJobThatIsDeletedWhileItStartsLeavesNothing) {
  lanes_.Hang();
  manager_->Launch(MakeLaunch("r-0"));
  EXPECT_FALSE(manager_->DeleteJob(MakeDelete()).ok());
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_EXITED);
  lanes_.GoOn();
  EXPECT_THAT(shims_->launched, IsEmpty());
  EXPECT_THAT(manager_->Inventory(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "replicas"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "storage"));
}

TEST_F(ReplicaManagerTest, SaysWhoseFaultALaunchThatFailsIs) {
  manager_->Launch(MakeLaunch("gpus", 3));
  EXPECT_EQ(LastReplica().end_cause(), v1::END_CAUSE_NODE);
  v1::LaunchReplica relative = MakeLaunch("relative");
  relative.mutable_template_()->set_working_directory("data");
  manager_->Launch(relative);
  EXPECT_EQ(LastReplica().end_cause(), v1::END_CAUSE_JOB);
  shims_->launch_status = absl::ResourceExhaustedError("no more processes");
  manager_->Launch(MakeLaunch("spawn"));
  EXPECT_EQ(LastReplica().end_cause(), v1::END_CAUSE_NODE);
  shims_->launch_status = absl::OkStatus();
  manager_->Launch(MakeLaunch("r-0"));
  manager_->Retire(clock_.Now() + absl::Seconds(10), "the node goes away");
  manager_->Launch(MakeLaunch("late"));
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_LOST);
  EXPECT_EQ(LastReplica().end_cause(), v1::END_CAUSE_PREEMPTION);
  // What the node has stopped itself, however it takes that.
  clock_.Advance(absl::Seconds(9));
  manager_->StopLeftovers();
  shims_->SayExited("r-0", Exit(1));
  EXPECT_EQ(LastReplica().end_cause(), v1::END_CAUSE_PREEMPTION);
  Restart();
  for (const v1::ReplicaReport& report : manager_->Unacknowledged()) {
    if (report.replica().replica_id() == "r-0") {
      EXPECT_EQ(report.replica().end_cause(), v1::END_CAUSE_PREEMPTION);
    }
  }
}

TEST_F(ReplicaManagerTest, TriesTheStorageWhenAProcessHasFailed) {
  const std::string job_folder = folder_ / absl::StrCat("storage/default/mnist-", kUid);
  const auto cause_of = [&](const std::string& id, const ExitRecord& record) {
    shims_->SayExited(id, record);
    EXPECT_EQ(LastReplica().replica_id(), id);
    EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_EXITED);
    return LastReplica().end_cause();
  };
  for (const std::string id : {"works", "fails", "stops", "bus"}) manager_->Launch(MakeLaunch(id));
  EXPECT_EQ(cause_of("works", Exit(1)), v1::END_CAUSE_UNSPECIFIED);
  EXPECT_TRUE(std::filesystem::exists(job_folder));
  // Nothing can be written any more where its folder was.
  std::filesystem::remove_all(job_folder);
  WriteFile(job_folder, "");
  EXPECT_EQ(cause_of("fails", Exit(1)), v1::END_CAUSE_STORAGE);
  EXPECT_THAT(LastReplica().message(), HasSubstr("the storage does not work"));
  EXPECT_EQ(cause_of("stops", Exit(143)), v1::END_CAUSE_UNSPECIFIED);
  EXPECT_EQ(cause_of("bus", {.signal = SIGBUS, .end_time = clock_.Now()}), v1::END_CAUSE_STORAGE);
}

TEST_F(ReplicaManagerTest, AStorageThatDoesNotAnswerAfterAFailureIsToBlame) {
  manager_->Launch(MakeLaunch("r-0"));
  shims_->SayRunning("r-0");
  lanes_.Hang();
  shims_->SayExited("r-0", Exit(1));
  manager_->GiveUpOnStorage();
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_RUNNING);
  clock_.Advance(absl::Seconds(5));
  manager_->GiveUpOnStorage();
  EXPECT_EQ(LastReplica().state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(LastReplica().end_cause(), v1::END_CAUSE_STORAGE);
  const size_t reports = reports_.size();
  lanes_.GoOn();
  EXPECT_EQ(reports_.size(), reports);
}

TEST_F(ReplicaManagerTest, CountsExitsByKind) {
  const std::vector<std::pair<ExitRecord, std::string>> exits = {
      {Exit(0), "succeeded"},
      {Exit(143), "stopped"},
      {{.signal = SIGTERM, .end_time = clock_.Now()}, "stopped"},
      {Exit(75), "peer_lost"},
      {Exit(1), "failed"},
      {{.signal = SIGKILL, .end_time = clock_.Now()}, "killed"},
      {{.lost = true, .end_time = clock_.Now()}, "lost"}};
  for (size_t i = 0; i < exits.size(); ++i) {
    manager_->Launch(MakeLaunch(absl::StrCat("r-", i)));
    shims_->SayExited(absl::StrCat("r-", i), exits[i].first);
  }
  const ReplicaStats stats = manager_->Stats();
  EXPECT_EQ(stats.launches, 7);
  EXPECT_EQ(stats.exits.at("stopped"), 2);
  for (const auto& [record, kind] : exits) EXPECT_GE(stats.exits.at(kind), 1) << kind;
  EXPECT_EQ(stats.by_state.at(v1::REPLICA_STATE_LOST), 1);
}

}  // namespace
}  // namespace adaptdl::worker
