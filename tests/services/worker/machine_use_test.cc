#include "services/worker/machine_use.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

constexpr char kMemory[] = "MemTotal:  1000 kB\nMemFree:   100 kB\nMemAvailable:    400 kB\n";

std::string Stat(int busy, int idle) {
  return absl::StrCat("cpu  ", busy, " 0 0 ", idle, " 0 0 0 0 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\ncpu2 0\n");
}

TEST(ProcessorTimeTest, CountsWhatIsBusy) {
  const auto time = ParseProcessorTime("cpu  1 2 3 100 200 10 20 30 7 9\ncpu0 1\ncpu1 1\nintr 77 8\n");
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time->processors, 2);
  EXPECT_EQ(time->busy, 1 + 2 + 3 + 10 + 20 + 30)
      << "what guests take is in it already; who waits for a disk is idle";
  EXPECT_EQ(time->all, 366);
}

TEST(ProcessorTimeTest, IsAbsentWhereTheKernelDoesNotSay) {
  for (const char* text :
       {"", "cpu", "cpu 1 2 3\ncpu0 1\n", "cpu a b c d e f g h\ncpu0 1\n", "cpu 1 2 3 4 5 6 7 8\n"}) {
    EXPECT_FALSE(ParseProcessorTime(text).has_value()) << text;
  }
}

TEST(MemoryTest, WhatCanBeTakenBackIsNotInUse) {
  const auto memory = ParseMemory(kMemory);
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->used_bytes, 600 * 1024);
  EXPECT_EQ(memory->total_bytes, 1000 * 1024);
  for (const char* text :
       {"", "MemTotal: 1000 kB\n", "MemTotal:\nMemAvailable: 1 kB\n",
        "MemTotal: 99999999999999999 kB\nMemAvailable: 1 kB\n", "MemTotal: -1 kB\nMemAvailable: 1 kB\n"}) {
    EXPECT_FALSE(ParseMemory(text).has_value()) << text;
  }
}

class MachineWatchTest : public testing::Test {
 protected:
  MachineWatchTest() {
    WriteFile(folder_ / "stat", Stat(50, 50));
    WriteFile(folder_ / "meminfo", kMemory);
  }

  TempFolder folder_;
  ManualClock clock_;
  std::vector<GpuOnMachine> gpus_;
  MachineWatch watch_{{.stat_file = folder_ / "stat", .meminfo_file = folder_ / "meminfo"}, &clock_, [this] {
                        return gpus_;
                      }};
};

TEST_F(MachineWatchTest, SaysHowBusyProcessorsWereSinceTheLookBefore) {
  EXPECT_EQ(watch_.Look()->busy_processors, 1) << "since the machine's start: half of two";
  WriteFile(folder_ / "stat", Stat(125, 75));
  EXPECT_EQ(watch_.Look()->busy_processors, 1) << "no new look within a second";
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(watch_.Look()->busy_processors, 1.5);
  EXPECT_EQ(watch_.Look()->processors, 2);
  // A processor went away, and its time with it.
  WriteFile(folder_ / "stat", Stat(10, 20));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(watch_.Look()->busy_processors, 0);
}

TEST_F(MachineWatchTest, SaysNothingOfAMachineThatItCannotSee) {
  WriteFile(folder_ / "meminfo", "");
  EXPECT_FALSE(watch_.Look().has_value());
}

TEST_F(MachineWatchTest, TellsWhatItKnowsOfGpus) {
  gpus_ = {
      {.index = 0, .uuid = "GPU-a", .figures = {.utilization = 0.5, .memory_bytes = 3, .power_watts = 70}},
      {.index = 3, .uuid = "GPU-b", .figures = {.temperature_celsius = 40}}};
  const v1::MachineUse use = watch_.Look()->ToProto();
  EXPECT_EQ(use.cpus(), 1);
  EXPECT_EQ(use.memory_bytes(), 600 * 1024);
  ASSERT_EQ(use.gpus_size(), 2);
  EXPECT_EQ(use.gpus(0).uuid(), "GPU-a");
  EXPECT_EQ(use.gpus(0).utilization(), 0.5);
  EXPECT_EQ(use.gpus(0).memory_bytes(), 3);
  EXPECT_EQ(use.gpus(0).power_watts(), 70);
  EXPECT_FALSE(use.gpus(0).has_temperature_celsius());
  EXPECT_EQ(use.gpus(1).index(), 3);
  EXPECT_EQ(use.gpus(1).temperature_celsius(), 40);
  EXPECT_FALSE(use.gpus(1).has_power_watts());
}

}  // namespace
}  // namespace adaptdl::worker
