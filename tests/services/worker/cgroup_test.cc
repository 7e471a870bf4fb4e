// The files of control groups, played by a folder: what is written where, and what is concluded from them.

#include "services/worker/shim/cgroup.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::HasSubstr;

class CgroupTest : public ::testing::Test {
 protected:
  // A group, with the files that the kernel would put there.
  void Group(const std::string& path, const std::string& controllers = "cpuset cpu io memory pids") {
    std::filesystem::create_directories(folder_ / path);
    WriteFile(folder_ / (path + "/cgroup.controllers"), controllers + "\n");
    for (const char* file : {"cgroup.procs", "cgroup.subtree_control", "cgroup.kill", "cpu.weight",
                             "memory.max", "memory.oom.group", "pids.max"}) {
      WriteFile(folder_ / (path + "/" + file), "");
    }
  }
  absl::StatusOr<std::string> Take(const std::string& self) {
    WriteFile(folder_ / "self", self);
    return TakeCgroups(folder_.path(), folder_ / "self");
  }
  std::string Read(const std::string& path) { return ReadFile(folder_ / path); }

  TempFolder folder_;
};

TEST_F(CgroupTest, MovesTheWorkerOutOfItsGroupAndDividesThat) {
  Group("service");
  Group("service/adaptdl-worker");
  const auto base = Take("1:name=systemd:/x\n0::/service\n");
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(*base, folder_ / "service");
  EXPECT_EQ(Read("service/adaptdl-worker/cgroup.procs"), "0");
  EXPECT_EQ(Read("service/cgroup.subtree_control"), "+cpu +memory +pids");
}

TEST_F(CgroupTest, AWorkerThatWasPlacedStaysWhereItIs) {
  Group("service");
  Group("service/adaptdl-worker");
  const auto base = Take("0::/service/adaptdl-worker\n");
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(*base, folder_ / "service");
  EXPECT_EQ(Read("service/adaptdl-worker/cgroup.procs"), "");
}

TEST_F(CgroupTest, SaysWhyThereAreNone) {
  EXPECT_THAT(std::string(Take("4:memory:/x\n").status().message()), HasSubstr("version 2"));
  Group("service", "cpuset cpu pids");
  EXPECT_THAT(std::string(Take("0::/service\n").status().message()), HasSubstr("memory"));
  Group("bare");
  // Its sub-group gets no files of the kernel's: as if nothing could be written.
  EXPECT_EQ(Take("0::/bare\n").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "bare/adaptdl-worker"));
}

TEST_F(CgroupTest, GroupsOfReplicasThatHaveEndedGo) {
  Group("service");
  Group("service/adaptdl-worker");
  std::filesystem::create_directories(folder_ / "service/replica-ended");
  ASSERT_TRUE(Take("0::/service\n").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "service/replica-ended"));
}

TEST_F(CgroupTest, WritesTheLimitsOfAReplica) {
  Group("base/replica-r");
  const auto group =
      MakeCgroup(folder_ / "base", "r", {.cpu_millis = 2500, .memory_bytes = 1 << 30, .max_processes = 100});
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(Read("base/replica-r/cpu.weight"), "250");
  EXPECT_EQ(Read("base/replica-r/memory.max"), "1073741824");
  EXPECT_EQ(Read("base/replica-r/memory.oom.group"), "1");
  EXPECT_EQ(Read("base/replica-r/pids.max"), "100");
}

TEST_F(CgroupTest, CountsWhatTheKernelEndedForWantOfMemory) {
  Group("r");
  EXPECT_EQ(OutOfMemoryKills(folder_ / "r"), 0);
  WriteFile(folder_ / "r/memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n");
  EXPECT_EQ(OutOfMemoryKills(folder_ / "r"), 2);
}

}  // namespace
}  // namespace adaptdl::worker
