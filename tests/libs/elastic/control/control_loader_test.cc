// Not linked with gRPC: the library brings its own.

#include "libs/elastic/control/control_loader.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::elastic {
namespace {

TEST(ControlLoader, OpensTheLibraryAndSpeaksThroughIt) {
  GrpcControlPlaneOptions options;
  options.supervisor_address = "127.0.0.1:1";
  auto control = LoadGrpcControlPlane(options, CONTROL_LIBRARY);
  ASSERT_TRUE(control.ok()) << control.status();
  // Nobody listens there: the call goes out, and comes back.
  EXPECT_FALSE((*control)->ReportHints({}).ok());
}

TEST(ControlLoader, SaysWhereItLookedWhenThereIsNone) {
  const auto control = LoadGrpcControlPlane({}, "/nowhere/libadaptdl_control.so");
  EXPECT_EQ(control.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(control.status().message()), ::testing::HasSubstr("/nowhere/"));
  EXPECT_THAT(std::string(control.status().message()), ::testing::HasSubstr("ADAPTDL_CONTROL_LIBRARY"));
}

}  // namespace
}  // namespace adaptdl::elastic
