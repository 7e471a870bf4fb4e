#include "services/worker/devices.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DeviceTableTest, GivesNothingIfThereIsNotEnough) {
  DeviceTable table({"GPU-a", "GPU-b"});
  EXPECT_EQ(table.Take("r", 3).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(table.Take("r", 2).value(), ElementsAre("GPU-a", "GPU-b"));
}

TEST(DeviceTableTest, RecordsOfAnEarlierWorkerMayUseOtherNames) {
  DeviceTable table({"GPU-a", "MIG-1", "MIG-2", "GPU-c"},
                    {{"0", {"GPU-a"}}, {"1", {"MIG-1", "MIG-2"}}, {"GPU-ab", {"GPU-a"}}});
  table.Restore("old", {"1"});
  EXPECT_THAT(table.Take("new", 2).value(), ElementsAre("GPU-a", "GPU-c"));
  table.Release("old");
  EXPECT_THAT(table.Take("next", 2).value(), ElementsAre("MIG-1", "MIG-2"));
}

TEST(DeviceTableTest, ADeviceThatIsCalledLikeANumberIsMeantByIt) {
  DeviceTable table({"0", "1"}, {{"0", {"1"}}});
  table.Restore("old", {"0"});
  EXPECT_THAT(table.Take("new", 1).value(), ElementsAre("1"));
}

TEST(DeviceTableTest, WhatIsUnknownTakesNothingAway) {
  DeviceTable table({"GPU-a"});
  table.Restore("old", {"GPU-gone"});
  EXPECT_EQ(table.offered(), 1);
  EXPECT_THAT(table.Take("new", 1).value(), ElementsAre("GPU-a"));
}

TEST(DeviceTableTest, UnfitOnesStayWithTheirOwnerAndGoToNobodyElse) {
  DeviceTable table({"GPU-a", "GPU-b", "GPU-c"});
  ASSERT_TRUE(table.Take("r", 1).ok());
  table.SetUnfit({"GPU-a", "GPU-b"});
  EXPECT_EQ(table.unfit(), 2);
  EXPECT_EQ(table.offered(), 2);
  table.Release("r");
  EXPECT_EQ(table.offered(), 1);
  EXPECT_THAT(std::string(table.Take("s", 2).status().message()),
              HasSubstr("only 1 are free, and 2 do not work"));
  EXPECT_THAT(table.Take("s", 1).value(), ElementsAre("GPU-c"));
  table.SetUnfit({"GPU-b"});
  EXPECT_THAT(table.Take("t", 1).value(), ElementsAre("GPU-a"));
  EXPECT_THAT(table.Take("u", 0).value(), IsEmpty());
}

}  // namespace
}  // namespace adaptdl::worker
