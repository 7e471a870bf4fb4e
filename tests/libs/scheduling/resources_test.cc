#include "libs/scheduling/resources.h"

#include "gtest/gtest.h"

namespace adaptdl::scheduling {
namespace {

TEST(Resources, AreDescribedWithTheirUnits) {
  EXPECT_EQ(Describe({{kCpu, 4000}, {kGpu, 1}, {kMemory, 1 << 30}}), "4 CPUs, 1 GPU, 1 GiB of memory");
  EXPECT_EQ(Describe({{kCpu, 1000}, {kMemory, 512 << 20}}), "1 CPU, 512 MiB of memory");
  EXPECT_EQ(Describe({{kCpu, 1}}), "0.001 CPUs");
  EXPECT_EQ(Describe({}), "nothing");
  EXPECT_EQ(TimesThatFit({{kCpu, 300}}, {{kCpu, 1000}}, 10), 3);
  EXPECT_EQ(TimesThatFit({{"example.com/fpga", 1}}, {{kCpu, 1000}}, 10), 0);
  EXPECT_EQ(TimesThatFit({}, {}, 10), 10);
}

}  // namespace
}  // namespace adaptdl::scheduling
