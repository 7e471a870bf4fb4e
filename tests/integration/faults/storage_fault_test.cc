// Shared storage that fails for a while, under real programs: it takes the job's time, and nothing else.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);
// How long the storage fails: several attempts to start the job again fall into it.
constexpr absl::Duration kOutage = absl::Seconds(12);

class StorageFaultTest : public testing::Test {
 protected:
  StorageFaultTest() : cluster_({.workers = 1, .allocator = false}) {
    std::filesystem::create_directories(Gate());
    cluster_.SetWorkerEnvironment(Disk());
  }

  std::string Gate() const { return cluster_.folder() + "/gate"; }
  std::string Finish() const { return cluster_.folder() + "/finish"; }
  // What makes a program have a disk that can fail.
  std::vector<std::string> Disk() const {
    return {absl::StrCat("LD_PRELOAD=", HANGING_DISK),
            absl::StrCat("HANGING_DISK_FOLDER=", cluster_.storage()),
            absl::StrCat("HANGING_DISK_GATE=", Gate())};
  }

  void SetFailing(bool failing) const {
    for (const char* call : {"mkdir", "open"}) {
      const std::string mark = absl::StrCat(Gate(), "/", call, ".fails");
      if (failing) {
        ASSERT_TRUE(WriteFileAtomically(mark, "", 0600).ok());
      } else {
        ASSERT_TRUE(std::filesystem::remove(mark));
      }
    }
  }

  int64_t Told(const std::string& reason) {
    int64_t told = 0;
    for (const v1::Event& event : cluster_.Events("job")) {
      if (event.reason() == reason) told += std::max<int64_t>(1, event.count());
    }
    return told;
  }

  TestCluster cluster_;
};

// Its program writes checkpoints, and fails when it can't; it allows itself no failure.
TEST_F(StorageFaultTest, AJobOutlivesAnOutage) {
  const absl::Status started = cluster_.Start();
  ASSERT_TRUE(started.ok()) << started;
  std::vector<std::string> command = {"/usr/bin/env"};
  for (const std::string& variable : Disk()) command.push_back(variable);
  command.insert(
      command.end(),
      {"/bin/sh", "-c",
       absl::StrCat("echo begun; while [ ! -e ", Finish(),
                    " ]; do echo step > $ADAPTDL_CHECKPOINT_PATH/state || exit 1; sleep 0.05; done")});
  v1::Job job = cluster_.CommandJob("job", command);
  job.mutable_spec()->set_max_restarts(0);
  const auto submitted = cluster_.Submit(job);
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  ASSERT_TRUE(cluster_.Allocate("job", {"node-0"}).ok());
  ASSERT_TRUE(cluster_.WaitForLog("job", "begun", kPatience)) << cluster_.Logs("job");

  SetFailing(true);
  const auto noticed = cluster_.WaitForJob(
      "job", [](const v1::Job& job) { return job.status().restarts() > 0; }, kPatience);
  ASSERT_TRUE(noticed.ok()) << noticed.status();
  absl::SleepFor(kOutage);
  EXPECT_GE(Told("InfrastructureFault"), 3) << "attempts fell into the outage";
  const auto during = cluster_.GetJob("job");
  ASSERT_TRUE(during.ok()) << during.status();
  SetFailing(false);

  const auto after = cluster_.WaitForJob("job", RunningAfterGroup(during->status().group()), kPatience);
  ASSERT_TRUE(after.ok()) << after.status() << "\n" << cluster_.Logs("job");
  ASSERT_TRUE(WriteFileAtomically(Finish(), "", 0600).ok());
  const auto done = cluster_.WaitForJob("job", Finished, kPatience);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->status().phase(), v1::JOB_PHASE_SUCCEEDED) << done->DebugString() << cluster_.Logs("job");
  EXPECT_EQ(done->status().failures(), 0);
}

}  // namespace
}  // namespace adaptdl::integration
