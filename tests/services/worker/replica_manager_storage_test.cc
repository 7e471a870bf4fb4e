// Replicas whose jobs' files are elsewhere while none of them runs here.

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "services/worker/replica_manager.h"
#include "services/worker/shim/records.h"
#include "tests/services/worker/fake_shims.h"
#include "tests/services/worker/lanes.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

// Remembers what it was asked for, and answers as the test likes.
class FakeJobStore final : public JobStore {
 public:
  absl::Status Enter(const Job& job, const std::string& replica_id,
                     const std::function<void()>& progress) override {
    progress();
    if (enter.ok()) inside.insert(job.name + " " + replica_id);
    return enter;
  }
  absl::Status FetchStart(const Job& job, const Job& source, const std::function<void()>& progress) override {
    progress();
    started_from.push_back(source.name);
    if (start.ok()) std::filesystem::create_directories(job.folder + "/start");
    return start;
  }
  void Adopt(const Job& job, const std::string& replica_id) override {
    inside.insert(job.name + " " + replica_id);
  }
  absl::Status Leave(const std::string& job, const std::string& replica_id, bool save) override {
    inside.erase(job + " " + replica_id);
    saved.push_back(save);
    return leave;
  }
  absl::Status Remove(const std::string& job) override {
    removed.push_back(job);
    return absl::OkStatus();
  }
  void SetErrorSink(ErrorSink sink) override { tell = std::move(sink); }

  absl::Status enter;
  absl::Status start;
  absl::Status leave;
  std::vector<std::string> started_from;
  std::set<std::string> inside;
  std::vector<bool> saved;
  std::vector<std::string> removed;
  ErrorSink tell;
};

constexpr char kJob[] = "default/mnist-0123456789abcdef";

class ReplicaManagerStorageTest : public ::testing::Test {
 protected:
  void SetUp() override { Restart(); }

  void Restart() {
    manager_.reset();
    shims_ = std::make_unique<FakeShims>();
    auto manager = ReplicaManager::Create({.state_dir = folder_.path(),
                                           .node = {.node_id = "node-a",
                                                    .replica_host = "",
                                                    .supervisor_address = "",
                                                    .data_folder = folder_ / "data"},
                                           .devices = {},
                                           .job_store = &jobs_,
                                           .data_cache = &data_},
                                          *JobStorage::Create(folder_ / "storage", {.user = "self"}), &clock_,
                                          shims_.get(), &lanes_);
    ASSERT_TRUE(manager.ok()) << manager.status();
    manager_ = *std::move(manager);
    manager_->SetSink([this](const v1::ReplicaReport& report) { last_ = report.replica(); });
  }
  void Launch(const std::string& data_url = "", const std::string& start_from = "") {
    v1::LaunchReplica launch;
    launch.set_namespace_("default");
    launch.set_job("mnist");
    launch.set_job_uid("0123456789abcdef");
    launch.set_replica_id("r-0");
    launch.set_num_replicas(1);
    launch.mutable_template_()->add_command("true");
    if (!data_url.empty()) {
      v1::DataSet* set = launch.mutable_template_()->add_data_sets();
      set->set_name("train");
      set->set_url(data_url);
    }
    if (!start_from.empty()) {
      launch.mutable_start_from()->set_job(start_from);
      launch.mutable_start_from()->set_job_uid("fedcba9876543210");
    }
    manager_->Launch(launch);
  }
  // Whether the replica is told of a start.
  bool HasStart() {
    const auto spec =
        ProcessSpecFromLaunchFile(ReadFile(folder_ / absl::StrCat("replicas/r-0/", kLaunchFile)));
    EXPECT_TRUE(spec.ok()) << spec.status();
    const std::string path = folder_ / absl::StrCat("storage/", kJob, "/start");
    return spec.ok() && ::testing::Value(spec->env, Contains(Pair("ADAPTDL_START_PATH", path)));
  }
  ExitRecord Exit(int code) {
    return {.exit_code = code, .start_time = clock_.Now(), .end_time = clock_.Now()};
  }

  TempFolder folder_;
  ManualClock clock_;
  ManualLanes lanes_;
  FakeJobStore jobs_;
  DataCache data_{{.folder = folder_ / "data", .boot_id = "boot", .jobs = std::nullopt},
                  [](const std::string&) { return absl::UnavailableError("away"); },
                  &clock_};
  std::unique_ptr<FakeShims> shims_;
  std::unique_ptr<ReplicaManager> manager_;
  v1::Replica last_;
};

TEST_F(ReplicaManagerStorageTest, TheEndIsToldWhenAllOfItIsSaved) {
  Launch();
  EXPECT_THAT(jobs_.inside, ElementsAre(absl::StrCat(kJob, " r-0")));
  shims_->SayRunning("r-0");
  lanes_.Hang();
  shims_->SayExited("r-0", Exit(143));
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_RUNNING);
  // However long that takes.
  clock_.Advance(absl::Minutes(2));
  manager_->GiveUpOnStorage();
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_RUNNING);
  lanes_.GoOn();
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(last_.exit_code(), 143);
  EXPECT_EQ(last_.message(), "");
  EXPECT_THAT(jobs_.saved, ElementsAre(true));
  EXPECT_THAT(jobs_.inside, IsEmpty());
}

TEST_F(ReplicaManagerStorageTest, WhatCouldNotBeSavedIsSaidWithTheEnd) {
  Launch();
  shims_->SayRunning("r-0");
  jobs_.leave = absl::DeadlineExceededError("too slow");
  shims_->SayExited("r-0", Exit(143));
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_EXITED);
  EXPECT_THAT(last_.message(), HasSubstr("too slow"));
}

TEST_F(ReplicaManagerStorageTest, AStoreThatIsAwayIsToBlameForAStartThatFails) {
  jobs_.enter = absl::UnavailableError("away");
  Launch();
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_LOST);
  EXPECT_EQ(last_.end_cause(), v1::END_CAUSE_STORAGE);
  EXPECT_THAT(shims_->launched, IsEmpty());
}

TEST_F(ReplicaManagerStorageTest, CheckpointsThatCannotBeSavedAreToldWhileTheReplicaRuns) {
  Launch();
  shims_->SayRunning("r-0");
  jobs_.tell(kJob, "away");
  EXPECT_EQ(last_.message(), "away");
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_RUNNING);
  jobs_.tell("default/other-1", "something else");
  EXPECT_EQ(last_.message(), "away");
  jobs_.tell(kJob, "");
  EXPECT_EQ(last_.message(), "");
}

TEST_F(ReplicaManagerStorageTest, AnEndThatNoWorkerSawIsSavedByTheNextOne) {
  Launch();
  shims_->SayRunning("r-0");
  WriteFile(folder_ / absl::StrCat("replicas/r-0/", kExitFile), ExitRecordToJson(Exit(143)));
  jobs_.saved.clear();
  Restart();
  EXPECT_THAT(jobs_.saved, ElementsAre(true));
  ASSERT_EQ(manager_->Inventory().size(), 1);
  EXPECT_EQ(manager_->Inventory()[0].replica().state(), v1::REPLICA_STATE_EXITED);
}

TEST_F(ReplicaManagerStorageTest, AJobBeginsWithAnothersCheckpointAsLongAsItHasNone) {
  Launch("", "parent");
  ASSERT_THAT(shims_->launched, ElementsAre("r-0"));
  EXPECT_THAT(jobs_.started_from, ElementsAre("default/parent-fedcba9876543210"));
  EXPECT_TRUE(HasStart());
  // It is fetched once, and then not asked for any more.
  for (const bool own : {false, true}) {
    std::filesystem::remove_all(folder_ / "replicas/r-0");
    if (own) WriteFile(folder_ / absl::StrCat("storage/", kJob, "/checkpoint/state"), "its own");
    Restart();
    Launch("", "parent");
    EXPECT_THAT(jobs_.started_from, SizeIs(1));
    EXPECT_EQ(HasStart(), !own);
  }
}

TEST_F(ReplicaManagerStorageTest, AStartThatIsNotThereIsTheJobsFault) {
  jobs_.start = absl::NotFoundError("none");
  Launch("", "parent");
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(last_.end_cause(), v1::END_CAUSE_JOB);
  EXPECT_THAT(last_.message(), HasSubstr("spec.start_from: job \"parent\" has written no checkpoint"));
  EXPECT_THAT(jobs_.inside, IsEmpty());
  std::filesystem::remove_all(folder_ / "replicas/r-0");
  Restart();
  jobs_.start = absl::UnavailableError("away");
  Launch("", "parent");
  EXPECT_EQ(last_.end_cause(), v1::END_CAUSE_STORAGE);
  EXPECT_THAT(shims_->launched, IsEmpty());
}

TEST_F(ReplicaManagerStorageTest, AStartWithANameThatLeadsElsewhereIsRefused) {
  Launch("", "../other");
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_LOST);
  EXPECT_THAT(jobs_.started_from, IsEmpty());
}

TEST_F(ReplicaManagerStorageTest, DataSetsAreThereBeforeTheReplicaAndAsLongAsIt) {
  std::filesystem::create_directory(folder_ / "shared");
  Launch("file://" + folder_ / "shared");
  ASSERT_THAT(shims_->launched, ElementsAre("r-0"));
  const std::string view = folder_ / "data/.views/r-0";
  EXPECT_TRUE(std::filesystem::is_directory(view + "/train"));
  const auto spec = ProcessSpecFromLaunchFile(ReadFile(folder_ / absl::StrCat("replicas/r-0/", kLaunchFile)));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->env, ::testing::Contains(::testing::Pair("ADAPTDL_DATA_PATH", view)));
  shims_->SayRunning("r-0");
  shims_->SayExited("r-0", Exit(0));
  EXPECT_FALSE(std::filesystem::exists(view));
}

TEST_F(ReplicaManagerStorageTest, SaysWhoseFaultItIsThatDataAreNotThere) {
  Launch("file:///no/such/folder");
  EXPECT_EQ(last_.state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(last_.end_cause(), v1::END_CAUSE_JOB);
  EXPECT_THAT(last_.message(), HasSubstr("data set \"train\": there is no folder"));
  EXPECT_THAT(jobs_.inside, IsEmpty());
  std::filesystem::remove_all(folder_ / "replicas/r-0");
  Restart();
  Launch("s3://data/train");
  EXPECT_EQ(last_.end_cause(), v1::END_CAUSE_STORAGE);
  EXPECT_THAT(shims_->launched, IsEmpty());
}

TEST_F(ReplicaManagerStorageTest, ADeletedJobIsRemovedThereToo) {
  Launch();
  shims_->SayRunning("r-0");
  v1::DeleteJobFiles job;
  job.set_namespace_("default");
  job.set_job("mnist");
  job.set_job_uid("0123456789abcdef");
  EXPECT_EQ(manager_->DeleteJob(job).code(), absl::StatusCode::kUnavailable);
  shims_->SayExited("r-0", {.signal = 9, .end_time = clock_.Now()});
  EXPECT_THAT(jobs_.saved, ElementsAre(false)) << "nobody wants it";
  EXPECT_TRUE(manager_->DeleteJob(job).ok());
  EXPECT_EQ(jobs_.removed.back(), kJob);
}

}  // namespace
}  // namespace adaptdl::worker
