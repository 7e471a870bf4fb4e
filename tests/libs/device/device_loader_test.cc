#include "libs/device/device_loader.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DeviceLoader, OpensALibraryWithDevices) {
  const auto plugin = OpenDevicePlugin(FAKE_PLUGIN);
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ((*plugin)->count().value(), 1);
  EXPECT_EQ((*plugin)->at(0).value()->name(), "fake");
  EXPECT_TRUE(absl::IsInvalidArgument((*plugin)->at(1).status()));
}

TEST(DeviceLoader, RefusesALibraryOfAnotherBuild) {
  const absl::Status status = OpenDevicePlugin(STALE_PLUGIN).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("of another build (older)"), HasSubstr("version")));
}

TEST(DeviceLoader, SaysWhatToDoWithoutALibrary) {
  const absl::Status status = OpenDevicePlugin("/nowhere/libadaptdl_cuda.so").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("/nowhere"), HasSubstr("ADAPTDL_CUDA_LIBRARY")));
}

}  // namespace
}  // namespace adaptdl::device
