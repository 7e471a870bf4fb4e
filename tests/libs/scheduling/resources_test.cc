#include "libs/scheduling/resources.h"

#include "gtest/gtest.h"

namespace adaptdl::scheduling {
namespace {

TEST(Resources, AreDescribedWithTheirUnits) {
  EXPECT_EQ(Describe({{kCpu, 4000}, {kGpu, 1}, {kMemory, 1 << 30}}), "4000m CPU, 1 GPU, 1024 MiB of memory");
  EXPECT_EQ(Describe({}), "nothing");
  EXPECT_EQ(TimesThatFit({{kCpu, 300}}, {{kCpu, 1000}}, 10), 3);
  EXPECT_EQ(TimesThatFit({{"example.com/fpga", 1}}, {{kCpu, 1000}}, 10), 0);
  EXPECT_EQ(TimesThatFit({}, {}, 10), 10);
}

}  // namespace
}  // namespace adaptdl::scheduling
